"""What each tier's models have consumed, from the sums: to tell what the same tokens would have cost elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import fn

from hermes.storage import spans
from hermes.storage.db import Database
from hermes.storage.models.sums import HourRow, NameRow


@dataclass(frozen=True, slots=True)
class Consumption:
    """Tokens of answers whose price was known, and what they cost."""

    tier: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    nanousd: int


def consumption(database: Database, start: datetime, end: datetime) -> list[Consumption]:
    """What the tiers have consumed in a range of whole hours.

    Hours of a model in which an answer had no known price are left out: what they would have cost elsewhere cannot be
    held against anything.
    """
    return database.report(_consumption, spans.hours(start, end))


def spent_nanousd(database: Database, start: datetime, end: datetime) -> int:
    """What all together have spent in a range of whole hours. Of the sums by name: a month is thirty days in them."""
    return database.report(_spent, start, end)


def spent_by_day(database: Database, start: datetime, end: datetime) -> list[tuple[str, int]]:
    """The same day by day, in nano-USD; a day in which nothing was is left out."""
    return database.report(_by_day, spans.days(start, end))


def _spent(start: datetime, end: datetime) -> int:
    # Any dimension comes to all rows; of functions there are few.
    query: Any = NameRow.select(fn.COALESCE(fn.SUM(NameRow.nanousd), 0))
    return int(query.where(spans.names_within("function", start, end)).scalar())


def _by_day(span: spans.Span) -> list[tuple[str, int]]:
    query: Any = NameRow.select(NameRow.at, fn.SUM(NameRow.nanousd))
    query = query.where(NameRow.dimension == "function", NameRow.grain == "day")
    query = query.where(NameRow.at >= span[0], NameRow.at < span[1]).group_by(NameRow.at).order_by(NameRow.at)
    return [(day, int(nanousd)) for day, nanousd in query.tuples()]


def _consumption(span: spans.Span) -> list[Consumption]:
    summed = (
        HourRow.counted,
        HourRow.prompt_tokens,
        HourRow.completion_tokens,
        HourRow.cached_tokens,
        HourRow.reasoning_tokens,
        HourRow.nanousd,
    )
    query: Any = (
        HourRow.select(HourRow.tier, *(fn.SUM(column) for column in summed))
        .where(HourRow.hour >= span[0], HourRow.hour < span[1])
        .where(HourRow.tier != "", HourRow.counted > 0, HourRow.unpriced == 0)
        .group_by(HourRow.tier)
        .order_by(HourRow.tier)
    )
    return [Consumption(tier, *map(int, values)) for tier, *values in query.tuples()]
