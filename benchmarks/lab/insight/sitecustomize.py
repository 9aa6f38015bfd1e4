"""Lets a server tell which greenlets its event loop holds, which nothing outside can see: loaded by Python itself where
this folder stands in `PYTHONPATH`. On a signal that nobody else uses, they go into a file of the process's folder: a
line for each, with the places where it stands, innermost first.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ASK = signal.SIGRTMIN + 7
ANSWER = "greenlets.{pid}"


def _tell(*_: object) -> None:
    """Signals reach the main thread, which has the event loop; the greenlets of other threads are the threads' own."""
    greenlet = sys.modules.get("greenlet")
    loop = _root(greenlet.getcurrent()) if greenlet else None
    found = [one for one in gc.get_objects() if isinstance(one, greenlet.greenlet)] if greenlet else []
    living = [one for one in found if not one.dead and _root(one) is loop]
    target = Path(ANSWER.format(pid=os.getpid()))
    lines = "".join(f"{_places(one.gr_frame)}\n" for one in living)
    target.with_suffix(".part").write_text(lines, encoding="utf-8")
    target.with_suffix(".part").rename(target)


def _root(one: Any) -> Any:
    while one.parent is not None:
        one = one.parent
    return one


def _places(frame: FrameType | None) -> str:
    """`function file:line` of each place; the one that runs this has no frame of its own."""
    places = []
    while frame is not None:
        places.append(f"{frame.f_code.co_name} {Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(places) or "not begun, or running"


signal.signal(ASK, _tell)
