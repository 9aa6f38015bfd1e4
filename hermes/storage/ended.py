"""Sessions of the dashboard that were signed out of: kept in the database, known in every worker by the directory.

A sign-out is never refused. Where the database cannot take it, this process knows it all the same, and goes on trying.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import gevent

from hermes.storage.directory import SESSION_CHARS

log = logging.getLogger("hermes-router.storage")

WAIT_S: Final = 2.0
"""How long an operator waits for a database that is slow; the session's end is stored all the same, or later."""


class EndedSessions:
    """Those whose end is perhaps not in the database yet, and its way there."""

    def __init__(self, store: Callable[[str, str], None], refresh: Callable[[], None], wait_s: float = WAIT_S) -> None:
        """
        Args:
            store: keeps the end of a session: its name, and who has ended it. To do so twice is to do it once.
            refresh: puts what is kept in force in this process.
        """
        self._store = store
        self._refresh = refresh
        self._wait_s = wait_s
        self._unstored: dict[str, str] = {}

    def end(self, name: str, actor: str) -> None:
        """Ends a session for good; never raises."""
        log.info("dashboard.sign_out %s by %s", name[:SESSION_CHARS], actor)
        self._unstored[name] = actor
        gevent.spawn(self._try).join(self._wait_s)

    def has(self, name: str) -> bool:
        """Whether it is one that the directory may not tell of yet."""
        return name in self._unstored

    def store_missing(self) -> None:
        """Stores those that could not be stored; for a loop. Raises `DatabaseUnavailable`: they still cannot be."""
        for name, actor in list(self._unstored.items()):
            self._store(name, actor)
            self._refresh()  # from here on the directory tells of it
            self._unstored.pop(name, None)

    def _try(self) -> None:
        try:
            self.store_missing()
        except Exception as error:  # noqa: BLE001  (whatever the database has, who signs out is signed out)
            log.warning("A sign-out is only known to this process until the database can keep it: %s", error)
