"""Tells of an outage once: a line when it begins, one when it is over.

It is over when nothing has failed for a while, since a disk that is full takes a short row now and then, and would
otherwise be reported broken and mended with every request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger("hermes-router")

CALM_S: Final = 2.0
"""How long nothing must have failed, in seconds."""


class Outage:
    """Whether something works. For the event loop only: it logs, and native threads must not."""

    def __init__(self, broken: str, mended: str, clock: Callable[[], float] = time.monotonic) -> None:
        """The two lines; the reason is put behind the first."""
        self.reason: str | None = None
        """Why it does not work; None when it does."""

        self._broken = broken
        self._mended = mended
        self._clock = clock
        self._failed_at = 0.0

    def failed(self, reason: str) -> None:
        """It has just failed."""
        self._failed_at = self._clock()
        is_new = self.reason is None
        self.reason = reason
        if is_new:
            log.warning("%s: %s", self._broken, reason)

    def worked(self) -> None:
        """It has just worked. Costs nothing while there is no outage."""
        if self.reason is not None and self._clock() - self._failed_at >= CALM_S:
            self.reason = None
            log.info("%s", self._mended)
