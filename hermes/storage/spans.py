"""Ranges of time as the tables of sums have them: whole hours and whole days, in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal

from hermes.storage.models.sums import NameRow
from hermes.storage.rollups import DAY_CHARS, HOUR_CHARS, MINUTE_CHARS
from hermes.storage.usage_filter import utc_text

Step = Literal["hour", "day"]
Span = tuple[str, str]
"""From the first, until before the second, as the tables have times."""

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_on_the_hour(moment: datetime) -> bool:
    """Whether an hour begins at that moment, in UTC."""
    return not (moment - EPOCH) % HOUR


def hours(start: datetime, end: datetime) -> Span:
    """The hours that a range touches.

    >>> hours(datetime(2026, 5, 10, 13, 33), datetime(2026, 5, 10, 15))
    ('2026-05-10T13', '2026-05-10T15')
    """
    return _span(start, end, HOUR, HOUR_CHARS)


def days(start: datetime, end: datetime) -> Span:
    """The days that it touches."""
    return _span(start, end, DAY, DAY_CHARS)


def whole_days(start: datetime, end: datetime) -> Span:
    """The days of which it touches every hour; the first is not before the second where there are none."""
    return utc_text(_ceil(_floor(start, HOUR), DAY))[:DAY_CHARS], utc_text(_floor(_ceil(end, HOUR), DAY))[:DAY_CHARS]


def around_days(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """A range, widened to whole days."""
    return _floor(start, DAY), _ceil(end, DAY)


def next_day(day: str) -> str:
    """The day after one.

    >>> next_day("2026-02-28")
    '2026-03-01'
    """
    return (date.fromisoformat(day) + DAY).isoformat()


def next_hour(hour: str) -> str:
    """The hour after one.

    >>> next_hour("2026-02-28T23")
    '2026-03-01T00'
    """
    return (datetime.fromisoformat(hour) + HOUR).isoformat()[:HOUR_CHARS]


def minutes(start: datetime, end: datetime) -> Span:
    """The minutes that it touches."""
    return _span(start, end, MINUTE, MINUTE_CHARS)


def parts(start: datetime, end: datetime) -> list[tuple[Step, Span]]:
    """The hours that a range touches, whole days among them as such: those are twenty-four times fewer rows."""
    first, last = _floor(start, HOUR), _ceil(end, HOUR)
    first_day, last_day = _ceil(first, DAY), _floor(last, DAY)
    if first_day >= last_day:
        return [("hour", hours(first, last))]
    around: list[tuple[Step, Span]] = [("hour", hours(first, first_day)), ("hour", hours(last_day, last))]
    return [("day", days(first_day, last_day)), *(part for part in around if part[1][0] < part[1][1])]


def names_within(dimension: str, start: datetime, end: datetime) -> Any:
    """The condition for the rows of `usage_names` that come to what a dimension's names have used in a range."""
    wanted: Any = None
    for grain, span in parts(start, end):
        # The key's columns, in its order, in each part: so the index serves them all.
        part = (NameRow.dimension == dimension) & (NameRow.grain == grain)
        part &= (NameRow.at >= span[0]) & (NameRow.at < span[1])
        wanted = part if wanted is None else wanted | part
    return wanted


def name_within(dimension: str, name: str, start: datetime, end: datetime) -> Any:
    """The same for one name, each hour and day named: its rows are looked up one by one among all others."""
    wanted: Any = None
    for grain, span in parts(start, end):
        unit, chars = (DAY, DAY_CHARS) if grain == "day" else (HOUR, HOUR_CHARS)
        part = (NameRow.dimension == dimension) & (NameRow.grain == grain) & (NameRow.name == name)
        part &= NameRow.at.in_(_each(span, unit, chars))
        wanted = part if wanted is None else wanted | part
    return wanted


def _each(span: Span, unit: timedelta, chars: int) -> list[str]:
    at, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in span)
    found = []
    while at < end:
        found.append(utc_text(at)[:chars])
        at += unit
    return found


def _span(start: datetime, end: datetime, unit: timedelta, chars: int) -> Span:
    return utc_text(_floor(start, unit))[:chars], utc_text(_ceil(end, unit))[:chars]


def _floor(moment: datetime, unit: timedelta) -> datetime:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return EPOCH + (aware - EPOCH) // unit * unit


def _ceil(moment: datetime, unit: timedelta) -> datetime:
    floor = _floor(moment, unit)
    return floor if floor == _floor(moment, timedelta.resolution) else floor + unit
