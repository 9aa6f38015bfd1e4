"""Where a page deep in the usage log begins, told by the sums: whole days and hours before it are passed over by their
numbers instead of one by one.

The sums count what was stored; they hold as long as nobody removes rows by hand (`Retention` removes the oldest, behind
which no page begins).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from peewee import Select, fn

from hermes.storage import spans, summed
from hermes.storage.models.sums import BackfillRow, HourRow, NameRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.rollups import DAY_CHARS, HOUR_CHARS, NAME_COLUMNS, TEXT_CHARS
from hermes.storage.usage_filter import FAILED, FAILURES, UsageFilter

DEEP: Final = 2_000
"""Rows before a page that are passed over one by one as quickly."""

BEGIN: Final = datetime(1970, 1, 1)  # noqa: DTZ001  (UTC, as all times here)
END: Final = datetime(9000, 1, 1)  # noqa: DTZ001

DIMENSIONS: Final = {column: dimension for dimension, column in NAME_COLUMNS.items()}
SUMMED: Final = ("tier", "model", "status", "decision")


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin."""

    before: str
    """Only rows whose `created_at` is less than this are left; empty: all."""

    offset: int
    """How many of those stand before the page."""


def start_of(wanted: UsageFilter, rows_in: Any) -> Start | None:
    """Where a filter's page begins; None: there is no such page. Inside `Database.read`.

    Args:
        rows_in: counts the rows of a filter whose `created_at` is not less than a text.
    """
    offset = (wanted.page - 1) * wanted.limit
    if offset < DEEP or not _is_told(wanted):
        return Start("", offset)
    before = ""
    if wanted.until is not None:  # a part of an hour
        before = wanted.until[:HOUR_CHARS]
        newest = rows_in(before)
        if offset < newest:
            return Start("", offset)
        offset -= newest
    for day, requests in _days(wanted, before):
        if offset >= requests:
            offset -= requests
            continue
        for hour, in_hour in _hours(wanted, day, before):
            if offset < in_hour:
                return Start(spans.next_hour(hour), offset)
            offset -= in_hour
    return None


def _is_told(wanted: UsageFilter) -> bool:
    """Whether the sums know what is filtered by, and hold all rows."""
    given = {name for name in (*UsageFilter.EXACT, "fallback", "min_duration_ms", "any_of") if _is_given(wanted, name)}
    is_named = len(given) == 1 and given <= DIMENSIONS.keys()
    is_summed = given <= set(SUMMED) and all(len(getattr(wanted, name)) < TEXT_CHARS[name] for name in given)
    return (is_named or is_summed) and BackfillRow.select().where(BackfillRow.done_id >= BackfillRow.until_id).exists()


def _is_given(wanted: UsageFilter, name: str) -> bool:
    return wanted.meets(name, UsageRow) is not None


def _days(wanted: UsageFilter, before: str) -> list[tuple[str, int]]:
    """Days with their numbers of requests, the newest first; of the day of `before`, only the hours before that."""
    dimension = _dimension(wanted)
    until = before[:DAY_CHARS]
    if dimension is not None:
        found = _of_names(dimension, wanted, "day", "", until)
    else:
        table = summed.source(BEGIN, END, ("requests", *SUMMED), has_day=True)
        at, requests = table.c.at, fn.SUM(table.c.requests)
        query = Select([table], [at, requests]).where(*_conditions(wanted, table.c)).group_by(at).order_by(at.desc())
        query = query.where(at < until) if until else query
        found = [(day, int(number)) for day, number in query.tuples().execute(HourRow._meta.database)]
    if before:
        found.insert(0, (until, sum(number for _, number in _hours(wanted, until, before))))
    return found


def _hours(wanted: UsageFilter, day: str, before: str) -> list[tuple[str, int]]:
    """The same of a day's hours."""
    end = min(before, spans.next_day(day)) if before else spans.next_day(day)
    dimension = _dimension(wanted)
    if dimension is not None:
        return _of_names(dimension, wanted, "hour", day, end)
    query: Any = HourRow.select(HourRow.hour, fn.SUM(HourRow.requests)).where(HourRow.hour >= day, HourRow.hour < end)
    query = query.where(*_conditions(wanted, HourRow)).group_by(HourRow.hour).order_by(HourRow.hour.desc())
    return [(hour, int(number)) for hour, number in query.tuples()]


def _of_names(dimension: str, wanted: UsageFilter, grain: str, first: str, until: str) -> list[tuple[str, int]]:
    query: Any = NameRow.select(NameRow.at, fn.SUM(NameRow.requests))
    query = query.where(NameRow.dimension == dimension, NameRow.grain == grain, NameRow.at >= first)
    query = query.where(NameRow.at < until) if until else query
    name = next((getattr(wanted, column) for column in DIMENSIONS if _is_given(wanted, column)), None)
    query = query if name is None else query.where(NameRow.name == name)
    return [(at, int(n)) for at, n in query.group_by(NameRow.at).order_by(NameRow.at.desc()).tuples()]


def _dimension(wanted: UsageFilter) -> str | None:
    """Whose sums by name tell; of functions there are few, so they tell of all rows; None: those of the hours do."""
    if any(_is_given(wanted, name) for name in SUMMED):
        return None
    return next((DIMENSIONS[column] for column in DIMENSIONS if _is_given(wanted, column)), "function")


def _conditions(wanted: UsageFilter, columns: Any) -> list[Any]:
    found = []
    for name in SUMMED:
        value = getattr(wanted, name)
        if name == "status" and value == FAILED:
            found.append(columns.status.in_(FAILURES))
        elif value is not None:
            found.append(getattr(columns, name) == value)
    return found or [columns.requests >= 0]
