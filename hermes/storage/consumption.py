"""What each tier's models have consumed, from the sums: to tell what the same tokens would have cost elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import fn

from hermes.storage import spans
from hermes.storage.db import Database
from hermes.storage.models import HourRow


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
    return database.read(_consumption, spans.hours(start, end))


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
