"""The trace: what was decided and done, one JSON object a line, in `router-trace-YYYYMMDD.jsonl` (UTC day).

Any number of processes append to the same file. Each line is one `write` to a file opened with O_APPEND, so lines never
mix. At the size limit one process renames the file to `.1` (`.1` to `.2`, and so on) under a lock; the others see at
their next line that the name leads to another inode, and open it anew. A line that was written in between stands in
`.1`, hence none is lost. Nothing here raises towards a request: what cannot be written is counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from hermes import private

log = logging.getLogger("hermes-router.trace")

OWN_FIELDS: Final = frozenset(
    {"ts", "event", "request_id", "session_key", "tier", "source", "direction", "previous_tier", "new_tier"}
)
"""What Hermes itself has made: nobody can put a secret there, so these are not searched for one."""

DAY_S: Final = 86_400
LOOK_EVERY_S: Final = 1.0
NEVER: Final = float("-inf")
LOCK_NAME: Final = ".router-trace.lock"
FILE_NAME: Final = re.compile(r"router-trace-(\d{8})\.jsonl(?:\.(\d+))?")


def utc_ms(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC with milliseconds and `Z`.

    >>> utc_ms(1778419980.1239)
    '2026-05-10T13:33:00.123Z'
    """
    whole, millis = divmod(int(seconds * 1000), 1000)
    return f"{_utc_second(whole)}.{millis:03d}Z"


@lru_cache(maxsize=8)
def _utc_second(seconds: int) -> str:
    """The part that all events of one second share."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


class TraceLog:
    """Appends trace events of this process. For the event loop only: it logs, and native threads must not."""

    def __init__(
        self,
        folder: Path,
        max_bytes: int = 10_485_760,
        backups: int = 5,
        enabled: bool = True,
        clean: Callable[[str], str] = lambda text: text,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.failures = 0
        """Events that could not be written, and rotations that failed."""

        self._folder = folder
        self._max_bytes = max(1, max_bytes)
        self._backups = max(0, backups)
        self._enabled = enabled
        self._clean = clean
        self._clock = clock
        self._path = self._today = folder
        self._day = -1
        self._looked_at = NEVER
        self._fd = -1
        self._inode = 0
        self._torn = False
        self._warned = False

    def emit(self, event: str, fields: Mapping[str, Any]) -> None:
        """Appends one event; `fields` holds the request's id. Never raises. Blocks for about 20 µs."""
        if not self._enabled:
            return
        now = self._clock()
        line = self._line({"ts": utc_ms(now), "event": event, **fields})
        try:
            self._append(self._file_of(now), line, now)
        except OSError as error:
            self._failed(error)
            return
        self._warned = False

    def drop_before(self, day: date) -> int:
        """Deletes the files of days before `day`; how many there were."""
        dropped = 0
        for path, stamp, _ in self._files():
            if stamp < f"{day:%Y%m%d}":
                with contextlib.suppress(OSError):
                    path.unlink()
                    dropped += 1
        return dropped

    def close(self) -> None:
        """Closes the file; a later event opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # -- one line -----------------------------------------------------------------------------------------

    def _line(self, event: dict[str, Any]) -> bytes:
        cleaned = {name: value if name in OWN_FIELDS else self._cleaned(value) for name, value in event.items()}
        try:
            return orjson.dumps(cleaned, default=str, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
        except TypeError:  # half a surrogate pair, or a whole number beyond 64 bits: rare, so the slow way will do
            return json.dumps(cleaned, default=str).encode() + b"\n"

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, Mapping):
            return {key: self._cleaned(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._cleaned(inner) for inner in value]
        return value

    def _append(self, path: Path, line: bytes, now: float) -> None:
        self._open(path, now)
        whole = b"\n" + line if self._torn else line  # ends the torso that a full disk has left
        written = os.write(self._fd, whole)
        self._torn = written < len(whole)
        if self._torn:
            raise OSError("the disk took a part of a line only")
        if os.fstat(self._fd).st_size >= self._max_bytes:
            self._rotate(path)
            self._looked_at = NEVER

    # -- files --------------------------------------------------------------------------------------------

    def _file_of(self, now: float) -> Path:
        day = int(now // DAY_S)
        if day != self._day:
            self._day = day
            self._today = self._folder / f"router-trace-{datetime.fromtimestamp(now, UTC):%Y%m%d}.jsonl"
        return self._today

    def _open(self, path: Path, now: float) -> None:
        """Makes sure that the open file is the one of that name; a new day or another process's rotation moves it.

        Whether the name still means the open file is looked up once a second: until then lines go to a file that has
        just been moved aside, and stand in it whole.
        """
        if self._fd >= 0 and path is self._path:
            if 0 <= now - self._looked_at < LOOK_EVERY_S:
                return
            self._looked_at = now
            if _inode(path) == self._inode:
                return
        self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, private.FILE_MODE)
        except FileNotFoundError:
            private.make_folder(self._folder)
            self._fd = os.open(path, flags, private.FILE_MODE)
        self._path, self._inode, self._looked_at = path, os.fstat(self._fd).st_ino, now

    def _rotate(self, path: Path) -> None:
        """Moves the full file away, unless another process is at it or has just done so."""
        lock = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # never waited for: the event loop stands still meanwhile
            if _inode(path) == self._inode:
                self._shift(path)
        except BlockingIOError:
            return
        finally:
            os.close(lock)

    def _shift(self, path: Path) -> None:
        """`.1` becomes `.2` and so on, the file becomes `.1`. Call it under the lock."""
        numbers = sorted((n for _, stamp, n in self._files() if n and stamp in path.name), reverse=True)
        for number in numbers:
            old = path.with_name(f"{path.name}.{number}")
            if number >= self._backups:
                old.unlink(missing_ok=True)
            else:
                old.replace(path.with_name(f"{path.name}.{number + 1}"))
        if self._backups:
            path.replace(path.with_name(f"{path.name}.1"))
        else:
            path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[Path, str, int]]:
        """(path, day, number of the backup or 0) of each trace file."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        found = ((name, FILE_NAME.fullmatch(name)) for name in names)
        return [(self._folder / name, match[1], int(match[2] or 0)) for name, match in found if match]

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        self.close()
        if not self._warned:  # once, until a line is written again
            self._warned = True
            log.warning("Traces cannot be written to %s: %s", self._folder, error.strerror or error)


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
