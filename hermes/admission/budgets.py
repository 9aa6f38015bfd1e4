"""Budgets: how much may be used in a calendar period, weighed before a request runs and settled when it is over.

A request is refused once what was spent and what requests under way have set aside has *reached* the limit. So parallel
requests carry a budget over by one request's estimate at most; at its end, a request's estimate is replaced by what it
has used. Budgets are weighed before it is known who answers, so a model that costs nothing is refused as well.

    spent and set aside            what happens
    below the warning share        it passes
    from there up to the limit     a line in the log, once a period; it passes
    from the limit on              block: it is refused; downgrade: the simple tier answers; warn: it passes

The budget of one by name stands in the place of the budget of each one (`*`) of the same scope and period.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, Final

from hermes.admission.books import NO_LIMIT, Account, Books, SetAside, Span
from hermes.admission.claims import ENDLESS, Patience
from hermes.admission.estimate import Estimate, Prices
from hermes.admission.periods import period_bounds, utc_text
from hermes.directory import EACH, Budget, BudgetScope, Directory, Period, Spent
from hermes.errors import BudgetExceeded
from hermes.policy import BudgetsPolicy
from hermes.state.store import StateStore
from hermes.types import Principal, Usage

log = logging.getLogger("hermes-router")

WARNED_MAX: Final = 10_000
"""Warnings that a process remembers to have seen in the log; those beyond are looked up in the store."""

ADJECTIVES: Final[Mapping[Period, str]] = {"day": "daily", "week": "weekly", "month": "monthly"}


class Share:
    """One request's part of one budget. Rises from bar to bar (warning, limit, beyond) as the store refuses it."""

    def __init__(
        self,
        budgets: Budgets,
        budget: Budget,
        account: Account,
        amount: int,
        patience: Patience = ENDLESS,
        *,
        may_guess: bool,
    ) -> None:
        """Takes what is set aside, in the budget's unit, and whether a counter may be guessed."""
        self.downgrades = False
        self._budgets = budgets
        self._budget = budget
        self._account = account
        self._key = account.key
        self._amount = amount
        self._patience = patience
        self._may_guess = may_guess
        self._aside: SetAside | None = None
        limit = min(budget.limit, NO_LIMIT)
        self._bars = (min(math.ceil(limit * budget.warn_share), limit), limit, NO_LIMIT)
        self._level = 1 if self._bars[0] == limit or budgets.has_warned(self._key, self._bars[0]) else 0
        self._ask()

    def refused(self, position: int) -> None:
        """Fills the counter if it was its seal that was refused, else rises to the next bar.

        Raises:
            BudgetExceeded: the limit is reached, and the budget blocks.
            BooksUnreadable: the counter cannot be filled, and the operator lets nobody pass then.
            DeadlineExceeded: it was not filled within the request's time.
        """
        if position == 0:
            books = self._budgets.books
            books.fill(self._account, self._key, self._filling, self._patience, may_guess=self._may_guess)
        else:
            self._rise()
        self._ask()

    @property
    def key(self) -> str:
        """The account's."""
        return self._key

    def granted(self) -> None:
        """Remembers what is set aside."""
        self._aside = self._budgets.books.granted(self._account, self._key, self._filling, self._amount)

    def settle(self, store: StateStore, usage: Usage | None, cost_nanousd: int | None) -> None:
        """Counts what was used instead: an answer without a known price costs nothing, but its tokens count."""
        used = spent_of(usage, cost_nanousd).of(self._budget.unit)
        assert self._aside is not None, "it was granted"
        self._budgets.books.settle(self._aside, used)

    def _ask(self) -> None:
        books, bar = self._budgets.books, self._bars[self._level]
        self._filling = books.filling(self._key)
        self.claims = books.claims(self._account, self._key, self._filling, self._amount, bar)

    def _rise(self) -> None:
        reached = "is used up" if self._level else f"has reached {self._budget.warn_share:.0%}"
        self._budgets.warn(self._account, self._key, self._bars[self._level], f"{self._described()} {reached}")
        if self._level == 0:
            self._level = 1
        elif self._level == 1 and self._budget.action != "block":
            self.downgrades = self._budget.action == "downgrade"
            self._level = 2
        else:
            raise self._exceeded()

    def _exceeded(self) -> BudgetExceeded:
        span = self._account.span
        return BudgetExceeded(
            f"{self._described()} is used up; it resets at {utc_text(span.end)}. Budgets are weighed before a model is "
            "chosen, so asking for a model that costs nothing does not help.",
            retry_after_s=max(1, math.ceil(span.end_s - self._budgets.clock())),
            should_retry=False,
        )

    def _described(self) -> str:
        scope, name = self._account.scope, self._account.name
        whose = {"global": "of this gateway", "key": "of this API key"}.get(scope, f"of the {scope} {name!r}")
        return f"The {ADJECTIVES[self._budget.period]} budget {whose} ({shown_limit(self._budget)})"


