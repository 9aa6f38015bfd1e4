"""A quota with everything it stands on: a clock that is set by hand, a store, a usage log, prices."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import gevent

from hermes.admission.books import Books
from hermes.admission.budgets import Budgets
from hermes.admission.claims import ENDLESS, Patience
from hermes.admission.estimate import Estimate
from hermes.admission.limits import Limits
from hermes.admission.quota import Hold, Quota
from hermes.directory import Budget, BudgetScope, Directory, Spent, Unit
from hermes.errors import BooksUnreadable
from hermes.policy import BudgetsPolicy, LimitsPolicy, Policy
from hermes.state.store import Claim, MemoryStore
from hermes.types import Cascade, Endpoint, Principal, RateLimits, Usage

NOON = datetime(2026, 5, 10, 12, 0, 15, tzinfo=UTC).timestamp()
USD = 1_000_000_000


def endpoint(model: str) -> Endpoint:
    return Endpoint(f"{model}@host/v1", model, "https://host/v1", "https://host/v1")


class FixedPrices:
    """One thousand nano-USD a token of `cheap`, two thousand of `dear`; nothing is known of other models."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        per_token = {"cheap": 1000, "dear": 2000, "free": 0}.get(endpoint.model)
        return None if per_token is None else usage.total_tokens * per_token


class FakeLog:
    """A usage log in a list. Every question switches greenlets, as a database does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.rows: list[tuple[float, Mapping[str, str | None], Spent]] = []
        self.questions: list[tuple[str, str]] = []
        self.is_down = False
        self.takes_s = 0.0

    def spent(self, scope: BudgetScope, name: str, start: datetime, end: datetime) -> Spent:
        self.questions.append((scope, name))
        gevent.sleep(self.takes_s)
        if self.is_down:
            raise BooksUnreadable("down", retry_after_s=5)
        within = self._within(start, end)
        spent = _sum(spent for names, spent in within if scope == "global" or names[scope] == name)
        return replace(spent, asked_s=self._clock())

    def most(self, scope: BudgetScope, unit: Unit, start: datetime, end: datetime) -> tuple[str, Spent] | None:
        within = list(self._within(start, end))
        everyone = {name for names, _ in within if (name := names[scope]) is not None}
        totals = [(name, _sum(spent for names, spent in within if names[scope] == name)) for name in everyone]
        return max(totals, key=lambda total: total[1].of(unit), default=None)

    def _within(self, start: datetime, end: datetime) -> list[tuple[Mapping[str, str | None], Spent]]:
        return [(names, spent) for at, names, spent in self.rows if start.timestamp() <= at < end.timestamp()]


class DistantStore:
    """A memory store far away: every verb switches greenlets on its way there and on its way back."""

    def __init__(self, rng: random.Random) -> None:
        self._inner = MemoryStore()
        self._rng = rng

    def __getattr__(self, verb: str) -> Any:
        def ask(*args: Any) -> Any:
            self._travel()
            reply = getattr(self._inner, verb)(*args)
            self._travel()
            return reply

        return ask

    def _travel(self) -> None:
        for _ in range(self._rng.randrange(4)):
            gevent.sleep(0)


class CountingStore(MemoryStore):
    """Counts its round trips."""

    round_trips = 0

    def reserve(self, claims: Sequence[Claim]) -> int | None:
        self.round_trips += 1
        return super().reserve(claims)


class Bench:
    """What a test needs."""

    def __init__(self, *budgets: Budget, store: Any = None, **policy: Any) -> None:
        self.now = NOON
        self.ahead = 0.0
        """How far the wall clock of budgets was put forward."""

        self.store = store if store is not None else CountingStore(lambda: self.now)
        self.log = FakeLog(lambda: self.now + self.ahead)
        self.directory = Directory(budgets=budgets)
        self.policy = Policy(
            {
                "simple": Cascade("simple", (endpoint("cheap"),), 120.0),
                "complex": Cascade("complex", (endpoint("dear"),), 300.0),
            },
            **policy,
        )
        self.restart()

    def restart(self) -> None:
        """Another process: what was only in memory is gone. The store is what it was."""
        books = Books(
            self.store,
            self.log,
            lambda: self.now + self.ahead,
            lambda: self.store_is_away,
            was_counted=lambda written_s, asked_s: not asked_s or written_s <= asked_s,
            monotonic=lambda: self.now,
        )
        self.store_is_away = False
        self.budgets = Budgets(books, self.store, FixedPrices(), lambda: self.now)
        self.limits = Limits(lambda: self.now, random.Random(1), lambda: self.now)
        self.quota = Quota(self.store, self.limits, self.budgets, lambda: (self.directory, self.policy.budgets))

    def lose_state(self) -> None:
        """The store forgets everything."""
        self.store._nouns.clear()

    def ask(
        self,
        user: str | None = "anna",
        *,
        key: str | None = None,
        function: str | None = None,
        prompt: int = 10,
        models: Sequence[str] = ("cheap",),
        limits: RateLimits | None = None,
        identity: str = "",
        patience: Patience = ENDLESS,
        **body: Any,
    ) -> Hold:
        """Asks for a request of that many prompt tokens; by default of 90 more for the answer, together 100."""
        principal = Principal(key_id=key, user_id=user, identity=identity, limits=limits)
        estimate = Estimate({"max_tokens": 90, **body}, lambda: prompt, lambda: [endpoint(model) for model in models])
        return self.quota.reserve(principal, self.directory, self.policy, estimate, function, patience)

    def finish(
        self,
        hold: Hold,
        tokens: int = 100,
        user: str | None = "anna",
        *,
        key: str | None = None,
        function: str | None = None,
        per_token: int | None = 1000,
        began: float | None = None,
    ) -> None:
        """The request has used so many tokens: its row is written, then its hold is settled."""
        cost = None if per_token is None else tokens * per_token
        names = {"user": user, "key": key, "function": function}
        self.log.rows.append((self.now if began is None else began, names, Spent(cost or 0, tokens, 1)))
        hold.settle(Usage(10, tokens - 10, tokens), cost)

    def counter(self, unit: Unit, scope: str, name: str, period: str = "day") -> int | None:
        """What the counter of a budget says that is in force; None where there is none."""
        for filled, filling in self.store.items("filled"):
            _, found_unit, found_period, start, *whose = filled.split(":")
            if [found_unit, found_period, *whose] == [unit, period, scope, name]:
                key = f"{unit}:{period}:{start}:{scope}:{name}"
                return int(self.store.get(f"budget:{filling}:{key}") or 0)
        return None

    def slots(self) -> int:
        """Slots that are taken."""
        return self.store.count("slot")


def a_budget(limit: int, unit: Unit = "tokens", scope: BudgetScope = "user", name: str = "anna", **more: Any) -> Budget:
    """A daily budget that blocks."""
    return replace(Budget(scope, name, "day", unit, limit), **more)


def per_user(requests: int = 0, tokens: int = 0, concurrent: int = 0) -> LimitsPolicy:
    return LimitsPolicy(per_user=RateLimits(requests, tokens, concurrent))


def closed() -> BudgetsPolicy:
    return BudgetsPolicy(on_store_failure="closed")


def _sum(spent: Any) -> Spent:
    found = list(spent)
    return Spent(sum(s.nanousd for s in found), sum(s.tokens for s in found), sum(s.requests for s in found))
