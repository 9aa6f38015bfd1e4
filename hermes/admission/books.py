"""The counters behind budgets: in the state store while a period lasts, filled from the usage log where one is missing.

A counter is what was spent and what requests under way have set aside. Beside it stands its *seal*, which reads -1 once
the counter was filled. Every claim asks for a seal below zero, and one that is missing reads as zero: so nobody passes
on a counter that the store has lost or never had, and looking for it costs no further round trip.

One greenlet of one process fills a counter while the others wait: with what the usage log says and what this process
has set aside. What other processes had under way when the store lost the counter is not known. Where the usage log
cannot be read and the operator lets everybody pass then, a counter begins at nothing and its seal lasts half a minute.

Seals are only ever added to, never put or read: a store that is away and comes back empty may be given what somebody
remembers of it, and a seal on an old number would be believed.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import gevent
from gevent.event import Event

from hermes.admission.claims import storable
from hermes.directory import BudgetScope, Period, Spent, Unit
from hermes.errors import BooksUnreadable
from hermes.state.store import Claim, StateStore

log = logging.getLogger("hermes-router")

NO_LIMIT: Final = 2**53 - 1
"""No counter reaches it, 9 million US dollars; a store that counts in floating point is exact up to here."""

KEPT_S: Final = 86_400.0
"""How long a counter outlives its period, for requests that began in it."""

GUESS_S: Final = 30.0
"""How long a counter is believed that could not be filled from the usage log."""

AWAY_S: Final = 5.0
"""How long the usage log is left alone after it could not be read."""

AWAY_KEY: Final = "books:away"

FILLING_S: Final = 10.0
"""How long a process may take to fill a counter before another one tries."""

LOOK_AGAIN_S: Final = 0.02


class UsageLog(Protocol):
    """What the usage log says was used from a moment until another; both raise `BooksUnreadable`."""

    def spent(self, scope: BudgetScope, name: str, start: datetime, end: datetime) -> Spent:
        """By one of a scope, or by all for the global one."""

    def most(self, scope: BudgetScope, unit: Unit, start: datetime, end: datetime) -> tuple[str, Spent] | None:
        """By the one of a scope who has used most."""


@dataclass(frozen=True, slots=True)
class Span:
    """A period that is going on, in UTC and in seconds since 1970."""

    start: datetime
    end: datetime
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Account:
    """Whose use of what is counted, and in which period."""

    scope: BudgetScope
    name: str
    unit: Unit
    period: Period
    span: Span

    @property
    def key(self) -> str:
        """Tells accounts apart; a part of the store's keys."""
        return f"{self.unit}:{self.period}:{int(self.span.start_s)}:{self.scope}:{storable(self.name)}"


class Books:
    """Makes claims on counters, fills and corrects them."""

    def __init__(
        self,
        store: StateStore,
        usage_log: UsageLog,
        clock: Callable[[], float] = time.time,
        is_store_away: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            is_store_away: whether the store counts for this process alone at the moment.
        """
        self.usage_log = usage_log
        self._is_store_away = is_store_away
        self._store = store
        self._clock = clock
        self._set_aside: Counter[str] = Counter()
        self._being_filled: dict[str, Event] = {}

    def check(self) -> None:
        """For operators who let nobody pass while what is shared is away.

        Raises:
            BooksUnreadable: it is.
        """
        if self._is_store_away():
            raise BooksUnreadable("What was spent cannot be told at the moment.", retry_after_s=AWAY_S)

    def claims(self, account: Account, key: str, amount: int, limit: int) -> tuple[Claim, Claim]:
        """Claims on the seal and on the counter: granted while it was filled and is below the limit."""
        ttl_s = self.ttl_s(account)
        return Claim(f"seal:{key}", 0, -1, ttl_s), Claim(f"budget:{key}", amount, limit, ttl_s, may_exceed=True)

    def set_aside(self, key: str, amount: int) -> None:
        """Claims were granted."""
        self._set_aside[key] += amount

    def settle(self, account: Account, key: str, set_aside: int, used: int) -> None:
        """Puts what was used in the place of what was set aside; of a counter that is missing, nothing."""
        self._set_aside[key] -= set_aside
        if not self._set_aside[key]:
            del self._set_aside[key]
        if used != set_aside:
            self._store.reserve(self.claims(account, key, used - set_aside, NO_LIMIT))

    def fill(self, account: Account, key: str, *, may_guess: bool) -> None:
        """Fills the counter, or waits while somebody else does; then the claims may be asked for again.

        Args:
            may_guess: begin at nothing where the usage log cannot be read.

        Raises:
            BooksUnreadable: it cannot be read, and may not be guessed.
        """
        filling = self._being_filled.get(key)
        if filling is not None:
            filling.wait()
            return
        done = self._being_filled[key] = Event()
        try:
            self._fill_alone(account, key, may_guess=may_guess)
        finally:
            del self._being_filled[key]
            done.set()

    def ttl_s(self, account: Account) -> float:
        """How long a counter of the account lives."""
        return max(0.0, account.span.end_s - self._clock()) + KEPT_S

    def _fill_alone(self, account: Account, key: str, *, may_guess: bool) -> None:
        if not self._store.claim(f"filling:{key}", FILLING_S):
            gevent.sleep(LOOK_AGAIN_S)  # another process is at it
            return
        try:
            spent, seal_s = self._spent(account, may_guess=may_guess)
            # Whatever is found under the counter's key is worth nothing without its seal.
            self._store.put(f"budget:{key}", str(spent + self._set_aside.get(key, 0)), self.ttl_s(account))
            self._store.add(f"seal:{key}", -1, seal_s)
        finally:
            self._store.delete(f"filling:{key}")

    def _spent(self, account: Account, *, may_guess: bool) -> tuple[int, float]:
        """What the usage log says, and how long that is believed, in seconds."""
        try:
            return self._read(account).of(account.unit), self.ttl_s(account)
        except BooksUnreadable:
            if not may_guess:
                raise
            return 0, GUESS_S

    def _read(self, account: Account) -> Spent:
        if self._store.get(AWAY_KEY) is not None:
            raise BooksUnreadable("What was spent cannot be told at the moment.", retry_after_s=AWAY_S)
        try:
            return self.usage_log.spent(account.scope, account.name, account.span.start, account.span.end)
        except BooksUnreadable as error:
            self._store.put(AWAY_KEY, "1", AWAY_S)
            log.warning("Budgets cannot be read from the usage log: %s", error.__cause__ or error)
            raise
