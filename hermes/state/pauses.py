"""Times that all processes wait out: the rest of a provider key, of an endpoint, of a visitor who guesses.

A pause is over when the store has forgotten it, and stores count lifetimes evenly. So a wall clock that is put forward
ends no pause, and one that is put back makes none longer; it only tells about how much is left, for `Retry-After`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hermes.state.store import StateStore, number_of

SOON_S: Final = 1.0
"""What is said to be left of a pause that should be over by the wall clock, and is not."""


class Pauses:
    """The pauses in a state store, each by the key of its own."""

    def __init__(self, store: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def begin(self, key: str, seconds: float) -> None:
        """Lets a pause of so many seconds begin now, in the place of one that is going on."""
        if seconds > 0:
            self._store.put(key, self._written(seconds), seconds)
        else:
            self.end(key)

    def begin_new(self, key: str, seconds: float) -> bool:
        """Lets a pause of more than 0 s begin unless one is going on; whether it did. Of many callers one gets True."""
        return self._store.put_new(key, self._written(seconds), seconds)

    def end(self, key: str) -> None:
        """Ends it, if it is going on."""
        self._store.delete(key)

    def left_s(self, key: str) -> float:
        """About how many seconds are left; 0 only where none is going on."""
        text = self._store.get(key)
        if text is None:
            return 0.0
        until, _, whole = text.partition(" ")
        whole_s = number_of(whole) or SOON_S
        left_s = (number_of(until) or 0.0) - self._clock()
        return min(left_s if left_s > 0 else SOON_S, whole_s)

    def _written(self, seconds: float) -> str:
        """When it ends, in seconds since 1970, and how long it is."""
        return f"{self._clock() + seconds!r} {seconds!r}"
