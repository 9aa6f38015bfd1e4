"""Sums of whole days, made of those of their hours when a day is over: a quarter is ninety times a few rows then.

Storing a row adds to its hour alone. A background loop sums a day some time after its end, each in one transaction. A
row that comes later still makes its day a *late* one, in the transaction that stores it: reports go by the hours of
that day until the loop has summed it again. So what is read is always that of the rows.

    hours ──(the day is over for `SETTLED`)──► summed ──(a row comes after all)──► late ──(the loop)──► summed

Two transactions at once, one that stores a late row and one that sums its day: whoever stores marks the day by a write
(also where it is marked already), whoever sums takes the mark away first and reads the hours after that. So either the
sum has the row, or the mark outlives it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import gevent
from peewee import EXCLUDED, fn

from hermes.storage.db import Database
from hermes.storage.models.binding import is_on_postgres, proxy
from hermes.storage.models.sums import SUM_COLUMNS, DayRow, DoneRow, HourRow, LateRow
from hermes.storage.rollups import DAY_CHARS
from hermes.storage.spans import next_day
from hermes.storage.usage_filter import utc_text

SETTLED: Final = timedelta(hours=2)
"""How long a day has been over before it is summed: clocks of several machines differ by less."""

TURN_S: Final = 2.0
"""How long one call goes on."""

PAUSE_S: Final = 0.02


class DaySums:
    """Sums the days that are over."""

    def __init__(
        self,
        database: Database,
        is_complete: Callable[[], bool],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = gevent.sleep,
    ) -> None:
        """
        Args:
            is_complete: whether every row is in the sums of the hours; before that no day is summed.
        """
        self._database = database
        self._is_complete = is_complete
        self._clock = clock
        self._sleep = sleep

    def run(self) -> bool:
        """Goes on for two seconds, if there is anything to do; whether there was, and may be more. For a loop."""
        if not self._is_complete():
            return False
        began = self._clock()
        before = utc_text(datetime.fromtimestamp(began, UTC) - SETTLED)[:DAY_CHARS]
        while self._database.read(_next_day, before) and self._database.write(_sum_next, before):
            if self._clock() - began >= TURN_S:
                return True
            self._sleep(PAUSE_S)
        return False


def note_late(created: Iterable[str], now: float) -> None:
    """Marks the days of rows that this transaction stores, where they are over. Inside `Database.write`.

    Args:
        created: their times.
        now: seconds since the epoch.
    """
    today = utc_text(datetime.fromtimestamp(now, UTC))[:DAY_CHARS]
    days = sorted({at[:DAY_CHARS] for at in created if at < today})  # in order: transactions wait in no circle
    if days:
        again = {LateRow.day: EXCLUDED.day}
        LateRow.insert_many([{"day": day} for day in days]).on_conflict(
            conflict_target=[LateRow.day], update=again
        ).execute()


def _next_day(before: str) -> str | None:
    """The day that is to be summed next, if there is one before another."""
    until = DoneRow.select(DoneRow.until).scalar()
    if not until:
        first = HourRow.select(fn.MIN(HourRow.hour)).scalar()
        until = first[:DAY_CHARS] if first else before
    late = LateRow.select(fn.MIN(LateRow.day)).where(LateRow.day < until).scalar()
    found: str = late or until
    return found if found < before else None


def _sum_next(before: str) -> bool:
    """Sums it; False: there is none, or another process is at it."""
    query: Any = DoneRow.select(DoneRow.until)
    if is_on_postgres():
        query = query.for_update("FOR UPDATE SKIP LOCKED")
    found = query.tuples().first()
    day = _next_day(before) if found is not None else None
    if found is None or day is None:
        return False
    LateRow.delete().where(LateRow.day == day).execute()  # first: see above
    DayRow.delete().where(DayRow.day == day).execute()
    following = next_day(day)
    proxy.execute_sql(SUM_DAY.format(proxy.param), [day, day, following])
    if day >= found[0]:
        later = HourRow.select(fn.MIN(HourRow.hour)).where(HourRow.hour >= following).scalar()
        DoneRow.update(until=min(before, later[:DAY_CHARS]) if later else before).execute()
    return True


def _sum_day() -> str:
    keys = ("tier", "decision", "model", "endpoint", "status", "stream")
    selected = ", ".join([*keys, *(f"SUM({name})" for name in SUM_COLUMNS)])
    return (  # names of the models', nobody else's
        f"INSERT INTO usage_days (day, {', '.join([*keys, *SUM_COLUMNS])}) SELECT {{0}}, {selected} FROM usage_hours"  # noqa: S608
        f" WHERE hour >= {{0}} AND hour < {{0}} GROUP BY {', '.join(keys)}"
    )


SUM_DAY: Final = _sum_day()
