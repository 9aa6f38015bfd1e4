"""Rows in memory, which the disk has refused: bounded in number and size, the oldest lost first.

They leave to the disk, one by one, or to the database, lent in slices: a slice that the database has not taken comes
back to where it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson

from hermes.accounting.spoolfile import SLICE_BYTES, SLICE_ROWS

HELD_ROWS: Final = 10_000
HELD_BYTES: Final = 64 * 1024 * 1024


class HeldRows:
    """The lines of a spool that are in no file. Those that are lent count as held."""

    def __init__(self, lose: Callable[[int], None], bytes_max: int = HELD_BYTES) -> None:
        self._lose = lose
        self._bytes_max = bytes_max
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lent = 0

    def __len__(self) -> int:
        return len(self._lines) + self._lent

    def hold(self, line: bytes) -> None:
        """Keeps a line, and drops the oldest where there is no room."""
        self._lines.append(line)
        self._bytes += len(line)
        self._make_room()

    def write(self, write_line: Callable[[bytes], bool], rows_max: int) -> bool:
        """Hands lines on, the oldest first, until one is refused; whether none is left but those that are lent."""
        for _ in range(min(rows_max, len(self._lines))):
            if not write_line(self._lines[0]):
                break
            self._bytes -= len(self._lines.popleft())
        return not self._lines

    @contextmanager
    def lend(self) -> Iterator[list[dict[str, Any]]]:
        """The oldest rows, a slice of them. A block that ends well has stored them; else they are held as before."""
        lines: list[bytes] = []
        size = 0
        while self._lines and len(lines) < SLICE_ROWS and size < SLICE_BYTES:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        self._lent += len(lines)
        try:
            yield [orjson.loads(line) for line in lines]
        except BaseException:  # a killed greenlet too
            self._lines.extendleft(reversed(lines))
            raise
        else:
            self._bytes -= size
        finally:
            self._lent -= len(lines)
            self._make_room()

    def _make_room(self) -> None:
        lost = 0
        while self._lines and (len(self) > HELD_ROWS or self._bytes > self._bytes_max):
            self._bytes -= len(self._lines.popleft())
            lost += 1
        if lost:
            self._lose(lost)
