"""Calendar periods of budgets: when the day, week or month of a moment begins and ends, in a named time zone.

Both ends are midnights of the calendar on the wall, turned into UTC one by one; nothing is ever 86,400 seconds long by
assumption. So a day on which the clocks change has 23 or 25 hours, and each period begins exactly where the one before
it ends. Where a midnight is skipped the period begins at the change; where it comes twice, at the first.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hermes.directory import Period


def period_bounds(period: Period, zone: str, now: float) -> tuple[datetime, datetime]:
    """When the period of a moment begins and when the next one does, in UTC.

    Args:
        zone: an IANA name.
        now: seconds since 1970.
    """
    place = ZoneInfo(zone)
    today = datetime.fromtimestamp(now, place).date()
    first, following = _days(period, today)
    return _midnight(first, place), _midnight(following, place)


def utc_text(moment: datetime) -> str:
    """The moment in ISO 8601, UTC, without fractions.

    >>> utc_text(datetime(2024, 11, 3, 4, tzinfo=UTC))
    '2024-11-03T04:00:00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _days(period: Period, today: date) -> tuple[date, date]:
    """The first day of the period, and the first one after it."""
    if period == "day":
        return today, today + timedelta(days=1)
    if period == "week":
        monday = today - timedelta(days=today.weekday())
        return monday, monday + timedelta(days=7)
    first = today.replace(day=1)
    return first, (first + timedelta(days=32)).replace(day=1)


def _midnight(day: date, place: ZoneInfo) -> datetime:
    # `fold` stays 0: for a midnight that comes twice this is the first, and for one that is skipped it is read with the
    # offset before the change, which makes it the very moment of the change (PEP 495).
    return datetime.combine(day, time(), place).astimezone(UTC)
