"""What is read for operators comes behind the work for callers.

Pages and scripts may ask for as much as they like, and forty of them at once: only a few of the database's connections
are theirs, and who finds those taken waits for a turn. So whoever looks up a key or stores a row finds a connection.
What callers wait for must never be read in such a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gevent.lock import BoundedSemaphore

from hermes.errors import Overloaded

WAIT_S: Final = 5.0
"""How long a turn is waited for; as long as a connection."""

RETRY_AFTER_S: Final = 5.0


class Turns:
    """Those of one process at one database."""

    def __init__(self, at_once: int, wait_s: float = WAIT_S) -> None:
        self._free = BoundedSemaphore(at_once)
        self._wait_s = wait_s

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A turn for what is read within. Who has one must not ask for another.

        Raises:
            Overloaded: none was to be had in time.
        """
        if not self._free.acquire(timeout=self._wait_s):
            raise Overloaded(
                "More reports are being read already than the database has time for; come again after Retry-After.",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            yield
        finally:
            self._free.release()
