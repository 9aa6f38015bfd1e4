"""The state store: few verbs, each atomic, each with a lifetime; and the one that lives in memory.

Keys are `noun:part[:part]`, for instance `session:a1b2c3`. There is no read-then-write: whoever must decide under
competition uses `add` or `claim`, whose answer is the decision.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of a reservation: so much of one counter, if its limit allows."""

    key: str
    amount: int
    limit: int
    ttl_s: float
    may_exceed: bool = False
    """True: it is granted while the counter is below the limit, though the amount may then carry it over (budgets).
    False: counter and amount together must not exceed the limit (rates, concurrency)."""


class StateStore(Protocol):
    """What the stages need of shared state. Lifetimes are in seconds; a key is gone when its lifetime is over."""

    def get(self, key: str) -> str | None:
        """The value, or None."""

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """Sets the value and its lifetime."""

    def delete(self, key: str) -> bool:
        """Removes the key; whether it was there."""

    def add(self, key: str, amount: int, ttl_s: float) -> int:
        """Adds to a counter and gives the sum. The lifetime begins with the first addition and is not prolonged."""

    def claim(self, key: str, ttl_s: float) -> bool:
        """Takes the key if nobody has it; exactly one of many callers gets True."""

    def put_new(self, key: str, value: str, ttl_s: float) -> bool:
        """Sets the value only where there is none; whether it did."""

    def reserve(self, claims: Sequence[Claim]) -> int | None:
        """Adds every claim's amount to its counter, or none of them.

        Returns:
            None when all are granted; else the position of the first claim that its limit refuses.
        """

    def items(self, noun: str) -> list[tuple[str, str]]:
        """Every (key, value) of a noun that is alive."""

    def count(self, noun: str, at_least_s: float = 0.0) -> int:
        """How many keys of a noun will live for so long yet; may count some that have just died."""


def number_of(value: str | None) -> float | None:
    """A value that holds a number; None for none, and for one that somebody else has put there."""
    try:
        number = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@dataclass(slots=True)
class _Entry:
    value: str
    dies_at: float


class MemoryStore:
    """State of one process. No verb yields to another greenlet, so each is atomic without a lock.

    Holds at most `limit` keys a noun; the ones longest untouched go first, so that no client can fill the memory.
    """

    SWEEP_EVERY = 4096

    def __init__(self, clock: Callable[[], float] = time.monotonic, limit: int = 100_000) -> None:
        self._clock = clock
        self._limit = limit
        self._nouns: dict[str, OrderedDict[str, _Entry]] = {}
        self._writes = 0

    def get(self, key: str) -> str | None:
        entry = self._alive(key)
        return entry.value if entry else None

    def put(self, key: str, value: str, ttl_s: float) -> None:
        entries = self._entries(key)
        entries[key] = _Entry(value, self._clock() + ttl_s)
        entries.move_to_end(key)
        if len(entries) > self._limit:
            entries.popitem(last=False)
        self._writes += 1
        if self._writes % self.SWEEP_EVERY == 0:
            self._sweep()

    def delete(self, key: str) -> bool:
        was_there = self._alive(key) is not None
        self._entries(key).pop(key, None)
        return was_there

    def add(self, key: str, amount: int, ttl_s: float) -> int:
        entry = self._alive(key)
        if entry is None:
            self.put(key, str(amount), ttl_s)
            return amount
        total = int(entry.value) + amount
        entry.value = str(total)
        return total

    def claim(self, key: str, ttl_s: float) -> bool:
        return self.put_new(key, "1", ttl_s)

    def put_new(self, key: str, value: str, ttl_s: float) -> bool:
        if self._alive(key) is not None:
            return False
        self.put(key, value, ttl_s)
        return True

    def reserve(self, claims: Sequence[Claim]) -> int | None:
        for position, claim in enumerate(claims):
            used = int(self.get(claim.key) or 0)
            is_refused = used >= claim.limit if claim.may_exceed else used + claim.amount > claim.limit
            if is_refused:
                return position
        for claim in claims:
            self.add(claim.key, claim.amount, claim.ttl_s)
        return None

    def items(self, noun: str) -> list[tuple[str, str]]:
        return [(key, entry.value) for key, entry in self._living(noun)]

    def count(self, noun: str, at_least_s: float = 0.0) -> int:
        after = self._clock() + at_least_s
        return sum(entry.dies_at > after for entry in self._nouns.get(noun, {}).values())

    def _living(self, noun: str) -> Iterator[tuple[str, _Entry]]:
        now = self._clock()
        return ((key, entry) for key, entry in list(self._nouns.get(noun, {}).items()) if entry.dies_at > now)

    def _entries(self, key: str) -> OrderedDict[str, _Entry]:
        noun = key.partition(":")[0]
        entries = self._nouns.get(noun)
        if entries is None:
            entries = self._nouns[noun] = OrderedDict()
        return entries

    def _alive(self, key: str) -> _Entry | None:
        entries = self._entries(key)
        entry = entries.get(key)
        if entry is not None and entry.dies_at <= self._clock():
            del entries[key]
            return None
        return entry

    def _sweep(self) -> None:
        now = self._clock()
        for entries in self._nouns.values():
            for key in [key for key, entry in entries.items() if entry.dies_at <= now]:
                del entries[key]
