"""The folder in which several workers keep their counts, so that whoever is scraped can answer for all of them.

prometheus-client writes a file for each worker there, if it finds the folder's name in the environment when it is
imported. The master makes the folder before it starts the workers and removes it at its end. A master that was killed
leaves its folder behind; the next one sees that it has no owner by a lock, which the system releases with a process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
PREFIX: Final = "hermes-metrics-"
LOCK: Final = "owner.lock"
MEMORY: Final = Path("/dev/shm")  # noqa: S108
"""Where files are memory: on a busy disk, counting could stop the event loop."""


class WorkerFiles:
    """The folder of one master."""

    def __init__(self, given: str | None, base: Path | None = None) -> None:
        """Makes the folder, empty.

        Args:
            given: the folder that the operator wants, which is kept at the end.
            base: where to make one otherwise.
        """
        self._lock: int | None = None
        if given and not Path(given).name.startswith(PREFIX):
            self.folder = Path(given)
            self.folder.mkdir(parents=True, exist_ok=True)
            for file in self.folder.glob("*.db"):
                file.unlink(missing_ok=True)
            return
        # What a server leaves in the environment of the one that replaces it (SIGUSR2) is still in use: not that one.
        base = base or (MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir()))
        _remove_ownerless(base)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        # The lock has its name only when it is held: a master that starts just now must not take it for ownerless.
        nameless = self.folder / f"{LOCK}.new"
        self._lock = os.open(nameless, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        nameless.rename(self.folder / LOCK)

    def forget(self, pid: int) -> None:
        """A worker has ended: what it counted stays, what it said of its present state goes.

        The same as prometheus-client's `mark_process_dead`, which the master would have to load for this alone.
        """
        for file in self.folder.glob(f"gauge_live*_{pid}.db"):
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the folder, if it was made here."""
        if self._lock is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


def _remove_ownerless(base: Path) -> None:
    for folder in base.glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # just being made, or somebody else's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
