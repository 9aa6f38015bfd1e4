"""The budgets with their use, made once for the pages that show them and for the count in the navigation."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import gevent

from hermes.directory import Budget, BudgetScope
from hermes.errors import BooksUnreadable
from hermes.instance import Hermes
from hermes.storage.reports import Point
from hermes.web.dashboard.attempted import attempted
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.limits import Limit, limits_of, shown_name
from hermes.web.dashboard.views.strip import Count

KEPT_S: Final = 10.0
MOST: Final = 100
"""Budgets whose use is looked up; each costs a read."""

SPARK_DAYS: Final = 14


class Limits:
    """Every budget with its use, for all open pages together."""

    def __init__(self, hermes: Hermes) -> None:
        self._hermes = hermes
        self._kept = Kept(self._make, KEPT_S)
        self._version = -1
        self._last: tuple[Limit, ...] | None = None

    def get(self) -> tuple[Limit, ...]:
        """The limits. Raises `BooksUnreadable` where the log does not say what was used."""
        version = self._hermes.directories.current().version
        if version != self._version:  # a budget was changed, wherever that was
            self._version = version
            self._kept.forget()
        return self._kept.get()

    def known(self) -> tuple[Limit, ...]:
        """The same as they were last, renewed meanwhile: for who shall not wait while each budget is looked up.

        Raises alike where they are not known yet, or others are set.
        """
        if self._last is None or self._hermes.directories.current().version != self._version:
            return self.get()
        gevent.spawn(attempted, self.get)
        return self._last

    def count(self) -> Count | None:
        """How many are near, for the navigation."""
        found, _ = attempted(self.known)
        over = sum(limit.is_over for limit in found or ())
        near = sum(limit.is_near for limit in found or ())
        if over:
            return Count(f"{over} over", "bad")
        return Count(f"{near} near", "warn") if near else None

    def _make(self) -> tuple[Limit, ...]:
        hermes = self._hermes
        directory = hermes.directories.current()
        if directory.budgets and not hermes.backfill.is_complete():
            raise BooksUnreadable("Older rows are still being added up; what was used is shown when that is done.")
        used = [(budget, hermes.spent(budget)) for budget in directory.budgets[:MOST]]
        key_names = {key.id: key.name for key in directory.keys.values()}
        self._last = limits_of(used, key_names, time.time(), _Sparks(hermes, used).of)
        return self._last


class _Sparks:
    """What was used day by day; one read for each scope that occurs."""

    def __init__(self, hermes: Hermes, used: Sequence[tuple[Budget, Mapping[str, Any]]]) -> None:
        now = datetime.now(UTC)
        start = now - timedelta(days=SPARK_DAYS - 1)
        self._days = [f"{start + timedelta(days=day):%Y-%m-%d}" for day in range(SPARK_DAYS)]
        names: dict[BudgetScope, set[str]] = defaultdict(set)
        for budget, figures in used:
            names[budget.scope].add(shown_name(budget, figures))
        self._points: dict[tuple[BudgetScope, str], list[Point]] = defaultdict(list)
        for scope, wanted in names.items():
            by = None if scope == "global" else scope
            for point in hermes.reports.series(start, now, "day", by, wanted if by else None):
                self._points[scope, point.name].append(point)

    def of(self, budget: Budget, name: str) -> Sequence[float]:
        """The course of what a budget counts, for the name that it is shown for; empty where nothing was used."""
        unit = {"usd": "nanousd", "tokens": "total_tokens", "requests": "counted"}[budget.unit]
        sums = dict.fromkeys(self._days, 0.0)
        for point in self._points[budget.scope, name]:
            sums[point.at] += getattr(point.sums, unit)
        return tuple(sums.values()) if any(sums.values()) else ()
