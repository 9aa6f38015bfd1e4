"""What waits in a spool's folder, seen from outside: for reports of other processes than the one that serves.

Only reads, and takes no lock: the server goes on meanwhile, so the numbers are those of a moment, and a file that is
half moved counts whole.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Backlog:
    """Rows on their way to the database."""

    rows: int = 0
    """At most so many: those of a file that is being moved may be in the database already."""

    size_bytes: int = 0
    oldest_s: float | None = None
    """How long nothing has been added to the file that waits longest, in seconds; None: nothing waits."""

    set_aside: int = 0
    """Lines that can never be stored, in `unreadable.jsonl`."""


def backlog(folder: Path, now: float | None = None) -> Backlog:
    """What waits in the folder, which need not exist.

    Blocks: for reading all of it.

    Raises:
        OSError: the folder or a file cannot be read.
    """
    now = time.time() if now is None else now
    rows = size = 0
    changed: list[float] = []
    for path in sorted(folder.glob("usage-*.jsonl")):
        try:
            found = path.stat()
            if found.st_size:
                rows += _lines(path)
                size += found.st_size
                changed.append(found.st_mtime)
        except FileNotFoundError:  # moved meanwhile
            continue
    refused = folder / "unreadable.jsonl"
    oldest = max(0.0, now - min(changed)) if changed else None
    return Backlog(rows, size, oldest, _lines(refused) if refused.exists() else 0)


def _lines(path: Path) -> int:
    with path.open("rb") as opened:
        return sum(block.count(b"\n") for block in iter(lambda: opened.read(READ_BYTES), b""))
