"""Where a range's sums are read: whole days of the table of days, as far as those are summed, all else of the hours.

What is stored while somebody reads is in the answer or not, but never in a part of it twice: each day is read of one of
the two tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from peewee import fn

from hermes.storage import spans
from hermes.storage.models.sums import DayRow, DoneRow, HourRow, LateRow
from hermes.storage.rollups import DAY_CHARS
from hermes.storage.spans import Span, Step


def source(start: datetime, end: datetime, names: Sequence[str], *, has_day: bool = False) -> Any:
    """The rows of the hours that a range touches, those of whole days already added up, to be selected from.

    Inside `Database.read`.

    Args:
        names: the columns of `HourRow` that are needed.
        has_day: a column `at` with the day of each row, too.
    """
    queries: list[Any] = []
    for step, within in pieces(start, end):
        table, time = (DayRow, DayRow.day) if step == "day" else (HourRow, HourRow.hour)
        at = [fn.SUBSTR(time, 1, DAY_CHARS).alias("at")] if has_day else []
        query = table.select(*at, *(getattr(table, name) for name in names))
        queries.append(query.where(_within(time, within)))
    whole = queries[0]
    for query in queries[1:]:
        whole = whole.union_all(query)
    return whole.alias("summed")


def pieces(start: datetime, end: datetime) -> list[tuple[Step, list[Span]]]:
    """The days and the hours that a range comes to; at least one of both. Inside `Database.read`."""
    first, last = spans.hours(start, end)
    first_day, last_day = spans.whole_days(start, end)
    if first_day < last_day:
        last_day = min(last_day, DoneRow.select(DoneRow.until).scalar() or "")
    if first_day >= last_day:
        return [("hour", [(first, last)])]
    query: Any = LateRow.select(LateRow.day).where(LateRow.day >= first_day, LateRow.day < last_day)
    late = [day for (day,) in query.order_by(LateRow.day).tuples()]
    days = _without(late, (first_day, last_day))
    # A day is less than every hour of it, so its name stands for its first hour.
    hours = [(first, first_day), *((day, spans.next_day(day)) for day in late), (last_day, last)]
    hours = [span for span in hours if span[0] < span[1]]
    found: list[tuple[Step, list[Span]]] = [("day", days), ("hour", hours)]
    return [piece for piece in found if piece[1]]


def _without(late: Collection[str], within: Span) -> list[Span]:
    """What is left of some days without others, in order."""
    found, at = [], within[0]
    for day in (*late, within[1]):
        if at < day:
            found.append((at, day))
        at = spans.next_day(day)
    return found


def _within(time: Any, several: Sequence[Span]) -> Any:
    wanted: Any = None
    for first, last in several:
        one = (time >= first) & (time < last)
        wanted = one if wanted is None else wanted | one
    return wanted
