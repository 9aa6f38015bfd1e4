"""The shared store, or this worker's own state while that is away: completions go on whatever becomes of Redis.

    present ──(a verb finds it away: one warning)──► away ──(`tend` has reached it and told it all: one line)──► present

While it is away no request asks for it: `tend`, which a background loop calls, knocks once a second. So an outage costs
the requests that are just waiting for an answer about 50 ms, once, and the others nothing.

What the verbs mean for this worker while the store is away:

| verb | means |
| --- | --- |
| `get` | what this worker last read or wrote itself (the *mirror*), or has counted since the outage began |
| `put`, `delete` | done here, and told to the store when it is back |
| `put_new`, `claim` | granted once in each worker, not once among all |
| `add` | counted from zero here; the sum is added to the store's counter when it is back |
| `reserve` | the same, against this worker's share of each limit: the limit divided by the number of workers |
| `items`, `count` | what this worker knows |

Nouns that can be *rebuilt* from elsewhere (the counters of budgets, from the usage log) are another matter. While the
store is away they begin empty here, so that they are filled from there; what was put into a counter is what is used
already, and this worker has its share of the rest. Nothing of that is told. Instead, the keys on which a claim was made
meanwhile are deleted in the store when it is back, so that they are filled anew: also those on which it has perhaps
been made, but did not say so in time.

A store that comes back empty (restarted without its data, or flushed) is given what the workers' mirrors hold, so that
conversations keep their tier. It is recognised by its *generation*, a name that is lost with everything else.

A store that was started again, or another one that has taken its place, may also come back with what it held a while
ago: Redis keeps a picture of itself on disk, and a replica is behind. Its counters of what was spent would be too low.
So where its *life* is another one, or is not told after an outage, nothing that can be rebuilt is believed: the *seals*
are deleted, without which no counter is.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from hermes.state.arrears import Arrears
from hermes.state.shared import SharedStore, StoreAway
from hermes.state.store import Claim, MemoryStore

log = logging.getLogger("hermes-router.state")

KNOCK_EVERY_S: Final = 1.0
LONGEST_REST_S: Final = 3.0
STEADY_S: Final = 10.0
"""A store that goes away sooner than this after its return is left alone for longer each time, up to `LONGEST_REST_S`:
one that is merely slow would else come and go all the time."""

MIRROR_KEYS: Final = 20_000
"""Of each noun, about 8 MB."""


class Mirror(MemoryStore):
    """A memory store whose whole content can be had."""

    def contents(self) -> list[tuple[str, str, float]]:
        """Every key with its value and the seconds that it has to live."""
        now = self._clock()
        entries = [(key, entry) for noun in list(self._nouns) for key, entry in self._living(noun)]
        return [(key, entry.value, entry.dies_at - now) for key, entry in entries]


class ResilientStore:
    """Implements `StateStore` on a shared store that may be away."""

    def __init__(
        self,
        shared: SharedStore,
        workers: int = 1,
        clock: Callable[[], float] = time.monotonic,
        new_name: Callable[[], str] = lambda: uuid.uuid4().hex,
        rebuilt: Collection[str] = (),
        seals: str | None = None,
    ) -> None:
        """Takes a shared store.

        Args:
            workers: how many workers there are, each of which has a share of every limit while the store is away.
            rebuilt: nouns whose keys somebody makes anew where they are missing.
            seals: the one of them without whose keys nobody believes the others.
        """
        self._shared = shared
        self._workers = max(1, workers)
        self._clock = clock
        self._new_name = new_name
        self._rebuilt = frozenset(rebuilt)
        self._seals = seals
        self._mirror = Mirror(clock, MIRROR_KEYS)
        self._counters = MemoryStore(clock)
        self._used: dict[str, int] = {}
        """What was used already of the counters that were filled in this outage."""

        self._arrears = Arrears(clock)
        self._generation: str | None = None
        self._life: str | None = None
        self._is_away = False
        self._left_at = self._back_at = -STEADY_S
        self._rest_s = KNOCK_EVERY_S
        self._next_knock = 0.0

    @property
    def is_away(self) -> bool:
        """Whether this worker goes by its own state."""
        return self._is_away

    # -- the verbs ----------------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        if not self._is_away:
            try:
                found = self._shared.look(key)
            except StoreAway as away:
                self._leave(away)
            else:
                self._reflect(key, found)
                return found[0] if found else None
        own = self._counters.get(key)
        return own if own is not None or self._is_rebuilt(key) else self._mirror.get(key)

    def put(self, key: str, value: str, ttl_s: float) -> None:
        if not self._is_rebuilt(key):
            self._mirror.put(key, value, ttl_s)
        if not self._is_away:
            try:
                self._shared.put(key, value, ttl_s)
            except StoreAway as away:
                self._leave(away)
            else:
                return
        if self._is_rebuilt(key):
            self._counters.put(key, value, ttl_s)
            self._used[key] = int(value) if value.isdecimal() else 0
        else:
            self._arrears.put(key, value, ttl_s)

    def delete(self, key: str) -> bool:
        was_here = self._mirror.delete(key)
        if not self._is_away:
            try:
                return self._shared.delete(key)
            except StoreAway as away:
                self._leave(away)
        if not self._is_rebuilt(key):
            self._arrears.delete(key)
        return self._counters.delete(key) or was_here

    def add(self, key: str, amount: int, ttl_s: float) -> int:
        if not self._is_away:
            try:
                return self._shared.add(key, amount, ttl_s)
            except StoreAway as away:
                self._leave(away)
        self._owe(key, amount, ttl_s)
        return self._counters.add(key, amount, ttl_s)

    def claim(self, key: str, ttl_s: float) -> bool:
        return self.put_new(key, "1", ttl_s)

    def put_new(self, key: str, value: str, ttl_s: float) -> bool:
        if not self._is_away:
            try:
                is_new = self._shared.put_new(key, value, ttl_s)
            except StoreAway as away:
                self._leave(away)
            else:
                if is_new and not self._is_rebuilt(key):
                    self._mirror.put(key, value, ttl_s)
                return is_new
        if self.get(key) is not None:
            return False
        self.put(key, value, ttl_s)
        return True

    def reserve(self, claims: Sequence[Claim]) -> int | None:
        if not self._is_away:
            try:
                return self._shared.reserve(claims)
            except StoreAway as away:
                self._leave(away)
        for claim in claims:
            if self._is_rebuilt(claim.key):
                self._arrears.delete(claim.key)
        shares = [_share(claim, self._used.get(claim.key, 0), self._workers) for claim in claims]
        refused = self._counters.reserve(shares)
        if refused is not None:
            return refused
        for claim, share in zip(claims, shares, strict=True):
            if claim.amount != share.amount:
                self._counters.add(claim.key, claim.amount - share.amount, claim.ttl_s)
            self._owe(claim.key, claim.amount, claim.ttl_s)
        return None

    def items(self, noun: str) -> list[tuple[str, str]]:
        if not self._is_away:
            try:
                return self._shared.items(noun)
            except StoreAway as away:
                self._leave(away)
        return list({**dict(self._mirror.items(noun)), **dict(self._counters.items(noun))}.items())

    def count(self, noun: str, at_least_s: float = 0.0) -> int:
        if not self._is_away:
            try:
                return self._shared.count(noun, at_least_s)
            except StoreAway as away:
                self._leave(away)
        return max(self._mirror.count(noun, at_least_s), self._counters.count(noun, at_least_s))

    # -- away and back ------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Looks after the store; to be called about twice a second by a background loop.

        While it is away: knocks, tells it what it has missed, and ends the outage. While it is there: notices that it
        was emptied.
        """
        if self._is_away and self._clock() < self._next_knock:
            return
        try:
            self._meet()
            told = self._arrears.tell(self._shared)
        except StoreAway as away:
            self._next_knock = self._clock() + KNOCK_EVERY_S
            self._leave(away)
            return
        # Between the last word told and the next line no other greenlet runs, so nothing stays untold.
        if self._is_away:
            self._is_away = False
            self._counters = MemoryStore(self._clock)
            self._used = {}
            self._back_at = self._clock()
            gone_s = self._back_at - self._left_at
            log.info("The shared state is back after %.1f s; it was told %d changes of this worker", gone_s, told)

    def _leave(self, reason: StoreAway) -> None:
        if self._is_away:
            return
        now = self._clock()
        is_unsteady = now - self._back_at < STEADY_S
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S) if is_unsteady else KNOCK_EVERY_S
        self._next_knock = now + self._rest_s
        self._left_at = now
        self._is_away = True
        log.warning("The shared state is away, this worker goes on with its own (%s)", reason)

    def _meet(self) -> None:
        """Finds out whether the store is still the one that was met before; an empty one is given the mirror's content,
        and one that has begun another life is not believed what it says was spent.
        """
        generation, life = self._shared.generation(self._new_name())
        may_be_older = life != self._life or (not life and self._is_away)
        if self._life is not None and may_be_older and self._seals is not None:
            for key, _ in self._shared.items(self._seals):
                self._shared.delete(key)
        self._life = life
        if generation != self._generation:
            if self._generation is not None:
                contents = self._mirror.contents()
                self._shared.offer(contents)
                log.warning("The shared state was empty; this worker has offered it %d entries", len(contents))
            self._generation = generation

    def _is_rebuilt(self, key: str) -> bool:
        return key.partition(":")[0] in self._rebuilt

    def _owe(self, key: str, amount: int, ttl_s: float) -> None:
        if not self._is_rebuilt(key):
            self._arrears.add(key, amount, ttl_s)

    def _reflect(self, key: str, found: tuple[str, float] | None) -> None:
        if found is None:
            self._mirror.delete(key)
        elif not self._is_rebuilt(key):
            self._mirror.put(key, *found)


def _share(claim: Claim, used: int, workers: int) -> Claim:
    """A worker's share of what is left of a limit. An amount over the share passes where nothing else is used yet: else
    it never could.
    """
    left = claim.limit - used
    if left <= 0:
        return claim
    share = max(1, left // workers)
    return replace(claim, limit=used + share, amount=min(claim.amount, share))
