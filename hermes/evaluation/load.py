"""Whether the process is loaded: how late its event loop comes to what is due.

A loop that is late makes callers wait, and shadow work is what is left out first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import gevent

LATE_S: Final = 0.05
LOOK_S: Final = 0.02
CALM_S: Final = 2.0
"""So long after the last delay shadow work stays away."""


class LoopLoad:
    """Looks how late the loop is; for a background loop."""

    def __init__(
        self,
        sleep: Callable[[float], None] = gevent.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._late_at = float("-inf")

    def look(self) -> None:
        """Takes a short nap and looks how long it was."""
        began = self._clock()
        self._sleep(LOOK_S)
        now = self._clock()
        if now - began - LOOK_S > LATE_S:
            self._late_at = now

    def is_high(self) -> bool:
        """Whether the loop was late a moment ago."""
        return self._clock() - self._late_at < CALM_S