class Budgets:
    """Finds the budgets that concern a request."""

    def __init__(self, books: Books, store: StateStore, prices: Prices, clock: Callable[[], float] = time.time) -> None:
        self.books = books
        self.clock = clock
        self._store = store
        self._prices = prices
        self._indexed: tuple[Directory, Mapping[tuple[BudgetScope, str], list[Budget]]] = (Directory(), {})
        self._spans: dict[tuple[Period, str], Span] = {}
        self._warned: set[tuple[str, int]] = set()

    def shares(
        self,
        principal: Principal,
        function_name: str | None,
        directory: Directory,
        policy: BudgetsPolicy,
        estimate: Estimate,
        patience: Patience = ENDLESS,
    ) -> list[Share]:
        """The request's part of each budget that concerns it."""
        concerning = self._concerning(principal, function_name, directory)
        may_guess = policy.on_store_failure == "open"
        if concerning and not may_guess:
            self.books.check()
        shares = []
        for budget, name in concerning:
            span = self._span(budget.period, policy.timezone)
            account = Account(budget.scope, name, budget.unit, budget.period, span)
            amount = self._amount(budget, policy, estimate)
            shares.append(Share(self, budget, account, amount, patience, may_guess=may_guess))
        return shares

    def count(
        self,
        principal: Principal,
        function_name: str | None,
        directory: Directory,
        policy: BudgetsPolicy,
        began_s: float,
        known: Collection[str],
        spent: Spent,
    ) -> None:
        """Counts what a request has used on the accounts that came into force while it ran.

        Args:
            directory, policy: those in force at the request's end.
            began_s: when the request began, in seconds since 1970: its row is in that moment's period.
            known: keys of the accounts on which it has set something aside.
        """
        for budget, name in self._concerning(principal, function_name, directory):
            span = self._span(budget.period, policy.timezone)
            account = Account(budget.scope, name, budget.unit, budget.period, span)
            if account.key not in known and span.start_s <= began_s < span.end_s:
                self.books.count(account, account.key, spent.of(budget.unit))

    def figures(self, budget: Budget, timezone: str) -> dict[str, Any]:
        """What was spent of a budget in the current period, without what is set aside: for operators.

        A budget of each one has the figures of whoever has used most of it, and `most_used_by` names them.

        Raises:
            BooksUnreadable: the usage log cannot be read.
        """
        span = self._span(budget.period, timezone)
        spent, name = self._used(budget, span)
        most = {"most_used_by": name} if _is_for_each(budget) else {}
        return {
            "spent_usd": float(Decimal(spent.nanousd).scaleb(-9)),
            "spent_tokens": spent.tokens,
            "spent_requests": spent.requests,
            "period_start": utc_text(span.start),
            "resets_at": utc_text(span.end),
            **most,
        }

    def used_share(self, budget: Budget, timezone: str) -> float:
        """Which share of its limit is used in the current period; of a budget of each one, by whoever has used most.

        Raises:
            BooksUnreadable: the usage log cannot be read.
        """
        spent, _ = self._used(budget, self._span(budget.period, timezone))
        return spent.of(budget.unit) / max(1, budget.limit)

    def has_warned(self, key: str, bar: int) -> bool:
        """Whether this process knows that the log has the warning."""
        return (key, bar) in self._warned

    def warn(self, account: Account, key: str, bar: int, text: str) -> None:
        """Logs once in a period that a counter has reached a bar, whichever process sees it first."""
        if (key, bar) in self._warned:
            return
        if len(self._warned) >= WARNED_MAX:
            self._warned.clear()
        self._warned.add((key, bar))
        if self._store.claim(f"warned:{bar}:{key}", self.books.ttl_s(account)):
            log.warning("%s", text)

    def _used(self, budget: Budget, span: Span) -> tuple[Spent, str | None]:
        """What was used, and by whom, where the budget is each one's and somebody has used any."""
        if not _is_for_each(budget):
            return self.books.usage_log.spent(budget.scope, budget.id, span.start, span.end), None
        found = self.books.usage_log.most(budget.scope, budget.unit, span.start, span.end)
        return (Spent(), None) if found is None else (found[1], found[0])

    def _concerning(
        self, principal: Principal, function_name: str | None, directory: Directory
    ) -> list[tuple[Budget, str]]:
        """Each budget with the name that it counts for."""
        index = self._index(directory)
        names: tuple[tuple[BudgetScope, str | None], ...] = (
            ("global", ""),
            ("key", principal.key_id),
            ("user", principal.user_id),
            ("function", function_name),
        )
        found = []
        for scope, name in names:
            if name is not None:
                own = index.get((scope, name), [])
                periods = {budget.period for budget in own}
                each = [budget for budget in index.get((scope, EACH), ()) if budget.period not in periods]
                found += [(budget, name) for budget in (*own, *each)]
        return found

    def _index(self, directory: Directory) -> Mapping[tuple[BudgetScope, str], list[Budget]]:
        if self._indexed[0] is not directory:
            index: dict[tuple[BudgetScope, str], list[Budget]] = {}
            for budget in directory.budgets:
                index.setdefault((budget.scope, budget.id if budget.scope != "global" else ""), []).append(budget)
            self._indexed = (directory, index)
        return self._indexed[1]

    def _span(self, period: Period, timezone: str) -> Span:
        now = self.clock()
        span = self._spans.get((period, timezone))
        if span is None or not span.start_s <= now < span.end_s:
            start, end = period_bounds(period, timezone, now)
            span = self._spans[period, timezone] = Span(start, end, start.timestamp(), end.timestamp())
        return span

    def _amount(self, budget: Budget, policy: BudgetsPolicy, estimate: Estimate) -> int:
        if budget.unit == "usd":
            return estimate.nanousd(self._prices, policy.unpriced_reserve_nanousd)
        return estimate.usage().total_tokens if budget.unit == "tokens" else 1


def spent_of(usage: Usage | None, cost_nanousd: int | None) -> Spent:
    """What budgets count of a request: nothing where nothing was used."""
    return Spent() if usage is None else Spent(cost_nanousd or 0, usage.total_tokens, 1)


def _is_for_each(budget: Budget) -> bool:
    return budget.scope != "global" and budget.id == EACH


def shown_limit(budget: Budget) -> str:
    """The limit for people.

    >>> shown_limit(Budget("global", "", "day", "usd", 1_500_000_000))
    '1.5 USD'
    >>> shown_limit(Budget("global", "", "day", "tokens", 1000))
    '1000 tokens'
    """
    if budget.unit == "usd":
        return f"{Decimal(budget.limit).scaleb(-9).normalize():f} USD"
    return f"{budget.limit} {budget.unit}"
