"""The limits of the budgets page: how much of each is used, where it leads at this rate, and when it is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from zlib import crc32

from hermes.directory import EACH, Action, Budget, Period, Unit
from hermes.web.dashboard.marks import money_text

NANO: Final = 1e-9
EARLY_SHARE: Final = 0.02
"""So much of a period must be over before its rate says anything."""

ACTIONS: Final[Mapping[Action, str]] = {"block": "Block with 429", "downgrade": "Use simple tier", "warn": "Alert only"}
KINDS: Final = {"global": "Gateway", "key": "API key", "user": "User", "function": "Function"}
UNITS: Final[Mapping[Unit, str]] = {"usd": "$", "tokens": "tokens", "requests": "requests"}
PERIODS: Final[tuple[Period, ...]] = ("day", "week", "month")


@dataclass(frozen=True, slots=True)
class Limit:
    """One budget and its current period."""

    budget: Budget
    label: str
    kind: str
    spent: float
    """In the budget's unit; money in USD."""

    limit: float
    ahead: float | None
    """What it comes to at the end of its period at this rate; None: too early to tell."""

    reached_at: float | None
    """When the limit is reached at this rate, if that is before it resets; seconds since 1970."""

    resets_at: float
    spark: Sequence[float] = ()

    @property
    def name(self) -> str:
        """As addresses have it: scope, id and period."""
        return name_of(self.budget)

    @property
    def anchor(self) -> str:
        """Fit for an element's id, and the same wherever its row stands."""
        return f"limit-{crc32(self.name.encode('utf-8', 'surrogatepass')):08x}"

    @property
    def used_percent(self) -> float:
        """How much of the limit is used."""
        return percent(self.spent, self.limit)

    @property
    def ahead_percent(self) -> float:
        """How much of it will be, as far as that can be told."""
        return percent(self.spent if self.ahead is None else self.ahead, self.limit)

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self.spent >= self.limit

    @property
    def is_near(self) -> bool:
        """Whether so much is used that somebody should know."""
        return self.spent >= self.limit * self.budget.warn_share

    @property
    def will_be_reached(self) -> bool:
        """Whether it is or will be used up before it resets."""
        return self.is_over or self.reached_at is not None

    @property
    def kind_of_state(self) -> str:
        """`bad`, `warn` or empty, as the bar shows it."""
        return "bad" if self.is_over or self.used_percent >= 90 else "warn" if self.is_near else ""

    @property
    def effect(self) -> str:
        """What happens when it is reached."""
        return ACTIONS[self.budget.action]

    def amount(self, value: float) -> str:
        """A value in the budget's unit."""
        return amount_text(value, self.budget.unit)


def amount_text(value: float, unit: Unit) -> str:
    """A value in a unit, for people.

    >>> amount_text(13.86, "usd"), amount_text(1200.0, "tokens")
    ('$13.86', '1,200 tokens')
    """
    return money_text(value) if unit == "usd" else f"{value:,.0f} {unit}"


def name_of(budget: Budget) -> str:
    """A budget's name in addresses.

    >>> name_of(Budget("user", "a:b", "day", "usd", 1))
    'user:a:b:day'
    """
    return f"{budget.scope}:{budget.id}:{budget.period}"


def parts_of(name: str) -> dict[str, str]:
    """Scope, id and period of a name, in the form that the editor takes.

    >>> parts_of("user:a:b:day")
    {'scope': 'user', 'period': 'day', 'id': 'a:b'}
    """
    scope, _, rest = name.partition(":")
    scope_id, _, period = rest.rpartition(":")
    return {"scope": scope, "period": period, **({"id": scope_id} if scope_id else {})}


def percent(value: float, limit: float) -> float:
    """A value in percent of a limit; any value is all of a limit that is zero."""
    return value / limit * 100 if limit else 100.0


def ahead_of(spent: float, start: float, end: float, now: float) -> float | None:
    """What is spent by the end of a period if it goes on at the rate so far; None: too early to tell.

    >>> ahead_of(10.0, 0.0, 100.0, 50.0), ahead_of(10.0, 0.0, 100.0, 1.0)
    (20.0, None)
    """
    share = (now - start) / (end - start)
    return spent / share if share >= EARLY_SHARE else None


def limit_of(
    budget: Budget, figures: Mapping[str, Any], key_names: Mapping[str, str], now: float, spark: Sequence[float] = ()
) -> Limit:
    """
    Args:
        figures: of `Budgets.figures`.
        key_names: API keys' names by their ids.
        spark: what was used of it lately, day by day.
    """
    spent = float(figures[f"spent_{budget.unit}"])
    limit = budget.limit * NANO if budget.unit == "usd" else float(budget.limit)
    start, end = (datetime.fromisoformat(figures[name]).timestamp() for name in ("period_start", "resets_at"))
    ahead = ahead_of(spent, start, end, now)
    reached_at = None
    if ahead is not None and spent < limit <= ahead:
        reached_at = start + (now - start) * limit / spent
    label, kind = _called(budget, figures.get("most_used_by"), key_names)
    return Limit(budget, label, kind, spent, limit, ahead, reached_at, end, spark)


def _called(budget: Budget, most_used_by: str | None, key_names: Mapping[str, str]) -> tuple[str, str]:
    kind = KINDS[budget.scope]
    if budget.scope == "global":
        return "All traffic", kind
    if budget.id != EACH:
        return (key_names.get(budget.id, budget.id) if budget.scope == "key" else budget.id), kind
    most = key_names.get(most_used_by, most_used_by) if most_used_by else None
    return f"Each {kind if budget.scope == 'key' else kind.lower()}", f"Most by {most}" if most else kind


def limits_of(
    used: Iterable[tuple[Budget, Mapping[str, Any]]],
    key_names: Mapping[str, str],
    now: float,
    spark_of: Callable[[Budget, str], Sequence[float]] = lambda budget, name: (),
) -> tuple[Limit, ...]:
    """Every budget, that of all traffic first, then those that are used most.

    Args:
        used: budgets with what `Budgets.figures` says of them.
        spark_of: what somebody has used of a budget lately, day by day.
    """
    limits = [limit_of(one, figures, key_names, now, spark_of(one, shown_name(one, figures))) for one, figures in used]
    return tuple(sorted(limits, key=lambda limit: (limit.budget.scope != "global", -limit.used_percent)))


def shown_name(budget: Budget, figures: Mapping[str, Any]) -> str:
    """Whose use is shown: of a budget of each one, that of whoever has used most; empty where nobody has."""
    return (figures.get("most_used_by") or "") if budget.id == EACH else budget.id
