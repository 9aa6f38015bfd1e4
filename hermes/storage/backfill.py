"""Adds to the sums what was in the usage log before there were any: in the background, some hundred rows at a time.

How far it has come is written down in the transaction that adds, so a process that is killed in between has added
nothing or all, and any number of processes may try: one of them is at it, the others pass by.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import gevent

from hermes.storage import rollups
from hermes.storage.db import Database
from hermes.storage.models.binding import is_on_postgres
from hermes.storage.models.sums import BackfillRow
from hermes.storage.models.usage import UsageRow

log = logging.getLogger("hermes-router.storage")

BATCH_ROWS: Final = 500
"""Some 20 ms, for which other writers wait."""

TURN_S: Final = 2.0
"""How long one call goes on, so that a process that ends need not wait for it."""

PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the numbers that old rows may have are done."""

    done: int
    all: int

    @property
    def is_complete(self) -> bool:
        """Whether the sums hold every row."""
        return self.done >= self.all


class Backfill:
    """Adds old rows to the sums."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = gevent.sleep,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._sleep = sleep
        self._batch_rows = batch_rows
        self._is_complete = False

    def is_complete(self) -> bool:
        """Whether the sums hold every row of the log. Asks the database until they do."""
        if not self._is_complete:
            self._is_complete = self.progress().is_complete
        return self._is_complete

    def progress(self) -> Progress:
        """How far it has come."""
        return self._database.read(_progress)

    def run(self) -> None:
        """Goes on for two seconds, if there is anything to do; for a loop."""
        until = self._clock() + TURN_S
        while not self.is_complete() and self._database.write(_add_batch, self._batch_rows):
            if self.is_complete():
                log.info("Every usage row is in the sums that reports are made of")
            elif self._clock() >= until:
                return
            else:
                self._sleep(PAUSE_S)


def _progress() -> Progress:
    row = BackfillRow.get()
    return Progress(row.done_id, row.until_id)


def _add_batch(rows: int) -> bool:
    """Adds the next rows; False: another process is at it."""
    query: Any = BackfillRow.select(BackfillRow.done_id, BackfillRow.until_id)
    if is_on_postgres():
        query = query.for_update("FOR UPDATE SKIP LOCKED")
    found = query.tuples().first()
    if found is None:
        return False
    done_id, until_id = found
    following = UsageRow.select(UsageRow.id).where(UsageRow.id > done_id, UsageRow.id <= until_id)
    found_rows: Any = following.order_by(UsageRow.id).limit(rows).tuples()
    ids = [number for (number,) in found_rows]
    last_id = ids[-1] if len(ids) == rows else until_id
    rollups.add_between(done_id, last_id)
    BackfillRow.update(done_id=last_id).execute()
    return True
