"""Reads the trace files: the last events, and those that are added, across rotations and midnights.

The last ones are read from the end of the newest file backwards, so that it does not matter how long the files are. A
file that is watched is kept open: whatever name rotation gives it, and even when it is deleted, all that was written to
it is read, and none other can be taken for it. New files are found by their names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

import orjson

from hermes.observe.trace import FILE_NAME

BLOCK_BYTES: Final = 256 * 1024

Event = dict[str, Any]
Wanted = Callable[[Event], bool]


class TraceFiles:
    """The events of one folder, which need not exist yet. A context manager: leaving it closes the files."""

    def __init__(self, folder: Path) -> None:
        self.unreadable = 0
        """Lines that were passed over, as they are no event."""

        self._folder = folder
        self._watched: dict[int, BinaryIO] = {}
        self._first_day = ""

    def __enter__(self) -> TraceFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in self._watched.values():
            opened.close()
        self._watched.clear()

    def last(self, number: int, wanted: Wanted = lambda _: True, look_at: int | None = None) -> list[Event]:
        """The last events that are wanted, at most `number`, the oldest first. `more` goes on behind them.

        Args:
            look_at: how many events are looked at for them; None: all that there are.
        """
        self._first_day = max((day for _, day in _names(self._folder)), default="")
        self._watch()
        ends = {inode: _end(opened) for inode, opened in self._watched.items()}  # what comes behind these is `more`'s
        found: list[Event] = []
        looks = 0
        for opened in self._newest_first():
            if len(found) >= number or looks == look_at:
                break
            for line in _backwards(opened, ends.get(_inode(opened)) or _end(opened)):
                event = self._event(line)
                if event is not None and wanted(event):
                    found.append(event)
                looks += 1
                if len(found) >= number or looks == look_at:
                    break
        for inode, end in ends.items():
            self._watched[inode].seek(end)
        return found[::-1]

    def more(self) -> Iterator[Event]:
        """What was added since the last call, file by file, the oldest file first."""
        self._watch()
        for inode, opened in list(self._watched.items()):
            is_deleted = os.fstat(opened.fileno()).st_nlink == 0
            while line := opened.readline():
                if not line.endswith(b"\n"):  # still being written
                    opened.seek(-len(line), os.SEEK_CUR)
                    break
                event = self._event(line)
                if event is not None:
                    yield event
            if is_deleted:
                self._watched.pop(inode).close()

    def _watch(self) -> None:
        """Opens the files of the first day and of those after it that are not open yet, and puts all in order."""
        in_order: dict[int, BinaryIO] = {}
        for path, day in _names(self._folder):
            if day < self._first_day:
                continue
            opened = _open(path)
            if opened is None:
                continue
            inode = _inode(opened)
            if inode in self._watched or inode in in_order:
                opened.close()
                opened = in_order.get(inode) or self._watched[inode]
            in_order[inode] = opened
        deleted = {inode: opened for inode, opened in self._watched.items() if inode not in in_order}
        self._watched = {**deleted, **in_order}

    def _newest_first(self) -> Iterator[BinaryIO]:
        yield from reversed(self._watched.values())
        for path, day in reversed(_names(self._folder)):
            opened = _open(path) if day < self._first_day else None
            if opened is not None:
                with opened:
                    yield opened

    def _event(self, line: bytes) -> Event | None:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            event = None
        if isinstance(event, dict):
            return event
        self.unreadable += bool(line.strip())
        return None


def wanted_by(events: Iterable[str], session: str | None, request_id: str | None) -> Wanted:
    """A function that tells which events are meant; what is not given does not matter.

    Args:
        events: names of events; none means every event.
        session: the beginning of a conversation's key.
    """
    names = frozenset(events)

    def wanted(event: Event) -> bool:
        return (
            (not names or event.get("event") in names)
            and (session is None or str(event.get("session_key") or "").startswith(session))
            and (request_id is None or event.get("request_id") == request_id)
        )

    return wanted


def _names(folder: Path) -> list[tuple[Path, str]]:
    """The trace files with their days, the oldest first; of a day, the one with the highest number."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [match for match in map(FILE_NAME.fullmatch, names) if match]
    found.sort(key=lambda match: (match[1], -int(match[2] or 0)))
    return [(folder / match[0], match[1]) for match in found]


def _open(path: Path) -> BinaryIO | None:
    """The file, or None where it is gone meanwhile."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _inode(opened: BinaryIO) -> int:
    return os.fstat(opened.fileno()).st_ino


def _end(opened: BinaryIO) -> int:
    """Where the last whole line ends; what stands behind it is still being written."""
    end = opened.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        opened.seek(start)
        at = opened.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _backwards(opened: BinaryIO, end: int) -> Iterator[bytes]:
    """The lines before `end`, the last one first."""
    rest = b""
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        opened.seek(start)
        rest, *lines = (opened.read(end - start) + rest).split(b"\n")
        yield from reversed(lines)
        end = start
    yield rest
