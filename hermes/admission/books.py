"""The counters behind budgets: in the state store while a period lasts, filled from the usage log where one is missing.

A counter is what was spent and what requests under way have set aside. Each *filling* of a counter has a name of its
own, and beside the counter stands a *seal*, which reads -1 once it was filled. Every claim asks for a seal below zero,
and one that is missing reads as zero: so nobody passes on a counter that the store has lost or never had, and looking
for it costs no further round trip. One process fills it from the usage log, under a new name; the others adopt that.

What requests under way have set aside is in no row. So each process knows its own, and moves it to a new filling as
soon as it learns of that one: with its next claim, or when `renew` looks, which a background loop calls. The rows of
requests that have just ended may be in no database yet when another process asks it. So each process also knows its
last ones, and adds to a new filling those that the usage log did not know when it was asked; the filling's name tells
when that was. Where a filling was lost, the new one is sealed only when all processes had the time for that.

A request settles on the filling on which it has set something aside: what it used, less that. If that one is gone, all
that it used is in a row, or moved with the last ones. So every counter becomes what the rows say, whatever was lost.

Seals are only ever added to and deleted, never put or read: a store that comes back empty may be given what somebody
remembers of it, and a seal on an old number would be believed.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import gevent
from gevent.event import Event

from hermes.admission.claims import ENDLESS, Patience, storable
from hermes.directory import BudgetScope, Period, Spent, Unit
from hermes.errors import BooksUnreadable, DeadlineExceeded
from hermes.state.store import Claim, StateStore, number_of

log = logging.getLogger("hermes-router")

NO_LIMIT: Final = 2**53 - 1
"""No counter reaches it, 9 million US dollars; a store that counts in floating point is exact up to here."""

KEPT_S: Final = 86_400.0
"""How long a counter outlives its period, for requests that began in it."""

GUESS_S: Final = 30.0
"""How long a counter is believed that could not be filled from the usage log."""

OUTLIVES_S: Final = 60.0
"""A counter without a seal does no harm; a seal without a counter would let everybody pass."""

AWAY_S: Final = 2.0
"""How long the usage log is left alone after it could not be read."""

RETRY_AFTER_S: Final = 5.0

SEALS: Final = "seal"
FILLED_NOUNS: Final = ("budget", SEALS, "filled", "turn")
"""What a store that is away may let begin anew: it is filled from the usage log where it is missing."""

AWAY_KEY: Final = "books:away"

TURN_S: Final = 1.5
"""How long a process that fills a counter may be silent before another one tries; it renews its turn meanwhile."""

RENEW_TURN_S: Final = 0.5

READ_S: Final = 5.0
"""How long the usage log may take to tell what was spent, which is a few milliseconds' work. Everybody whom the budget
concerns waits for it."""

LOOK_AGAIN_S: Final = 0.05

MOVING_S: Final = 0.6
"""How long the processes may take to move what they know to a new filling; `renew` is called more often."""

MET_KEY: Final = "turn:met"
MET_S: Final = 400 * 86_400.0
"""In a store that does not have this key, any counter may have been lost, also one that this process has never seen."""

ENDED_S: Final = 5.0
"""How long a process knows what its requests have used that have ended; their rows are in the log much sooner."""

ENDED_MAX: Final = 10_000
"""Accounts of which it knows that."""

REMEMBERED_MAX: Final = 50_000
"""Fillings whose names a process remembers; those beyond are asked for again."""

RENEWED_MAX: Final = 500
"""Accounts that are looked at in one go."""


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


@dataclass(eq=False, slots=True)
class SetAside:
    """What a request has set aside, and on which filling."""

    account: Account
    key: str
    filling: str
    amount: int
    """Of one that has ended: what it has used."""

    ended_s: float | None = None
    """When it has ended and its row was written, in seconds since 1970."""

    known_until_s: float = 0.0
    """Of one that has ended, on the monotonic clock: until when this process knows of it."""


class Books:
    """Makes claims on counters, fills and settles them."""

    def __init__(
        self,
        store: StateStore,
        usage_log: UsageLog,
        clock: Callable[[], float] = time.time,
        is_store_away: Callable[[], bool] = lambda: False,
        new_name: Callable[[], str] = lambda: uuid.uuid4().hex[:12],
        was_counted: Callable[[float, float], bool] = lambda _written_s, _asked_s: True,
        moving_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            was_counted: whether a row that this process wrote at one time was in the usage log at another.
            moving_s: how long other processes have to move what they know to a new filling; see `MOVING_S`.
            is_store_away: whether the store counts for this process alone at the moment.
        """
        self.usage_log = usage_log
        self._store = store
        self._clock = clock
        self._is_store_away = is_store_away
        self._new_name = new_name
        self._fillings: dict[str, str] = {}
        self._being_filled: dict[str, gevent.Greenlet] = {}
        """Each gives what has failed, or None."""

        self._was_counted = was_counted
        self._moving_s = moving_s
        self._monotonic = monotonic
        self._under_way: dict[str, set[SetAside]] = {}
        self._ended: dict[str, deque[SetAside]] = {}

    def check(self) -> None:
        """For operators who let nobody pass while what is shared is away.

        Raises:
            BooksUnreadable: it is.
        """
        if self._is_store_away():
            raise BooksUnreadable("What was spent cannot be told at the moment.", retry_after_s=RETRY_AFTER_S)

    def filling(self, key: str) -> str:
        """The name of the filling that is in force, as far as this process knows."""
        return self._fillings.get(key, "")

    def claims(self, account: Account, key: str, filling: str, amount: int, limit: int) -> tuple[Claim, Claim]:
        """Claims on the seal and on the counter: granted while the filling is in force and below the limit."""
        ttl_s = self.ttl_s(account)
        return (
            Claim(f"seal:{filling}:{key}", 0, -1, ttl_s),
            Claim(f"budget:{filling}:{key}", amount, limit, ttl_s, may_exceed=True),
        )

    def granted(self, account: Account, key: str, filling: str, amount: int) -> SetAside:
        """Remembers what a granted claim has set aside, until it is settled."""
        aside = SetAside(account, key, filling, amount)
        self._under_way.setdefault(key, set()).add(aside)
        return aside

    def settle(self, aside: SetAside, used: int) -> None:
        """Puts what was used in the place of what was set aside."""
        account, key, filling = aside.account, aside.key, aside.filling
        others = self._under_way[key]
        others.remove(aside)
        if not others:
            del self._under_way[key]
        change = used - aside.amount
        aside.amount, aside.ended_s, aside.known_until_s = used, self._clock(), self._monotonic() + ENDED_S
        self._remember(aside)
        if self._claim(account, key, filling, change):
            return
        current = self._store.get(f"filled:{key}")
        if aside.filling != filling or current is None:
            return  # it was moved meanwhile, or it will be, with the next filling
        if current == filling:
            self._add(account, key, filling, change)  # it is not sealed yet
        elif current != self.filling(key):
            self._adopt(account, key, current)
        else:
            self._move(account, key, current, [aside])

    def count(self, account: Account, key: str, used: int) -> None:
        """Counts what a request has used that has set nothing aside here: it began before this account was in force.
        Its row is written; so it is added to the filling that is in force, unless the usage log knew of it.
        """
        ends_s = self._monotonic() + ENDED_S
        aside = SetAside(account, key, "", used, ended_s=self._clock(), known_until_s=ends_s)
        self._remember(aside)
        current = self._store.get(f"filled:{key}")
        if current is None:
            return  # it will be moved to the first one
        if current != self.filling(key):
            self._adopt(account, key, current)
        else:
            self._move(account, key, current, [aside])

    def fill(self, account: Account, key: str, missing: str, patience: Patience = ENDLESS, *, may_guess: bool) -> None:
        """Waits until a counter is filled anew, here or by another process; then it may be claimed again.

        A greenlet of its own fills it: it goes on for the others, however short the time of the request that was first.

        Args:
            missing: the filling whose seal is missing.
            may_guess: begin at nothing where the usage log cannot be read.

        Raises:
            BooksUnreadable: it cannot be read, and may not be guessed.
            DeadlineExceeded: the request's time is over.
        """
        if self.filling(key) != missing:
            return  # another one is in force since it was asked for
        left_s = patience.until - self._monotonic()
        if left_s <= 0:
            raise _too_late()
        filling = self._being_filled.get(key)
        if filling is None:
            filling = self._being_filled[key] = gevent.spawn(self._fill, account, key, missing, may_guess=may_guess)
        with patience.caller:
            filling.join(None if left_s == math.inf else left_s)
        if not filling.ready():
            raise _too_late()
        failure = filling.value
        if isinstance(failure, BooksUnreadable):  # one for each who waits, since each adds its own headers
            raise BooksUnreadable(failure.message, retry_after_s=failure.retry_after_s) from failure
        if failure is not None:
            raise failure

    def renew(self) -> None:
        """Moves what is set aside here to fillings that other processes have made; to be called about twice a second.

        It asks the store once for each account that has something under way.
        """
        now = self._monotonic()
        self._ended = {key: ended for key, ended in self._ended.items() if ended[-1].known_until_s >= now}
        accounts = {key: next(iter(asides)).account for key, asides in (self._ended | self._under_way).items()}
        for key, account in list(accounts.items())[:RENEWED_MAX]:
            name = self._store.get(f"filled:{key}")
            if name is not None and name != self.filling(key):
                self._adopt(account, key, name)

    def distrust(self, which: Callable[[str], bool] = lambda _: True, asked_before_s: float = math.inf) -> None:
        """Breaks every seal, so that all counters are filled anew. What a killed process had set aside is in the
        counters and nowhere else; so each process that begins calls this.

        Args:
            which: tells of an account's key whether it is meant.
            asked_before_s: only fillings for which the usage log was asked before, in seconds since 1970.
        """
        for key, _ in self._store.items(SEALS):
            _, filling, account = key.split(":", 2)
            if _asked_at(filling) < asked_before_s and which(account):
                self._store.delete(key)

    def ttl_s(self, account: Account) -> float:
        """How long a counter of the account lives."""
        return max(0.0, account.span.end_s - self._clock()) + KEPT_S

    def _claim(self, account: Account, key: str, filling: str, amount: int) -> bool:
        return self._store.reserve(self.claims(account, key, filling, amount, NO_LIMIT)) is None

    def _add(self, account: Account, key: str, filling: str, amount: int) -> None:
        """To a filling that may not be sealed yet; a counter that is gone has no seal either, and does no harm."""
        self._store.add(f"budget:{filling}:{key}", amount, self.ttl_s(account))

    def _fill(self, account: Account, key: str, missing: str, *, may_guess: bool) -> Exception | None:
        """What has failed, as a value: gevent prints what leaves a greenlet."""
        try:
            self._fill_in_turn(account, key, missing, may_guess=may_guess)
        except Exception as failure:  # noqa: BLE001  (raised again by those who wait)
            return failure
        finally:
            del self._being_filled[key]
        return None

    def _fill_in_turn(self, account: Account, key: str, missing: str, *, may_guess: bool) -> None:
        turn = _Turn(self._store, f"turn:{key}", self._new_name())
        if not turn.begin():
            gevent.sleep(LOOK_AGAIN_S)  # another process is at it
            return
        try:
            # Only within one's turn: two fillings in force would be two budgets.
            name, seal_s = self._store.get(f"filled:{key}"), None
            if name is None or (name == missing and self._store.get(f"seal:{name}:{key}") is None):
                spent, seal_s = self._spent(account, may_guess=may_guess)
                if not turn.is_mine():
                    return  # this process has stood still, and another one may have filled it
                name = self._put_filling(account, key, spent, seal_s)
            self._adopt(account, key, name)
            if seal_s is not None:
                if self._moving_s and (missing or self._store.get(MET_KEY) is None):
                    gevent.sleep(self._moving_s)
                    self._store.put(MET_KEY, "1", MET_S)
                if turn.is_mine():
                    self._store.add(f"seal:{name}:{key}", -1, seal_s)
        finally:
            turn.end()

    def _adopt(self, account: Account, key: str, name: str) -> None:
        """Goes by this filling from now on."""
        if len(self._fillings) >= REMEMBERED_MAX:
            self._fillings.clear()
        self._fillings[key] = name
        self._move(account, key, name, [*self._under_way.get(key, ()), *self._ended.get(key, ())])

    def _move(self, account: Account, key: str, name: str, asides: Iterable[SetAside]) -> None:
        """Puts on a filling what stands on another one, and is not in it by the usage log."""
        asked_s, amount = _asked_at(name), 0
        for aside in asides:
            if aside.filling != name:
                aside.filling = name  # before the store is asked: one that settles meanwhile does so on this filling
                if aside.ended_s is None or not self._was_counted(aside.ended_s, asked_s):
                    amount += aside.amount
        if amount:
            self._add(account, key, name, amount)

    def _remember(self, aside: SetAside) -> None:
        if len(self._ended) >= ENDED_MAX:
            self._ended.clear()
        ended = self._ended.setdefault(aside.key, deque())
        ended.append(aside)
        now = self._monotonic()
        while ended[0].known_until_s < now:
            ended.popleft()

    def _put_filling(self, account: Account, key: str, spent: Spent, seal_s: float) -> str:
        """The name of a new filling, which has no seal yet.

        Args:
            seal_s: how long its seal shall live.
        """
        name = f"{self._new_name()}@{spent.asked_s:.6f}"
        self._store.put(f"budget:{name}:{key}", str(spent.of(account.unit)), seal_s + OUTLIVES_S)
        self._store.put(f"filled:{key}", name, self.ttl_s(account))
        return name

    def _spent(self, account: Account, *, may_guess: bool) -> tuple[Spent, float]:
        """What the usage log says, and how long that is believed, in seconds."""
        try:
            return self._read(account), self.ttl_s(account)
        except BooksUnreadable:
            if not may_guess:
                raise
            return Spent(), GUESS_S

    def _read(self, account: Account) -> Spent:
        if self._store.get(AWAY_KEY) is not None:
            raise BooksUnreadable("What was spent cannot be told at the moment.", retry_after_s=RETRY_AFTER_S)
        try:
            return self._asked(account)
        except BooksUnreadable as error:
            self._store.put(AWAY_KEY, "1", AWAY_S)
            log.warning("Budgets cannot be read from the usage log: %s", error.__cause__ or error)
            raise

    def _asked(self, account: Account) -> Spent:
        timer = gevent.Timeout(READ_S)
        try:
            with timer:
                return self.usage_log.spent(account.scope, account.name, account.span.start, account.span.end)
        except gevent.Timeout as over:
            if over is not timer:
                raise
            raise BooksUnreadable(f"no answer within {READ_S:g} s", retry_after_s=RETRY_AFTER_S) from None


