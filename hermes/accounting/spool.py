"""The durable queue between an answer and the database: one file a process, one line a row, one write a line.

    append ──► active file ──take──► finished file ──slices──► insert (one transaction a slice) ──done──► deleted
       └─ the disk refuses ──► memory ring ──► retried with the next append or take

Nothing is lost or counted twice whenever the process dies, because a file is deleted only after the database has
committed its rows, and a row that is sent again meets its own `request_id`, which is unique. Whose file is it? Each
file in use is held with `flock`, which the system releases with the process however it ends: a file that can be locked
has a dead owner, and whoever locks it moves its rows.

`write` hands a line to the operating system, which keeps it when the process is killed; so there is no `fsync`, which
would cost each answer milliseconds. Only a power cut can take the last seconds' rows.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import gevent
from gevent.lock import BoundedSemaphore

from hermes.accounting.spoolfile import Batch, Record, line_of, lock_if_dead
from hermes.types import UsageRecord

RING_ROWS: Final = 10_000
RING_BYTES: Final = 64 * 1024 * 1024
RING_ROWS_PER_APPEND: Final = 64
"""How many held rows an append writes out on the way, 0.3 ms; a take writes more."""

RING_ROWS_PER_TAKE: Final = 1000
HELD_FILES_MAX: Final = 64
"""Finished files that are held open at a time; further ones of dead processes wait their turn."""

ABANDONED_S: Final = 60.0
"""A file between creation and its name exists for microseconds; an older one was left by a crash, and is empty."""


@dataclass(slots=True)
class _ActiveFile:
    """The file that this process appends to."""

    path: Path
    fd: int
    rows: int = 0
    is_torn: bool = False
    """The last line is cut; a newline must come before the next."""


class Spool:
    """A folder of rows on their way to the database. Any number of processes may share the folder.

    No method switches greenlets, so each is atomic among them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        write: Callable[[int, bytes], int] = os.write,
        ring_bytes: int = RING_BYTES,
    ) -> None:
        self.folder = folder
        self.lost = 0
        """Rows dropped because the disk refused them and the ring was full."""
        self.unreadable = 0
        """Lines and rows moved to `unreadable.jsonl`."""
        self.last_error: str | None = None
        """Why the disk refused the last row; None when it did not."""
        self._clock = clock
        self._write = write
        self._ring: deque[bytes] = deque()
        self._ring_bytes = 0
        self._ring_bytes_max = ring_bytes
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._started = int(self._clock() * 1e9)
        self._count = 0
        self._active: _ActiveFile | None = None
        self._batches: dict[Path, Batch] = {}

    def append(self, record: Record | UsageRecord) -> None:
        """Keeps a row, in about 5 µs; when this returns, killing the process cannot lose it.

        Never raises for what the disk does: a row that cannot be written is held in memory and written later. Values
        that JSON does not know become text.
        """
        line = line_of(record)
        self._forget_parent()
        if self._ring:
            self._write_ring(RING_ROWS_PER_APPEND)
        if self._ring or not self._write_line(line):
            self._hold(line)

    def depth(self) -> int:
        """Rows of this process that are not in the database yet; those of dead processes are not counted."""
        active = self._active.rows if self._active else 0
        return active + sum(batch.rows_left for batch in self._batches.values()) + len(self._ring)

    @property
    def held_in_memory(self) -> int:
        """Rows that the disk has refused so far."""
        return len(self._ring)

    def waiting_bytes(self) -> int:
        """The size of all files of all processes that wait here, for reports."""
        total = 0
        for path in self.folder.glob("usage-*.jsonl"):
            with suppress(FileNotFoundError):  # moved meanwhile
                total += path.stat().st_size
        return total

    def take(self) -> list[Batch]:
        """The files that are to be moved: this process's own first, then those whose process is dead.

        The active file is finished first, unless an earlier one is still waiting: while the database is away there are
        so two files and not one an attempt. A batch that is not done is returned again by the next call.
        """
        self._forget_parent()
        self._write_ring(RING_ROWS_PER_TAKE)
        self._batches = {path: batch for path, batch in self._batches.items() if not batch.is_done}
        if not any(batch.rows_left for batch in self._batches.values()):
            self._finish_active()
        for path in self._others():
            if len(self._batches) >= HELD_FILES_MAX:
                break
            fd = lock_if_dead(path)
            if fd is not None:
                self._batches[path] = Batch(path, fd, 0, self.set_aside)
        return sorted(self._batches.values(), key=lambda batch: (batch.rows_left == 0, batch.path))

    def set_aside(self, line: bytes) -> None:
        """Keeps a line that cannot be stored in `unreadable.jsonl`, where a person may look at it.

        Raises:
            OSError: the disk refuses it; then its file must not be deleted.
        """
        fd = os.open(self.folder / "unreadable.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        whole = line.rstrip(b"\n") + b"\n"
        try:
            if self._write(fd, whole) < len(whole):
                raise OSError("a line could only be set aside in part")
        finally:
            os.close(fd)
        self.unreadable += 1

    def close(self) -> None:
        """Lets go of all files; what is in them is found at the next start."""
        self._finish_active()
        for batch in self._batches.values():
            batch.release()
        self._batches = {}

    def _write_line(self, line: bytes) -> bool:
        try:
            active = self._active or self._open_next()
            whole = b"\n" + line if active.is_torn else line
            written = self._write(active.fd, whole)
        except OSError as error:
            self.last_error = error.strerror or str(error)
            return False
        if written < len(whole):
            self.last_error = "a row was only written in part"
            active.is_torn = active.is_torn or written > 0
            return False
        self.last_error = None
        active.is_torn = False
        active.rows += 1
        return True

    def _open_next(self) -> _ActiveFile:
        """Opens the next file. It gets its name once it is locked; before, it could be taken for a dead one's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        path = self.folder / f"usage-{self._pid}-{self._started}-{self._count:06d}.jsonl"
        unnamed = path.with_suffix(".tmp")
        fd = os.open(unnamed, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(path)
        except OSError:
            os.close(fd)
            unnamed.unlink(missing_ok=True)
            raise
        self._active = _ActiveFile(path, fd)
        return self._active

    def _finish_active(self) -> None:
        active = self._active
        # A file with nothing but a torn line stays in use: the disk is full, and a new file would be one more to fail.
        if active is not None and active.rows:
            self._batches[active.path] = Batch(active.path, active.fd, active.rows, self.set_aside)
            self._active = None

    def _hold(self, line: bytes) -> None:
        self._ring.append(line)
        self._ring_bytes += len(line)
        while len(self._ring) > RING_ROWS or self._ring_bytes > self._ring_bytes_max:
            self._ring_bytes -= len(self._ring.popleft())
            self.lost += 1

    def _write_ring(self, rows_max: int) -> None:
        for _ in range(min(rows_max, len(self._ring))):
            if not self._write_line(self._ring[0]):
                return
            self._ring_bytes -= len(self._ring.popleft())

    def _others(self) -> Iterator[Path]:
        own = self._active.path if self._active else None
        for path in sorted(self.folder.glob("usage-*")):
            if path.suffix == ".jsonl" and path != own and path not in self._batches:
                yield path
            elif path.suffix == ".tmp":
                with suppress(OSError):
                    if self._clock() - path.stat().st_mtime > ABANDONED_S:
                        path.unlink()

    def _forget_parent(self) -> None:
        """After a fork: the files and the rows in memory are the parent's, which still has them."""
        if os.getpid() != self._pid:
            if self._active is not None:
                os.close(self._active.fd)
            for batch in self._batches.values():
                batch.release()
            self._ring.clear()
            self._ring_bytes = 0
            self._begin()


class Inserted(Protocol):
    """What became of rows that were given to the database."""

    @property
    def rejected(self) -> Sequence[tuple[Record, str]]:
        """The rows that can never be stored, each with the reason."""


class Drain:
    """Moves the spool into the database; called by a loop, and by readers who must see their own rows.

    `insert` stores all rows it can, passes over those that are there already, commits, and tells which can never be
    stored; it raises when the database does not work.
    """

    def __init__(self, spool: Spool, insert: Callable[[Sequence[Record]], Inserted]) -> None:
        self.last_error: str | None = None
        """Why the last attempt failed; None when it did not."""
        self.moved = 0
        """Rows moved since the start."""
        self.rejected = 0
        """Rows that the database can never store, moved to `unreadable.jsonl`."""
        self._spool = spool
        self._insert = insert
        self._one_at_a_time = BoundedSemaphore(1)
        self._queued: gevent.Greenlet | None = None
        """A run that waits for its turn. All who flush meanwhile wait for it together, so that a database that hangs
        collects no queue."""

    def run_once(self) -> int:
        """Moves what was appended before this call and what dead processes left; the number of rows moved.

        Raises nothing: when the database or the disk does not work, the files stay, `last_error` says why, and the
        caller's loop decides when to try again.
        """
        with self._one_at_a_time:
            self._queued = None
            before = self.moved
            try:
                # Twice: what a failed attempt has left, then what was appended since.
                if self._move(self._spool.take()):
                    self._move(self._spool.take())
                self.last_error = None
            except Exception as error:  # noqa: BLE001  (an edge: the loop must go on whatever the database does)
                self.last_error = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return self.moved - before

    def flush(self, timeout_s: float) -> bool:
        """Waits until every row appended before this call is in the database; whether it is.

        The work is not stopped when the time is over, only the waiting.
        """
        if self._queued is None:
            self._queued = gevent.spawn(self.run_once)
        run = self._queued
        run.join(timeout_s)
        return bool(run.ready()) and self.last_error is None and self._spool.held_in_memory == 0

    def _move(self, batches: Sequence[Batch]) -> int:
        for batch in batches:
            for rows in batch.slices():
                rejected = self._insert(rows).rejected
                for row, reason in rejected:
                    self._spool.set_aside(line_of({"rejected": reason, "row": row}))
                self.rejected += len(rejected)
                self.moved += len(rows) - len(rejected)
            batch.done()
        return len(batches)
