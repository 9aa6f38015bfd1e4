"""Ranges of time that an address asks for by a short name, and the hours that they cover."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of time up to now."""

    name: str
    """As the address has it."""

    label: str
    words: str
    length: timedelta
    earlier: timedelta
    """How far back the time lies that it is compared with."""

    earlier_words: str

    def start(self, now: datetime) -> datetime:
        """The beginning of its first hour: sums go by whole hours."""
        return hour_of(now - self.length)


RANGES: Final = (
    Range("1h", "1 h", "Last hour", HOUR, DAY, "yesterday"),
    Range("6h", "6 h", "Last 6 hours", 6 * HOUR, DAY, "yesterday"),
    Range("24h", "24 h", "Last 24 hours", DAY, DAY, "the day before"),
    Range("7d", "7 d", "Last 7 days", 7 * DAY, 7 * DAY, "the week before"),
)
USUAL: Final = RANGES[2]


def range_of(name: str | None) -> Range:
    """The range of this name; the usual one where there is none.

    >>> range_of("6h").words, range_of("99y").name
    ('Last 6 hours', '24h')
    """
    return next((one for one in RANGES if one.name == name), USUAL)


def hour_of(moment: datetime) -> datetime:
    """The beginning of a moment's hour.

    >>> hour_of(datetime(2026, 5, 10, 13, 33)).isoformat()
    '2026-05-10T13:00:00'
    """
    return moment.replace(minute=0, second=0, microsecond=0)


def hours_between(start: datetime, end: datetime) -> list[str]:
    """Each hour from the first on that begins before the end, as the sums have hours.

    >>> hours_between(datetime(2026, 5, 10, 22), datetime(2026, 5, 11, 0, 30))
    ['2026-05-10T22', '2026-05-10T23', '2026-05-11T00']
    """
    found, at = [], hour_of(start)
    while at < end:
        found.append(at.strftime("%Y-%m-%dT%H"))
        at += HOUR
    return found


def day_text(moment: datetime) -> str:
    """A day as people write it.

    >>> day_text(datetime(2026, 5, 9))
    '9 May'
    """
    return f"{moment.day} {moment:%b}"