class _Turn:
    """The right to fill a counter: for a moment, and renewed as long as this process is alive and at it."""

    def __init__(self, store: StateStore, key: str, owner: str) -> None:
        self._store = store
        self._key = key
        self._owner = owner
        self._over = Event()
        self._keeper: gevent.Greenlet | None = None

    def begin(self) -> bool:
        """Takes the turn, unless another has it."""
        if not self._store.put_new(self._key, self._owner, TURN_S):
            return False
        self._keeper = gevent.spawn(self._keep)
        return True

    def is_mine(self) -> bool:
        """Whether nobody else may have had it since."""
        return self._store.get(self._key) == self._owner

    def end(self) -> None:
        """Gives it back. Where the store is away and does not hear of that, it ends soon by itself."""
        self._over.set()
        if self._keeper is not None:
            self._keeper.join()  # what it is just putting must not come after the end
        if self.is_mine():
            self._store.delete(self._key)

    def _keep(self) -> None:
        while not self._over.wait(RENEW_TURN_S) and self.is_mine():
            self._store.put(self._key, self._owner, TURN_S)


def _too_late() -> DeadlineExceeded:
    return DeadlineExceeded(
        "The time for this request is over: what was spent of its budget was still being counted.",
        (),
        retry_after_s=RETRY_AFTER_S,
    )


def _asked_at(filling: str) -> float:
    """When the usage log was asked for a filling, in seconds since 1970; 0 where it was not."""
    return number_of(filling.partition("@")[2]) or 0.0
