"""What stands in a spool's files: one JSON object a line, read in slices, and told apart from what is none.

A line may be torn (the disk was full, the process was killed while it wrote) or foreign; it is set aside and never
stops the lines behind it. Lines are read from the file's descriptor, which holds its lock.
"""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from hermes.types import UsageRecord

Record = Mapping[str, Any]

SLICE_ROWS: Final = 500
SLICE_BYTES: Final = 1024 * 1024
"""A slice of a file ends at whichever comes first, so that reading one blocks the event loop for a few ms at most."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024

MAX_DEPTH: Final = 32
"""Of a record's nested values that JSON refused as they were."""


class Batch:
    """The rows of one finished file, locked by this process until they are done."""

    def __init__(self, path: Path, fd: int, rows: int, set_aside: Callable[[bytes], None]) -> None:
        self.path = path
        self.rows_left = rows
        """How many rows are still to be moved; known for the process's own files, 0 for those of dead ones."""
        self._fd = fd
        self._set_aside = set_aside
        self._pending: list[bytes] = []
        """Lines to be set aside, which the disk has refused."""

        self._position = 0
        self._is_done = False

    @property
    def writer(self) -> str:
        """The process whose rows these are, see `Spool.writer`."""
        return self.path.stem.rpartition("-")[0]

    def slices(self) -> Iterator[list[dict[str, Any]]]:
        """The rows that are not moved yet, at most 500 at a time.

        To ask for the next slice says that the last one is stored. A consumer that fails in between (and so never
        resumes this iterator) gets the same slice again from the next call. Lines that are no row are set aside.
        """
        with io.BufferedReader(io.FileIO(self._fd, closefd=False), SLICE_BYTES) as reader:
            reader.seek(self._position)
            while True:
                rows, unreadable = _read_slice(reader)
                if not rows and not unreadable:
                    return
                if rows:
                    yield rows
                for line in unreadable:
                    self.set_aside(line)
                self._position = reader.tell()
                self.rows_left = max(0, self.rows_left - len(rows))

    def set_aside(self, line: bytes) -> None:
        """Keeps a line that can never be stored; where the disk refuses it, until it does not. Holds nothing up."""
        try:
            self._set_aside(line)
        except OSError:
            self._pending.append(line)

    def done(self) -> None:
        """Deletes the file. Only to be called when the database has committed every slice. Safe to call twice.

        Raises:
            OSError: the disk does not let it go, or does not take what must be set aside before; call it again later.
        """
        if not self._is_done:
            while self._pending:
                self._set_aside(self._pending[-1])
                self._pending.pop()
            with suppress(FileNotFoundError):
                self.path.unlink()
            self.release()

    def release(self) -> None:
        """Lets go of the file; if it is still there, another process or the next start may take it."""
        if not self._is_done:
            self._is_done = True
            self.rows_left = 0
            os.close(self._fd)

    @property
    def is_done(self) -> bool:
        """Whether it was let go of."""
        return self._is_done


def _read_slice(reader: BinaryIO) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The next rows of a file, and the lines among them that are none; both empty at its end."""
    rows: list[dict[str, Any]] = []
    unreadable: list[bytes] = []
    size = 0
    while len(rows) < SLICE_ROWS and size < SLICE_BYTES:
        line = reader.readline(MAX_LINE_BYTES)
        if not line:
            break
        size += len(line)
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif not line.isspace():
            unreadable.append(line)
    return rows, unreadable


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def lock_if_dead(path: Path, flock: Callable[[int, int], None] = fcntl.flock) -> int | None:
    """Opens a file and locks it, or None where its process lives or another has just moved it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # gone meanwhile, or another user's, which must not stop the others
        return None
    try:
        flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between open and lock another process may have moved the rows and deleted the file.
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except OSError:
        os.close(fd)
        return None
    os.close(fd)
    return None


def line_of(record: Record | UsageRecord) -> bytes:
    try:
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # half a surrogate pair, a number over 64 bits, an object
        line = orjson.dumps(_plain(record), option=orjson.OPT_APPEND_NEWLINE)
    if len(line) > MAX_LINE_BYTES:
        line = orjson.dumps(_shortened(_plain(record)), option=orjson.OPT_APPEND_NEWLINE)
    return line


def _plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's own types."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return int(value)
    if depth > MAX_DEPTH:
        return "…"
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), depth + 1) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_whole(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1) for item in value]
    return _whole(str(value))


def _whole(text: str) -> str:
    """Pairs of surrogates joined, halves replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    """Of a row that is longer than any honest one: the scalars, with long texts cut."""
    return {
        key: value[:1000] if isinstance(value, str) else value
        for key, value in row.items()
        if not isinstance(value, (dict, list))
    }
