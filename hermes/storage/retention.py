"""Removes usage rows that are older than they may become, so few at a time that nobody else waits for it.

Preview, error and details go with their row, and so do audits of the surrogate and answers of targets, which hold texts
too. The sums of `rollups.py` stay, but for the minutes: they hold names of users, functions and keys, and no texts. A
row that is not in the sums yet stays until it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import gevent
from peewee import fn

from hermes.storage.backfill import Backfill
from hermes.storage.db import Database
from hermes.storage.models.residency import ResidencyHitRow
from hermes.storage.models.routing import SurrogateAuditRow
from hermes.storage.models.shadow import ShadowReplyRow
from hermes.storage.models.sums import MinuteRow
from hermes.storage.models.usage import UsageRow, WriterRow
from hermes.storage.rollups import MINUTE_CHARS
from hermes.storage.usage_filter import utc_text

BATCH_ROWS: Final = 200
"""Some 10 ms on SQLite, for which other writers wait."""

PAUSE_S: Final = 0.02
MINUTES_DAYS: Final = 8
"""How long sums by the minute are kept."""

WRITERS_DAYS: Final = 400
"""How long a process's account is kept after its last row: longer than one lives that nobody asks anything."""

MINUTES_STEP: Final = timedelta(hours=1)


class Retention:
    """What the log forgets."""

    def __init__(
        self,
        database: Database,
        backfill: Backfill,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = gevent.sleep,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._database = database
        self._backfill = backfill
        self._clock = clock
        self._sleep = sleep
        self._batch_rows = batch_rows

    def run(self, days: int, may_go_on: Callable[[], bool] = lambda: True) -> int:
        """Removes all rows older than so many days; how many there were.

        Blocks: as long as it takes, with pauses.

        Args:
            may_go_on: asked before each batch; False ends it, and the next call goes on from there.

        Raises:
            peewee.PeeweeException: the database does not work; what was removed so far stays so.
        """
        now = datetime.fromtimestamp(self._clock(), UTC)
        if not self._backfill.is_complete():
            return 0
        self._repeat(_drop_minutes, utc_text(now - timedelta(days=MINUTES_DAYS))[:MINUTE_CHARS], may_go_on)
        self._repeat(_drop_writers, utc_text(now - timedelta(days=WRITERS_DAYS)), may_go_on)
        for drop in (_drop_audits, _drop_hits, _drop_shadow):
            self._repeat(drop, utc_text(now - timedelta(days=days)), may_go_on)
        return self._repeat(_drop_rows, utc_text(now - timedelta(days=days)), may_go_on)

    def _repeat(self, drop: Callable[[str, int], int], before: str, may_go_on: Callable[[], bool]) -> int:
        total = 0
        while may_go_on():
            dropped = self._database.write(drop, before, self._batch_rows)
            if not dropped:
                break
            total += dropped
            self._sleep(PAUSE_S)
        return total


def _drop_rows(before: str, rows: int) -> int:
    oldest = UsageRow.select(UsageRow.id).where(UsageRow.created_at < before).order_by(UsageRow.created_at).limit(rows)
    return int(UsageRow.delete().where(UsageRow.id.in_(oldest)).execute())


def _drop_audits(before: str, rows: int) -> int:
    """They hold texts where prompts are stored in full."""
    row = SurrogateAuditRow
    oldest = row.select(row.id).where(row.created_at < before).order_by(row.created_at).limit(rows)
    return int(row.delete().where(row.id.in_(oldest)).execute())


def _drop_hits(before: str, rows: int) -> int:
    row = ResidencyHitRow
    oldest = row.select(row.id).where(row.created_at < before).order_by(row.created_at).limit(rows)
    return int(row.delete().where(row.id.in_(oldest)).execute())


def _drop_shadow(before: str, rows: int) -> int:
    row = ShadowReplyRow
    oldest = row.select(row.id).where(row.created_at < before).order_by(row.created_at).limit(rows)
    return int(row.delete().where(row.id.in_(oldest)).execute())


def _drop_writers(before: str, rows: int) -> int:
    oldest = WriterRow.select(WriterRow.writer).where(WriterRow.stored_at < before).limit(rows)
    return int(WriterRow.delete().where(WriterRow.writer.in_(oldest)).execute())


def _drop_minutes(before: str, _: int) -> int:
    """An hour of them, beginning with the oldest."""
    oldest = MinuteRow.select(fn.MIN(MinuteRow.minute)).scalar()
    if oldest is None or oldest >= before:
        return 0
    end = utc_text(datetime.fromisoformat(f"{oldest}:00+00:00") + MINUTES_STEP)[:MINUTE_CHARS]
    return int(MinuteRow.delete().where(MinuteRow.minute < min(before, end)).execute())
