"""The durable queue between an answer and the database: one file a process, one line a row, one write a line.

    append ──► active file ──take──► finished file ──slices──► insert (one transaction a slice) ──done──► deleted
       └─ the disk refuses ──► memory ──► the disk, as soon as it takes rows again
                                 └─ else ──lend──► insert: nothing waits for a disk that never comes back

Nothing is lost or counted twice whenever the process dies, because a file is deleted only after the database has
committed its rows, and a row that is sent again meets its own `request_id`, which is unique. Whose file is it? Each
file in use is held with `flock`, which the system releases with the process however it ends: a file that can be locked
has a dead owner, and whoever locks it moves its rows.

`write` hands a line to the operating system, which keeps it when the process is killed; so there is no `fsync`, which
would cost each answer milliseconds. Only a power cut can take the last seconds' rows.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hermes import private
from hermes.accounting.held import HELD_BYTES, HeldRows
from hermes.accounting.outage import Outage
from hermes.accounting.spoolfile import Batch, Record, line_of, lock_if_dead
from hermes.errors import StartRefused
from hermes.types import UsageRecord

log = logging.getLogger("hermes-router")

HELD_ROWS_PER_APPEND: Final = 64
"""How many held rows an append writes out on the way, 0.3 ms; a take writes more."""

HELD_ROWS_PER_TAKE: Final = 1000
PROBE: Final = b" " * 1023 + b"\n"
"""About as long as a row, and none: readers pass over it."""

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
        monotonic: Callable[[], float] = time.monotonic,
        write: Callable[[int, bytes], int] = os.write,
        held_bytes: int = HELD_BYTES,
        on_lost: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self.folder = folder
        self.lost = 0
        """Rows dropped because the disk refused them and there was no more room in memory."""
        self.unreadable = 0
        """Lines and rows moved to `unreadable.jsonl`."""
        self.last_error: str | None = None
        """Why the disk refused the last row; None when it did not."""
        self._clock = clock
        self._write = write
        self._held_bytes = held_bytes
        self._on_lost = on_lost
        self._outage = Outage(
            f"The usage spool {folder} cannot be written, rows are held in memory until the database takes them",
            f"The usage spool {folder} can be written again",
            monotonic,
        )
        self._has_lost = False
        """In this outage."""
        self._begin()

    @property
    def writer(self) -> str:
        """Names this process among all that ever append; its files begin with it."""
        self._forget_parent()
        return f"usage-{self._pid}-{self._started}"

    def check(self) -> None:
        """Sees that rows could be kept here.

        Raises:
            StartRefused: the folder cannot be made, or no file in it.
        """
        unnamed = self.folder / f"usage-{os.getpid()}-check.tmp"
        try:
            private.make_folder(self.folder)
            os.close(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, private.FILE_MODE))
            unnamed.unlink()
        except OSError as error:
            raise StartRefused(
                f"The usage spool {self.folder} cannot be written: {error.strerror or error}. "
                "Give this user the right to write there, or set HERMES_SPOOL_DIR to another folder."
            ) from None

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._started = int(self._clock() * 1e9)
        self._count = 0
        self._active: _ActiveFile | None = None
        self._batches: dict[Path, Batch] = {}
        self._held = HeldRows(self._lose, self._held_bytes)

    def append(self, record: Record | UsageRecord) -> None:
        """Keeps a row, in about 5 µs; when this returns, killing the process cannot lose it.

        Never raises for what the disk does: a row that cannot be written is held in memory and written later. Values
        that JSON does not know become text.
        """
        line = line_of(record)
        self._forget_parent()
        if not (self._held.write(self._write_line, HELD_ROWS_PER_APPEND) and self._write_line(line)):
            self._held.hold(line)

    def depth(self) -> int:
        """Rows of this process that are not in the database yet; those of dead processes are not counted."""
        active = self._active.rows if self._active else 0
        return active + sum(batch.rows_left for batch in self._batches.values()) + len(self._held)

    @property
    def held_in_memory(self) -> int:
        """Rows that the disk has refused so far."""
        return len(self._held)

    @property
    def trouble(self) -> str | None:
        """What is wrong with the disk, for reports; None when nothing is."""
        if self._outage.reason is None:
            return None
        return (
            f"the usage spool cannot be written ({self._outage.reason}); "
            f"rows held in memory: {self.held_in_memory}, lost: {self.lost}"
        )

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
        self.tend()
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

    def tend(self) -> None:
        """Writes held rows out, as far as the disk takes them, and in an outage sees whether it takes any again."""
        self._forget_parent()
        if self._held.write(self._write_line, HELD_ROWS_PER_TAKE) and self.last_error is not None:
            self._write_whole(PROBE)
        if self.last_error is None:
            self._outage.worked()
        if self._outage.reason is None:
            self._has_lost = False

    def lend(self) -> AbstractContextManager[list[dict[str, Any]]]:
        """The oldest rows in memory, for the database; see `HeldRows.lend`."""
        return self._held.lend()

    def set_aside(self, line: bytes) -> None:
        """Keeps a line that cannot be stored in `unreadable.jsonl`, where a person may look at it.

        Raises:
            OSError: the disk refuses it; then its file must not be deleted.
        """
        fd = os.open(
            self.folder / "unreadable.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, private.FILE_MODE
        )
        whole = line.rstrip(b"\n") + b"\n"
        try:
            if self._write(fd, whole) < len(whole):
                raise OSError("a line could only be set aside in part")
        finally:
            os.close(fd)
        self.unreadable += 1

    def close(self) -> None:
        """Lets go of all files; what is in them is found at the next start."""
        self.tend()
        if self._held:
            log.error("Usage rows are lost, which neither the disk nor the database has taken: %d", len(self._held))
        self._finish_active()
        for batch in self._batches.values():
            batch.release()
        self._batches = {}

    def _write_line(self, line: bytes) -> bool:
        active = self._write_whole(line)
        if active is not None:
            active.rows += 1
        return active is not None

    def _write_whole(self, line: bytes) -> _ActiveFile | None:
        """The file that has taken the line, or None where the disk has refused it."""
        try:
            active = self._active or self._open_next()
            whole = b"\n" + line if active.is_torn else line
            written = self._write(active.fd, whole)
        except OSError as error:
            self._refused(error.strerror or str(error))
            return None
        if written < len(whole):
            active.is_torn = active.is_torn or written > 0
            self._refused("a row was only written in part")
            return None
        self.last_error = None
        active.is_torn = False
        return active

    def _refused(self, reason: str) -> None:
        self.last_error = reason
        self._outage.failed(reason)

    def _lose(self, rows: int) -> None:
        if not self._has_lost:
            self._has_lost = True
            log.error("The memory for usage rows is full too: from now on the oldest are lost.")
        self.lost += rows
        self._on_lost(rows)

    def _open_next(self) -> _ActiveFile:
        """Opens the next file. It gets its name once it is locked; before, it could be taken for a dead one's."""
        private.make_folder(self.folder)
        self._count += 1
        path = self.folder / f"{self.writer}-{self._count:06d}.jsonl"
        unnamed = path.with_suffix(".tmp")
        fd = os.open(unnamed, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private.FILE_MODE)
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
            self._begin()
