"""A value that many open pages share: made at most once in a while, by whichever page asks first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from gevent.event import Event

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Keeps what `make` gave for a while. While it is made anew, whoever asks gets the last one."""

    def __init__(self, make: Callable[[], Value], for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._for_s = for_s
        self._clock = clock
        self._values: list[Value] = []
        self._made_at = float("-inf")
        self._making: Event | None = None

    def get(self) -> Value:
        """The value; raises what `make` raises."""
        while True:
            if self._values and (self._making is not None or self._clock() - self._made_at < self._for_s):
                return self._values[0]
            if self._making is None:
                return self._renew()
            self._making.wait()

    def forget(self) -> None:
        """The next one who asks gets a new value: something has just been changed."""
        self._made_at = float("-inf")

    def _renew(self) -> Value:
        done = self._making = Event()
        began = self._clock()
        try:
            self._values[:] = [self._make()]
            self._made_at = began
        finally:
            self._making = None
            done.set()
        return self._values[0]
