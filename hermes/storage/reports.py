"""Reads the sums of the usage log: totals, courses over time, who used most, what went where, how long it took.

Ranges go from an hour to an hour, in UTC: the first one counts whole, and so does the one in which the end lies, unless
the end is its very beginning. What costs time is the number of days and of the hours at their edges, and not of rows.
Days are those of UTC; who wants other ones sums hours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal

from peewee import SQL, Select, fn

from hermes.storage import spans, summed
from hermes.storage.db import Database
from hermes.storage.models.sums import LATENCY_BUCKETS, HourRow, LatencyRow, MinuteRow, NameRow
from hermes.storage.rollups import BOUND_FACTOR, BOUNDS, DAY_CHARS, HOUR_CHARS, SCALES
from hermes.storage.spans import Span, Step, names_within

__all__ = ["Bar", "Dimension", "Flow", "Latency", "Metric", "Minute", "Order", "Point", "Reports", "Sums"]

Dimension = Literal["tier", "decision", "model", "endpoint", "status", "stream", "user", "function", "key"]
Metric = Literal["duration", "ttft", "overhead"]
Order = Literal["requests", "nanousd", "total_tokens", "failed"]

NAMED: Final = ("user", "function", "key")


@dataclass(frozen=True, slots=True)
class Sums:
    """What a number of requests comes to."""

    requests: int = 0
    failed: int = 0
    """`error` and `interrupted`."""

    refused: int = 0
    counted: int = 0
    """Requests with tokens."""

    unpriced: int = 0
    """Requests with tokens whose price is unknown; `nanousd` lacks them."""

    total_tokens: int = 0
    nanousd: int = 0

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        return Sums(*(getattr(self, name) + getattr(other, name) for name in SUM_NAMES))


SUM_NAMES: Final = tuple(field.name for field in fields(Sums))


@dataclass(frozen=True, slots=True)
class Totals:
    """All requests of a range."""

    sums: Sums
    fallbacks: int = 0
    """Requests that another endpoint than the cascade's first one has answered."""

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


MORE_NAMES: Final = tuple(field.name for field in fields(Totals))[1:]


@dataclass(frozen=True, slots=True)
class Point:
    """What one name of a dimension comes to in an hour (`2026-05-10T13`) or a day (`2026-05-10`)."""

    at: str
    name: str
    """Empty: unknown, or all together where no dimension was asked for."""

    sums: Sums


@dataclass(frozen=True, slots=True)
class Flow:
    """How many requests went one way. Empty: it ended before that."""

    decision: str
    tier: str
    model: str
    requests: int


@dataclass(frozen=True, slots=True)
class Minute:
    """How many requests of a tier ended in a way, of those that began in a minute (`2026-05-10T13:33`)."""

    at: str
    tier: str
    status: str
    requests: int


@dataclass(frozen=True, slots=True)
class Bar:
    """How many requests of a tier ended in a way in a step of time."""

    at: str
    tier: str
    status: str
    requests: int


@dataclass(frozen=True, slots=True)
class Latency:
    """How long requests took, as buckets."""

    metric: Metric
    counts: Sequence[int]
    """How many fell into each bucket; the last one has no end."""

    @property
    def requests(self) -> int:
        """How many had a value."""
        return sum(self.counts)

    def percentile_ms(self, share: float) -> float | None:
        """The value below which that share of the requests lies, in ms; None without any.

        Within a bucket values are taken to lie evenly on the logarithmic scale; right to a few percent, to 20 % at
        worst. Beyond the last bound it is that bound.

        >>> round(Latency("duration", [0, 10, 0]).percentile_ms(0.5), 1)
        6.0
        """
        wanted = share * self.requests
        if not self.requests:
            return None
        seen = 0
        for number, count in enumerate(self.counts):
            if count and seen + count >= wanted:
                within = (wanted - seen) / count
                scaled = BOUNDS[-1] if number >= len(BOUNDS) else BOUNDS[number] * BOUND_FACTOR ** (within - 1)
                return scaled / SCALES[self.metric]
            seen += count
        raise AssertionError("a share is at most 1")


