"""How the last hour went, minute by minute, for the dashboard: groups of rows instead of rows.

The log is asked only for what has been added since the last time, so that looking every few seconds stays cheap however
long the log is. Latencies come as the power of two above them: enough for a percentile that a person reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from peewee import SQL, Case, Value, fn

from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow

STEPS_MS: Final = tuple(round(10 * 1.25**step) for step in range(42))
"""The upper ends of the classes of duration, a quarter apart: 10 ms to 94 s."""

FEW: Final = 1_000
"""So many rows are read in a few ms."""

MINUTE_CHARS: Final = len("2026-05-10T13:33")


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that are alike."""

    minute: str
    """`YYYY-MM-DDTHH:MM`, UTC."""

    tier: str | None
    model: str | None
    endpoint: str | None
    status: str
    is_fallback: bool
    duration_class: int
    """Of `STEPS_MS`; its length for anything longer, or that has no duration."""

    requests: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class Added:
    """What was added to the log."""

    last_id: int
    groups: tuple[Group, ...]


def added(database: Database, after_id: int, since: str) -> Added:
    """The rows behind an id, those that began before `since` (as the log writes times) left out."""
    return database.report(_added, after_id, since)


def _added(after_id: int, since: str) -> Added:
    last_id = int(UsageRow.select(fn.MAX(UsageRow.id)).scalar() or 0)
    if last_id <= after_id:
        return Added(last_id, ())
    # Where much was added, which is so at the first look, rows are found by their time and not by their numbers: SQLite
    # would go through all of the log by those; plus 0 keeps it from it.
    number: Any = UsageRow.id if last_id - after_id <= FEW else UsageRow.id + 0
    by: tuple[Any, ...] = (
        fn.SUBSTR(UsageRow.created_at, 1, MINUTE_CHARS),
        UsageRow.tier,
        UsageRow.model,
        UsageRow.endpoint,
        UsageRow.status,
        Case(None, ((fn.COALESCE(UsageRow.fallback_level, 0) > 0, Value(1)),), Value(0)),
        _duration_class(),
    )
    query: Any = (
        UsageRow.select(*by, fn.COUNT(UsageRow.id), fn.COALESCE(fn.SUM(UsageRow.estimated_cost_usd), 0))
        .where(number > after_id, number <= last_id, UsageRow.created_at >= since)
        .group_by(*(SQL(str(place)) for place in range(1, len(by) + 1)))  # by place: Postgres takes equal texts for two
    )
    found = [
        Group(minute, tier, model, endpoint, status, bool(level), int(place), int(number), float(cost))
        for minute, tier, model, endpoint, status, level, place, number, cost in query.tuples()
    ]
    return Added(last_id, tuple(found))


def _duration_class() -> Any:
    """A search among the steps, halving them: each row is compared six times, not forty."""

    def among(low: int, high: int) -> Any:
        if low == high:
            return Value(low)
        middle = (low + high) // 2
        return Case(None, ((UsageRow.duration_ms <= STEPS_MS[middle], among(low, middle)),), among(middle + 1, high))

    return among(0, len(STEPS_MS))
