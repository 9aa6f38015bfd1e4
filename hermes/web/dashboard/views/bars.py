"""The bars above the usage log: how many requests there were in each step of the range, of the sums alone.

The sums know less than the log does. What they cannot tell apart is not guessed: the figure then shows all requests of
the range, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from hermes.storage.reports import Bar, Point
from hermes.storage.usage_filter import FAILED, FAILURES, UsageFilter
from hermes.web.dashboard.charts import Chart, Role, Series

Named = Literal["user", "function", "key"]
NAMED: Final[dict[str, Named]] = {"user_id": "user", "function_name": "function", "key_id": "key"}
STEPS: Final = {16: timedelta(minutes=1), 15: timedelta(minutes=10), 13: timedelta(hours=1), 10: timedelta(days=1)}
STEP_NAMES: Final = {16: "minute", 15: "10 minutes", 13: "hour", 10: "day"}
REST: Final = {16: ":00Z", 15: "0:00Z", 13: ":00:00Z", 10: ""}
FINE_FOR: Final = timedelta(days=7)
"""How far back the sums of minutes are sure to go."""

LONGEST: Final = timedelta(days=90)
MOST_STEPS: Final = 400


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of the sums."""

    start: datetime
    end: datetime
    chars: int
    """How much of a time names a step."""

    model: str | None = None
    decision: str | None = None
    named: Named | None = None
    """The dimension whose sums are asked, by `name`."""

    name: str = ""
    tier: str | None = None
    status: str | None = None
    is_exact: bool = True
    """False: the filters say more than the sums know, so all requests are shown."""

    @property
    def step_name(self) -> str:
        """In words."""
        return STEP_NAMES[self.chars]


def plan(wanted: UsageFilter, now: datetime) -> Plan:
    """What to ask for a filter."""
    end = _moment(wanted.until) or now
    start = max(_moment(wanted.since) or end - LONGEST, end - LONGEST * 4)
    length = end - start
    chars = 16 if length <= timedelta(minutes=100) else 15 if length <= timedelta(hours=25) else 13
    if start < now - FINE_FOR - timedelta(minutes=1):
        chars = 13
    if length > timedelta(days=8):
        chars = 10
    names = {name: value for name in NAMED if (value := getattr(wanted, name)) is not None}
    others = (wanted.request_id, wanted.session_key, wanted.min_duration_ms, wanted.any_of)
    finer = (wanted.model, wanted.decision, wanted.tier, wanted.status)
    if any(value is not None for value in others) or wanted.fallback or len(names) > 1 or (names and any(finer)):
        return Plan(start, end, chars, is_exact=False)
    if names:
        ((column, name),) = names.items()
        return Plan(start, end, min(chars, 13), named=NAMED[column], name=name)
    chars = min(chars, 13) if wanted.model or wanted.decision else chars
    return Plan(start, end, chars, wanted.model, wanted.decision, tier=wanted.tier, status=wanted.status)


def of_points(points: Iterable[Point]) -> list[Bar]:
    """What the sums of a name tell, as bars without a tier."""
    bars: list[Bar] = []
    for point in points:
        bars.append(Bar(point.at, "", "ok", point.sums.requests - point.sums.failed))
        bars.append(Bar(point.at, "", "error", point.sums.failed))
    return bars


@dataclass(frozen=True, slots=True)
class Bars:
    """The figure."""

    chart: Chart
    requests: int
    failed: int
    plan: Plan
    kinds: tuple[str, ...]
    """The series that it has."""

    @property
    def sentence(self) -> str:
        """What it shows."""
        return f"Requests per {self.plan.step_name}: {self.requests:,} in all, {self.failed:,} of them failed"


def bars_of(found: Iterable[Bar], asked: Plan) -> Bars:
    """The figure of what was found; steps in which nothing was are empty ones."""
    counts: dict[str, Counter[str]] = {
        "complex": Counter(),
        "simple": Counter(),
        "other": Counter(),
        "failed": Counter(),
    }
    for bar in found:
        if _fits(bar, asked):
            kind = "failed" if bar.status in FAILURES else bar.tier if bar.tier in counts else "other"
            counts[kind][bar.at] += bar.requests
    steps = _steps(asked)
    roles: dict[str, Role] = {"complex": "complex", "simple": "simple", "other": "other", "failed": "bad"}
    kinds = [kind for kind, values in counts.items() if kind != "other" or values.total()]
    if asked.named:
        kinds = ["other", "failed"]
    names = {"other": "requests" if asked.named else "no tier"}
    series = [
        Series(names.get(kind, kind), [counts[kind][step] for step in steps], roles[kind], "bars") for kind in kinds
    ]
    total = sum(values.total() for values in counts.values())
    chart = Chart("Time (UTC)", [step + REST[asked.chars] for step in steps], series)
    return Bars(chart, total, counts["failed"].total(), asked, tuple(kinds))


def _fits(bar: Bar, asked: Plan) -> bool:
    if asked.tier is not None and bar.tier != asked.tier:
        return False
    if asked.status == FAILED:
        return bar.status in FAILURES
    return asked.status is None or bar.status == asked.status


def _steps(asked: Plan) -> list[str]:
    length = STEPS[asked.chars]
    at = datetime.fromtimestamp(asked.start.timestamp() // length.total_seconds() * length.total_seconds(), UTC)
    names: list[str] = []
    while at < asked.end and len(names) < MOST_STEPS:
        names.append(at.strftime("%Y-%m-%dT%H:%M")[: asked.chars])
        at += length
    return names


def _moment(at: str | None) -> datetime | None:
    return None if at is None else datetime.fromisoformat(at)
