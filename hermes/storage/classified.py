"""What the usage log says of the router's decisions since a moment: the sums that the classifier's report is made of.

Each is one statement that the database works out; a week of 240,000 requests takes it about a second in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from peewee import SQL, Window, fn

from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow

HOUR_CHARS: Final = 13
"""`2026-05-10T13`: the hour of `created_at`."""

BUCKETS: Final = 10
"""Of the confidence's distribution."""

DEVIATED: Final = '"deviation":'
"""Stands in `details` where a keyword spoke against the conversation's tier."""


@dataclass(frozen=True, slots=True)
class Served:
    """What one model did."""

    model: str
    tier: str
    requests: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    cost_usd: float | None
    """None: no request has a known price."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure the surrogate was where it decided."""

    mean: float | None
    least: float | None
    most: float | None
    buckets: tuple[int, ...]
    """How many were in each tenth from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The sums."""

    decisions: dict[str, int]
    """Requests by what decided them, as `X-Hermes-Decision` says it."""

    deviations: int
    hourly: tuple[tuple[str, str, int], ...]
    """(hour, what decided, requests), the oldest first; the hour as `2026-05-10T13:00:00Z`."""

    confidence: Confidence
    fallbacks: dict[int, int]
    """Requests by the level at which they were answered."""

    models: tuple[Served, ...]
    interrupted: int


class ClassifiedRepository:
    """Reads the usage log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, moment: str) -> Classified:
        """The sums from a moment on, as `created_at` has it."""
        return self._database.report(_since, moment)


def _since(moment: str) -> Classified:
    decided = (UsageRow.created_at >= moment) & UsageRow.decision.is_null(False)
    hour = fn.SUBSTR(UsageRow.created_at, SQL("1"), SQL(str(HOUR_CHARS)))  # Postgres wants them equal in GROUP BY
    rows: Any = UsageRow.select(hour, UsageRow.decision, fn.COUNT(UsageRow.id)).where(decided)
    hourly = tuple(
        (f"{at}:00:00Z", decision, int(count))
        for at, decision, count in rows.group_by(hour, UsageRow.decision).order_by(hour, UsageRow.decision).tuples()
    )
    decisions: dict[str, int] = {}
    for _, decision, count in hourly:
        decisions[decision] = decisions.get(decision, 0) + count
    levels: Any = UsageRow.select(UsageRow.fallback_level, fn.COUNT(UsageRow.id)).where(
        decided, UsageRow.fallback_level.is_null(False)
    )
    return Classified(
        decisions=decisions,
        deviations=_count(decided & UsageRow.details.contains(DEVIATED)),
        hourly=hourly,
        confidence=_confidence(decided),
        fallbacks={int(level): int(count) for level, count in levels.group_by(UsageRow.fallback_level).tuples()},
        models=_models(decided),
        interrupted=_count(decided & (UsageRow.status == "interrupted")),
    )


def _count(condition: Any) -> int:
    return int(UsageRow.select(fn.COUNT(UsageRow.id)).where(condition).scalar() or 0)


def _confidence(decided: Any) -> Confidence:
    value = UsageRow.confidence
    sure = decided & (UsageRow.decision == "surrogate") & value.is_null(False)
    spread: Any = UsageRow.select(fn.AVG(value), fn.MIN(value), fn.MAX(value)).where(sure)
    mean, least, most = spread.tuples().get()
    bucket = fn.ROUND(value * SQL(str(BUCKETS)) - SQL("0.499999")).cast("INTEGER")
    buckets = [0] * BUCKETS
    counted: Any = UsageRow.select(bucket, fn.COUNT(UsageRow.id)).where(sure).group_by(bucket)
    for number, count in counted.tuples():
        buckets[min(max(int(number), 0), BUCKETS - 1)] += int(count)
    return Confidence(mean, least, most, tuple(buckets))


def _models(decided: Any) -> tuple[Served, ...]:
    model, tier = UsageRow.model, UsageRow.tier
    named = decided & model.is_null(False) & tier.is_null(False)
    errors = fn.SUM(UsageRow.status.in_(("error", "interrupted")).cast("INTEGER"))
    sums: Any = UsageRow.select(model, tier, fn.COUNT(UsageRow.id), errors, fn.SUM(UsageRow.estimated_cost_usd))
    times = _times(named & (UsageRow.status == "ok"))
    return tuple(
        Served(
            name, of, int(requests), int(failed or 0), *times.get((name, of), (None, None)),
            None if cost is None else float(cost),
        )
        for name, of, requests, failed, cost in sums.where(named)
        .group_by(model, tier)
        .order_by(fn.COUNT(UsageRow.id).desc(), model, tier)
        .tuples()
    )  # fmt: skip


def _times(condition: Any) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    """The median and the 95th percentile of each model's durations, by nearest rank."""
    model, tier, duration = UsageRow.model, UsageRow.tier, UsageRow.duration_ms
    own = Window(partition_by=[model, tier], order_by=[duration])
    whole = Window(partition_by=[model, tier], alias="whole")
    ranked: Any = (
        UsageRow.select(
            model.alias("model"),
            tier.alias("tier"),
            duration.alias("ms"),
            fn.ROW_NUMBER().over(window=own).alias("rank"),
            fn.COUNT(UsageRow.id).over(window=whole).alias("of"),
        )
        .where(condition, duration.is_null(False))
        .window(own, whole)
    )
    picked: Any = (
        UsageRow.select(SQL("model"), SQL("tier"), SQL("ms"), SQL("rank"), SQL("of"))
        .from_(ranked)
        .where(SQL("rank = (of * 50 + 99) / 100 OR rank = (of * 95 + 99) / 100"))
    )
    found: dict[tuple[str, str], tuple[float | None, float | None]] = {}
    for name, of_tier, ms, rank, of in picked.tuples():
        p50, p95 = found.get((name, of_tier), (None, None))
        found[name, of_tier] = (
            ms if rank == (of * 50 + 99) // 100 else p50,
            ms if rank == (of * 95 + 99) // 100 else p95,
        )
    return found
