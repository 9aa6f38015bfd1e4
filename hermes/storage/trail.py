"""Audit rows of what operators do elsewhere than in the database: a reload, an eviction, a circuit closed by hand.

What is done there is done whether or not the database works: it is never undone, and never waited for longer than a
moment. A row that cannot be written is a line in the log, with all that it would have said.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import gevent

log = logging.getLogger("hermes-router.storage")

WAIT_S: Final = 2.0
"""How long an operator waits for a database that is slow; the row is written all the same, or logged."""

Values = Mapping[str, Any]


class Trail:
    """The record of such actions."""

    def __init__(
        self, write: Callable[[str, str, str, Values | None, Values | None], None], wait_s: float = WAIT_S
    ) -> None:
        """
        Args:
            write: stores a row: actor, action, target, before, after.
        """
        self._write = write
        self._wait_s = wait_s

    def note(
        self, actor: str, action: str, target: str, before: Values | None = None, after: Values | None = None
    ) -> None:
        """Puts on record what has been done; never raises."""
        gevent.spawn(self._store, actor, action, target, before, after).join(self._wait_s)

    def _store(self, actor: str, action: str, target: str, before: Values | None, after: Values | None) -> None:
        try:
            self._write(actor, action, target, before, after)
        except Exception as error:  # noqa: BLE001  (whatever the database has, the action stands and must be told)
            row = {"actor": actor, "action": action, "target": target, "before": before, "after": after}
            log.warning("No audit row could be written (%s): %s", error, json.dumps(row, ensure_ascii=False))
