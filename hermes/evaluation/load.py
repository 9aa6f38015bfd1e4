"""Whether the process is loaded: how late its event loop comes to what is due.

A loop that is late makes callers wait, and shadow work is what is left out first. One delay is no load: what counts is
the mean of the last looks, in which an older one weighs less.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import gevent

LATE_S: Final = 0.05
"""Of the mean."""

LOOK_S: Final = 0.02
WEIGHT: Final = 0.2
"""Of the newest look."""


class LoopLoad:
    """Looks how late the loop is; for a background loop, some ten times a second."""

    def __init__(
        self,
        sleep: Callable[[float], None] = gevent.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._late_s = 0.0

    def look(self) -> None:
        """Takes a short nap and looks how long it was."""
        began = self._clock()
        self._sleep(LOOK_S)
        late_s = max(0.0, self._clock() - began - LOOK_S)
        self._late_s += WEIGHT * (late_s - self._late_s)

    def is_high(self) -> bool:
        """Whether the loop has been late of late."""
        return self._late_s > LATE_S
