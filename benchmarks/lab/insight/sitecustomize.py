"""Lets a server tell how many greenlets it holds, which nothing outside can see: loaded by Python itself where this
folder stands in `PYTHONPATH`. On a signal that nobody else uses, the number goes into a file of the process's folder.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

ASK = signal.SIGRTMIN + 7
ANSWER = "greenlets.{pid}"


def _tell(*_: object) -> None:
    greenlet = sys.modules.get("greenlet")
    living = sum(isinstance(one, greenlet.greenlet) and not one.dead for one in gc.get_objects()) if greenlet else 0
    target = Path(ANSWER.format(pid=os.getpid()))
    target.with_suffix(".part").write_text(str(living), encoding="ascii")
    target.with_suffix(".part").rename(target)


signal.signal(ASK, _tell)
