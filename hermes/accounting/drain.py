"""Moves the spool into the database: the rows of its files, and those that no disk takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import gevent
from gevent.lock import BoundedSemaphore

from hermes.accounting.outage import Outage
from hermes.accounting.spool import Spool
from hermes.accounting.spoolfile import Batch, Record, line_of

RUNS_REMEMBERED: Final = 64
"""About a quarter of a minute."""


class Inserted(Protocol):
    """What became of rows that were given to the database."""

    @property
    def rejected(self) -> Sequence[tuple[Record, str]]:
        """The rows that can never be stored, each with the reason."""


class Drain:
    """Moves the spool into the database; called by a loop, and by readers who must see their own rows.

    `insert` is given rows and the name of the process that has appended them. It stores all rows it can, passes over
    those that are there already, commits, and tells which can never be stored; it raises when the database does not
    work.
    """

    def __init__(
        self,
        spool: Spool,
        insert: Callable[[Sequence[Record], str], Inserted],
        on_moved: Callable[[int, int], None] = lambda rows, rejected: None,
    ) -> None:
        """
        Args:
            on_moved: told after each slice how many of its rows were moved, and how many rejected.
        """
        self.last_error: str | None = None
        """Why the last attempt failed; None when it did not."""
        self.moved = 0
        """Rows moved since the start."""
        self.rejected = 0
        """Rows that the database can never store, moved to `unreadable.jsonl`."""
        self.own_rejected = 0
        """Those of them that this process has appended."""
        self._runs: deque[tuple[float, float]] = deque(maxlen=RUNS_REMEMBERED)
        """When rows were taken from the spool and when those were stored, in seconds since 1970."""
        self._spool = spool
        self._insert = insert
        self._on_moved = on_moved
        self._one_at_a_time = BoundedSemaphore(1)
        self._outage = Outage(
            "Usage rows wait, since they cannot be moved to the database", "Usage rows are moved to the database again"
        )
        self._queued: gevent.Greenlet | None = None
        """A run that waits for its turn. All who flush meanwhile wait for it together, so that a database that hangs
        collects no queue."""

    def run_once(self) -> int:
        """Moves what was appended before this call and what dead processes left; the number of rows moved.

        Raises nothing: when the database or the disk does not work, the rows stay where they are, `last_error` says
        why, and the caller's loop decides when to try again.
        """
        with self._one_at_a_time:
            self._queued = None
            before = self.moved
            try:
                self._spool.tend()
                self._move_held()
                # Twice: what a failed attempt has left, then what was appended since.
                if self._move_taken():
                    self._move_taken()
                self.last_error = None
                self._outage.worked()
            except Exception as error:  # noqa: BLE001  (an edge: the loop must go on whatever the database does)
                self.last_error = f"{type(error).__name__}: {' '.join(str(error).split())}"
                self._outage.failed(self.last_error)
            return self.moved - before

    def flush(self, timeout_s: float) -> bool:
        """Waits until every row appended before this call is in the database; whether it is.

        The work is not stopped when the time is over, only the waiting.
        """
        if self._queued is None:
            self._queued = gevent.spawn(self.run_once)
        run = self._queued
        run.join(timeout_s)
        return bool(run.ready()) and self.last_error is None

    def was_moved(self, appended_s: float, until_s: float) -> bool:
        """Whether a row that this process has appended at a time was in the database at another one, in s since 1970;
        False where that is not known any more.
        """
        return any(appended_s <= began and ended <= until_s for began, ended in reversed(self._runs))

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Waits until what is being moved is moved; nothing else is, until it is left."""
        with self._one_at_a_time:
            yield

    def _move_held(self) -> None:
        """Moves what no disk takes. Before the files: what is wrong with one of them must not keep these rows back."""
        left = self._spool.held_in_memory
        while left > 0 and self._spool.held_in_memory:
            with self._spool.lend() as rows:
                rejected = self._insert(rows, self._spool.writer).rejected
            left -= len(rows)
            aside = 0
            for row, reason in rejected:
                try:
                    self._spool.set_aside(_aside(row, reason))
                    aside += 1
                except OSError:
                    self._spool.append(row)  # held again, until the disk takes it
            self._count(len(rows) - len(rejected), aside, self._spool.writer)

    def _move_taken(self) -> int:
        began = time.time()
        moved = self._move(self._spool.take())
        self._runs.append((began, time.time()))
        return moved

    def _move(self, batches: Sequence[Batch]) -> int:
        for batch in batches:
            for rows in batch.slices():
                rejected = self._insert(rows, batch.writer).rejected
                for row, reason in rejected:
                    batch.set_aside(_aside(row, reason))
                self._count(len(rows) - len(rejected), len(rejected), batch.writer)
            with suppress(OSError):  # its rows are stored; the disk will let it go some time
                batch.done()
        return len(batches)

    def _count(self, moved: int, rejected: int, writer: str) -> None:
        self.moved += moved
        self.rejected += rejected
        if writer == self._spool.writer:
            self.own_rejected += rejected
        self._on_moved(moved, rejected)


def _aside(row: Record, reason: str) -> bytes:
    return line_of({"rejected": reason, "row": row})
