"""A value that many open pages share: made at most once in a while, by whichever page asks first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gevent.event import Event

Value = TypeVar("Value")

TIMES_ITS_COST: Final = 400
"""A value that was quickly made is soon made anew: making it takes a four-hundredth of the time at most."""


class Kept(Generic[Value]):
    """Keeps what `make` gave for a while: in proportion to what it cost, and `for_s` at most. While it is made anew,
    whoever asks gets the last one.
    """

    def __init__(self, make: Callable[[], Value], for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._for_s = for_s
        self._clock = clock
        self._values: list[Value] = []
        self._until = float("-inf")
        self._making: Event | None = None

    def get(self) -> Value:
        """The value; raises what `make` raises."""
        while True:
            if self._values and (self._making is not None or self._clock() < self._until):
                return self._values[0]
            if self._making is None:
                return self._renew()
            self._making.wait()

    def forget(self) -> None:
        """The next one who asks gets a new value: something has just been changed."""
        self._until = float("-inf")

    def _renew(self) -> Value:
        done = self._making = Event()
        began = self._clock()
        try:
            self._values[:] = [self._make()]
            self._until = began + min(self._for_s, TIMES_ITS_COST * (self._clock() - began))
        finally:
            self._making = None
            done.set()
        return self._values[0]