class Reports:
    """Questions to the sums. Each costs one read; none looks at the log itself."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self, start: datetime, end: datetime, **only: str | bool) -> Totals:
        """All together; `only` narrows to one `tier`, `decision`, `model`, `endpoint`, `status`, `stream`."""
        return self._database.report(_totals, start, end, only)

    def series(
        self,
        start: datetime,
        end: datetime,
        step: Step,
        by: Dimension | None = None,
        names: Collection[str] | None = None,
    ) -> list[Point]:
        """The course over time, in order; a step in which nothing was is left out.

        Args:
            step: for days, the range is widened to whole ones.
            by: a point for each name that occurs in a step; None: one for all together.
            names: of users, functions or keys those that count, for instance what `top` has found; None: all. A
                thousand points take 5 ms, on Postgres of the event loop's time.
        """
        return self._database.report(_series, start, end, step, by, names)

    def top(
        self, start: datetime, end: datetime, by: Dimension, number: int, order: Order = "nanousd"
    ) -> list[tuple[str, Sums]]:
        """Who comes to most, the first ones; empty is the name of what is unknown."""
        return self._database.report(_top, start, end, by, number, order)

    def flow(self, start: datetime, end: datetime) -> list[Flow]:
        """What decided, for which tier, and who answered; the most frequent way first."""
        return self._database.report(_flow, start, end)

    def latency(
        self, start: datetime, end: datetime, metric: Metric, *, tier: str | None = None, model: str | None = None
    ) -> Latency:
        """How long requests took."""
        return self._database.report(_latency, spans.hours(start, end), metric, tier, model)

    def latencies(self, start: datetime, end: datetime, metric: Metric) -> list[tuple[str, Latency]]:
        """The same hour by hour."""
        return self._database.report(_latencies, spans.hours(start, end), metric)

    def bars(
        self, start: datetime, end: datetime, chars: int, model: str | None = None, decision: str | None = None
    ) -> list[Bar]:
        """Requests in equal steps of time, in order; a step in which nothing was is left out.

        Args:
            chars: how much of `2026-05-10T13:33` is one step's name: 10 days, 13 hours, 15 tens of minutes, 16 minutes.
                Steps under an hour are known of the last eight days only, and not by model or decision.
        """
        return self._database.report(_bars, start, end, chars, model, decision)

    def minutes(self, start: datetime, end: datetime) -> list[Minute]:
        """Requests by the minute, in order; of the last eight days only."""
        return self._database.report(_minutes, start, end)


def _within(query: Any, column: Any, span: Span) -> Any:
    return query.where(column >= span[0], column < span[1])


def _summed(model: Any, names: Sequence[str] = SUM_NAMES) -> list[Any]:
    return [fn.COALESCE(fn.SUM(getattr(model, name)), 0) for name in names]


def _rows(query: Any) -> list[Any]:
    """What a query that belongs to no model gives."""
    found: list[Any] = list(query.tuples().execute(HourRow._meta.database))
    return found


def _sums(values: Sequence[Any]) -> Sums:
    return Sums(*map(int, values))


def _totals(start: datetime, end: datetime, only: dict[str, str | bool]) -> Totals:
    table = summed.source(start, end, (*SUM_NAMES, *MORE_NAMES, *only))
    query = Select([table], _summed(table.c, SUM_NAMES + MORE_NAMES))
    for name, value in only.items():
        query = query.where(getattr(table.c, name) == value)
    found = _rows(query)[0]
    return Totals(_sums(found[: len(SUM_NAMES)]), *map(int, found[len(SUM_NAMES) :]))


def _series(
    start: datetime, end: datetime, step: Step, by: Dimension | None, names: Collection[str] | None
) -> list[Point]:
    if by in NAMED:
        span = spans.hours(start, end) if step == "hour" else spans.days(start, end)
        query: Any = NameRow.select(NameRow.at, NameRow.name, *(getattr(NameRow, name) for name in SUM_NAMES))
        query = _within(query.where(NameRow.dimension == by, NameRow.grain == step), NameRow.at, span)
        if names is not None:
            query = query.where(NameRow.name.in_(list(names)))
        rows = list(query.order_by(NameRow.at, NameRow.name).tuples())
    else:
        names_of = () if by is None else (by,)
        if step == "hour":
            table: Any = HourRow
            columns, at = table, table.hour
        else:
            table = summed.source(*spans.around_days(start, end), (*SUM_NAMES, *names_of), has_day=True)
            columns, at = table.c, table.c.at
        keys = [at, *(getattr(columns, name) for name in names_of)]
        query = Select([table], [*keys, *_summed(columns)])
        if step == "hour":
            query = _within(query, HourRow.hour, spans.hours(start, end))
        rows = _rows(query.group_by(*keys).order_by(*keys))
    if by is None:
        return [Point(at, "", _sums(values)) for at, *values in rows]
    return [Point(at, _name(name), _sums(values)) for at, name, *values in rows]


def _name(value: str | bool) -> str:
    """`stream` is the one dimension that is no text."""
    return value if isinstance(value, str) else str(bool(value)).lower()


def _top(start: datetime, end: datetime, by: Dimension, number: int, order: Order) -> list[tuple[str, Sums]]:
    place = SUM_NAMES.index(order)
    if by in NAMED:
        return _top_names(start, end, by, number, place)
    table = summed.source(start, end, (*SUM_NAMES, by))
    column, sums = getattr(table.c, by), _summed(table.c)
    query = Select([table], [column, *sums]).group_by(column)
    query = query.order_by(sums[place].desc(), column).limit(number)
    return [(_name(name), _sums(values)) for name, *values in _rows(query)]


def _top_names(start: datetime, end: datetime, by: str, number: int, place: int) -> list[tuple[str, Sums]]:
    sums = _summed(NameRow)
    query = NameRow.select(NameRow.name, *sums).where(names_within(by, start, end)).group_by(NameRow.name)
    rows: Any = query.order_by(sums[place].desc(), NameRow.name).limit(number).tuples()
    return [(name, _sums(values)) for name, *values in rows]


def _flow(start: datetime, end: datetime) -> list[Flow]:
    table = summed.source(start, end, ("decision", "tier", "model", "requests"))
    keys = (table.c.decision, table.c.tier, table.c.model)
    requests = fn.SUM(table.c.requests)
    rows = _rows(Select([table], [*keys, requests]).group_by(*keys).order_by(requests.desc(), *keys))
    return [Flow(decision, tier, model, int(number)) for decision, tier, model, number in rows]


BUCKETS: Final = [getattr(LatencyRow, f"b{number}") for number in range(LATENCY_BUCKETS)]


def _latency(span: Span, metric: Metric, tier: str | None, model: str | None) -> Latency:
    query = _within(LatencyRow.select(*(fn.COALESCE(fn.SUM(bucket), 0) for bucket in BUCKETS)), LatencyRow.hour, span)
    query = query.where(LatencyRow.metric == metric)
    for column, value in ((LatencyRow.tier, tier), (LatencyRow.model, model)):
        if value is not None:
            query = query.where(column == value)
    return Latency(metric, [int(count) for count in query.tuples().get()])


def _latencies(span: Span, metric: Metric) -> list[tuple[str, Latency]]:
    query = LatencyRow.select(LatencyRow.hour, *(fn.SUM(bucket) for bucket in BUCKETS))
    query = _within(query.where(LatencyRow.metric == metric), LatencyRow.hour, span)
    rows = query.group_by(LatencyRow.hour).order_by(LatencyRow.hour).tuples()
    return [(hour, Latency(metric, [int(count) for count in counts])) for hour, *counts in rows]


def _minutes(start: datetime, end: datetime) -> list[Minute]:
    query = MinuteRow.select(MinuteRow.minute, MinuteRow.tier, MinuteRow.status, MinuteRow.requests)
    keys = (MinuteRow.minute, MinuteRow.tier, MinuteRow.status)
    return [
        Minute(*values)
        for values in _within(query, MinuteRow.minute, spans.minutes(start, end)).order_by(*keys).tuples()
    ]


def _bars(start: datetime, end: datetime, chars: int, model: str | None, decision: str | None) -> list[Bar]:
    table: Any = MinuteRow if chars > HOUR_CHARS else HourRow
    columns, time = table, table.minute if chars > HOUR_CHARS else table.hour
    only = {name: value for name, value in (("model", model), ("decision", decision)) if value is not None}
    if chars == DAY_CHARS:
        table = summed.source(start, end, ("tier", "status", "requests", *only), has_day=True)
        columns, time = table.c, table.c.at
    query = Select([table], [fn.SUBSTR(time, 1, chars), columns.tier, columns.status, fn.SUM(columns.requests)])
    if chars != DAY_CHARS:
        query = _within(query, time, spans.minutes(start, end) if chars > HOUR_CHARS else spans.hours(start, end))
    for name, value in only.items():
        query = query.where(getattr(columns, name) == value)
    places = [SQL(str(number)) for number in (1, 2, 3)]
    rows = _rows(query.group_by(*places).order_by(*places))
    return [Bar(at, tier, status, int(requests)) for at, tier, status, requests in rows]
