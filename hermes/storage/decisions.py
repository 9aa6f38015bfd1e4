"""What the classifier's page shows: who decided and who answered, from the sums; and what only rows know, from the last
of them.

The sums cost the number of hours and not of requests. Confidence, deviations and what fallbacks were for stand in the
rows alone, so a bounded number of the newest ones is looked at, and the page says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson
from peewee import SQL, Case, fn

from hermes.storage import spans
from hermes.storage.db import Database
from hermes.storage.models.sums import HourRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.usage_filter import utc_text

SAMPLE_ROWS: Final = 5000
BINS: Final = 40
"""Of the confidence from 0 to 1."""

MOST_DETAILS: Final = 1000
DIRECTIONS: Final = ("escalation", "de_escalation")
NEVER_SENT: Final = "Circuit open or skipped"


@dataclass(frozen=True, slots=True)
class Decided:
    """Requests of an hour that one source has decided for one tier."""

    hour: str
    """`2026-05-10T13`."""

    decision: str
    tier: str
    requests: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What one model did in one tier."""

    model: str
    tier: str
    requests: int
    failed: int
    fallbacks: int
    nanousd: int
    unpriced: int
    counted: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What the newest rows know."""

    rows: int = 0
    confidence: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By tier: how many were in each bin."""

    mean: float | None = None
    deviations: Mapping[str, int] = field(default_factory=dict)
    """`escalation`, `de_escalation`."""

    causes: Sequence[tuple[str, int, int]] = ()
    """Why a fallback had to answer, how often at the first level, and how often further on; the most frequent first."""


def decided(database: Database, start: datetime, end: datetime) -> list[Decided]:
    """Who decided, by the hour, the oldest first."""
    return database.report(_decided, spans.hours(start, end))


def answered(database: Database, start: datetime, end: datetime) -> list[Answered]:
    """Who answered, the most frequent first."""
    return database.report(_answered, spans.hours(start, end))


def sample(database: Database, since: datetime) -> Sample:
    """What the newest rows since a moment know; at most `SAMPLE_ROWS` are looked at."""
    return database.report(_sample, utc_text(since))


def _decided(span: tuple[str, str]) -> list[Decided]:
    keys = (HourRow.hour, HourRow.decision, HourRow.tier)
    query: Any = HourRow.select(*keys, fn.SUM(HourRow.requests)).where(HourRow.hour >= span[0], HourRow.hour < span[1])
    rows = query.where(HourRow.decision != "").group_by(*keys).order_by(*keys).tuples()
    return [Decided(hour, decision, tier, int(number)) for hour, decision, tier, number in rows]


def _answered(span: tuple[str, str]) -> list[Answered]:
    row = HourRow
    sums = [
        fn.SUM(column) for column in (row.requests, row.failed, row.fallbacks, row.nanousd, row.unpriced, row.counted)
    ]
    query: Any = row.select(row.model, row.tier, *sums).where(row.hour >= span[0], row.hour < span[1])
    rows = query.where(row.decision != "", row.model != "").group_by(row.model, row.tier).order_by(sums[0].desc())
    return [Answered(model, tier, *map(int, values)) for model, tier, *values in rows.tuples()]


def _sample(since: str) -> Sample:
    last = UsageRow.select(fn.MAX(UsageRow.id)).scalar()
    if last is None:
        return Sample()
    # Not by the index of times, which would have all rows of the range and not only the newest ones.
    newest = (UsageRow.id > int(last) - SAMPLE_ROWS) & (fn.COALESCE(UsageRow.created_at, "") >= since)
    counts: Any = UsageRow.select(
        fn.COUNT(UsageRow.decision), *(fn.SUM(Case(None, ((_deviates(name), 1),), 0)) for name in DIRECTIONS)
    )
    rows, *deviated = (int(number or 0) for number in counts.where(newest).tuples().get())
    confidence, mean = _confidence(newest)
    return Sample(rows, confidence, mean, dict(zip(DIRECTIONS, deviated, strict=True)), _causes(newest))


def _confidence(newest: Any) -> tuple[dict[str, list[int]], float | None]:
    value = UsageRow.confidence
    sure = newest & (UsageRow.decision == "surrogate") & value.is_null(False) & (value >= 0) & (value <= 1)
    place = fn.ROUND(value * BINS - 0.499999).cast("INTEGER")
    query: Any = UsageRow.select(UsageRow.tier, place, fn.COUNT(UsageRow.id), fn.SUM(value)).where(sure)
    found: dict[str, list[int]] = {}
    total, number = 0.0, 0
    for tier, at, count, summed in query.group_by(UsageRow.tier, SQL("2")).tuples():
        bins = found.setdefault(tier or "", [0] * BINS)
        bins[min(max(int(at), 0), BINS - 1)] += int(count)
        total, number = total + float(summed), number + int(count)
    return found, total / number if number else None


def _deviates(direction: str) -> Any:
    return UsageRow.details.contains(f'"deviation":"{direction}"')


def _causes(newest: Any) -> list[tuple[str, int, int]]:
    query: Any = UsageRow.select(UsageRow.fallback_level, UsageRow.details).where(newest, UsageRow.fallback_level > 0)
    counts: Counter[tuple[str, bool]] = Counter()
    for level, details in query.order_by(UsageRow.id.desc()).limit(MOST_DETAILS).tuples():
        counts[cause_of(orjson.loads(details).get("attempts") or ()), int(level) > 1] += 1
    causes = {cause: counts[cause, False] + counts[cause, True] for cause, _ in counts}
    ordered = sorted(causes, key=lambda cause: (-causes[cause], cause))
    return [(cause, counts[cause, False], counts[cause, True]) for cause in ordered]


def cause_of(attempts: Sequence[Mapping[str, Any]]) -> str:
    """Why the first endpoint has not answered.

    >>> cause_of([{"endpoint": "a", "status": 503, "called": True}, {"endpoint": "b", "status": 200, "called": True}])
    '503'
    >>> cause_of([{"endpoint": "a", "status": None, "called": False}])
    'Circuit open or skipped'
    """
    if not attempts:
        return NEVER_SENT
    first = [attempt for attempt in attempts if attempt.get("endpoint") == attempts[0].get("endpoint")]
    asked = [attempt for attempt in first if attempt.get("called", True)]
    if not asked:
        return NEVER_SENT
    status = asked[-1].get("status")
    return "No answer" if status is None else str(status)
