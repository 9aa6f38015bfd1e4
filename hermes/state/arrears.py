"""What a worker has changed by itself while the shared store was away, and owes it.

Only the outcome counts: of several changes of one key the last, of several additions the sum. Sums of several workers
add up in the store, so that what was taken before an outage and given back during it is right again afterwards.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from hermes.state.shared import SharedStore

LIMIT = 20_000
"""Keys that are remembered; told in about 4 s. The ones longest unchanged are forgotten first."""


@dataclass(frozen=True, slots=True)
class _Put:
    value: str
    dies_at: float


@dataclass(frozen=True, slots=True)
class _Deleted:
    pass


@dataclass(frozen=True, slots=True)
class _Added:
    amount: int
    dies_at: float


_Change = _Put | _Deleted | _Added


class Arrears:
    """Changes by key, in the order in which they were made."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changes: OrderedDict[str, _Change] = OrderedDict()

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """The key has this value now."""
        self._note(key, _Put(value, self._clock() + ttl_s))

    def delete(self, key: str) -> None:
        """The key is gone now."""
        self._note(key, _Deleted())

    def add(self, key: str, amount: int, ttl_s: float) -> None:
        """The counter has grown by this, or shrunk."""
        self._note(key, _Added(amount, self._clock() + ttl_s))

    def tell(self, store: SharedStore) -> int:
        """Makes the store know everything, also what is noted meanwhile; how many keys that were.

        Raises:
            StoreAway: it is away again; what it was not told is kept.
        """
        told = 0
        while self._changes:
            # Taken out before it is told, so that what is added meanwhile stands by itself and is not told twice.
            key, change = self._changes.popitem(last=False)
            try:
                self._tell_one(store, key, change)
            except BaseException:
                newer = self._changes.get(key)
                self._changes[key] = change if newer is None else _merged(change, newer)
                raise
            told += 1
        return told

    def _tell_one(self, store: SharedStore, key: str, change: _Change) -> None:
        if isinstance(change, _Deleted):
            store.delete(key)
            return
        left_s = change.dies_at - self._clock()
        if left_s <= 0:
            return
        if isinstance(change, _Put):
            store.put(key, change.value, left_s)
        elif change.amount > 0 or store.get(key) is not None:
            # Nothing is given back to a counter that is gone: it would let others take more than there is.
            store.add(key, change.amount, left_s)

    def _note(self, key: str, change: _Change) -> None:
        before = self._changes.pop(key, None)
        self._changes[key] = change if before is None else _merged(before, change)
        if len(self._changes) > LIMIT:
            self._changes.popitem(last=False)


def _merged(before: _Change, after: _Change) -> _Change:
    """One change that has the outcome of two."""
    if not isinstance(after, _Added):
        return after
    if isinstance(before, _Added):
        return _Added(before.amount + after.amount, before.dies_at)
    if isinstance(before, _Put) and before.value.lstrip("-").isdecimal():
        return _Put(str(int(before.value) + after.amount), before.dies_at)
    return _Put(str(after.amount), after.dies_at)
