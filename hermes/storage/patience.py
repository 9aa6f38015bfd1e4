"""How long a database is waited for, and when it is not asked at all.

A server that stands still in the midst of its work accepts connections and says nothing, for as long as it likes. So
whoever has waited for a while, in which nobody else had an answer either, waits no longer: the database is *away*.
While it is, everybody is told so at once, and a greenlet of its own knocks until there is an answer.

    there ──(lost, or silent for `SILENCE_S`)──► away ──(knocked at each `KNOCK_EVERY_S`: answered)──► there

A slow answer to one question is no outage while others are answered, as those of the background loops are several times
a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import gevent

from hermes.errors import DatabaseUnavailable

log = logging.getLogger("hermes-router.storage")

SILENCE_S: Final = 1.5
"""How long nobody must have had an answer."""

LONGEST_S: Final = 30.0
"""How long one question may take while others are answered. It is given up then, and is no outage."""

STALL_S: Final = 0.2
"""An event loop that looks at the clock so late has stood still itself, and may have an answer that it has not seen."""

MORE_LOOKS: Final = 3
"""After which a database is blamed all the same: each look has seen what had come until then, and on a machine that is
busy enough every single one is late."""

KNOCK_EVERY_S: Final = 0.5

Result = TypeVar("Result")


class Silence(BaseException):
    """Ends a wait from outside; a BaseException, because the driver's pool takes any other for a closed connection."""


class Patience:
    """What is known of a database. For greenlets of one thread."""

    def __init__(
        self,
        knock: Callable[[], object],
        loss: Callable[[Exception], str | None],
        clock: Callable[[], float] = time.monotonic,
        silence_s: float = SILENCE_S,
        knock_every_s: float = KNOCK_EVERY_S,
    ) -> None:
        """
        Args:
            knock: asks the database for next to nothing.
            loss: why an error of a question's means that there is no database; None: the database has said it.
        """
        self._knock = knock
        self._loss = loss
        self._clock = clock
        self._silence_s = silence_s
        self._knock_every_s = knock_every_s
        self._answered_at = clock()
        self._away_since: float | None = None
        self._reason = ""
        self._knocking: gevent.Greenlet | None = None

    def check(self) -> None:
        """
        Raises:
            DatabaseUnavailable: it is known to be away.
        """
        if self._away_since is not None:
            raise DatabaseUnavailable(self._reason)

    def ask(self, question: Callable[[], Result]) -> Result:
        """What the question returns, or raises.

        Raises:
            DatabaseUnavailable: the database is away, was just lost, or has not answered.
        """
        self.check()
        return self._watched(question)

    def stop(self) -> None:
        """Knocks no more; for the end."""
        if self._knocking is not None:
            self._knocking.kill()

    def _watched(self, question: Callable[[], Result]) -> Result:
        began = self._clock()
        watch = _Watch(lambda: self._time_left_s(began))
        try:
            result = question()
        except BaseException as error:
            if watch.has_cut:
                raise self._unanswered(began) from None
            reason = self._loss(error) if isinstance(error, Exception) else None
            if reason is not None:
                raise self._lost(reason) from error
            raise
        else:
            self._has_answered()
            return result
        finally:
            watch.end()

    def _time_left_s(self, began: float) -> float:
        silence_ends_at = max(self._answered_at, began) + self._silence_s
        return min(silence_ends_at, began + LONGEST_S) - self._clock()

    def _unanswered(self, began: float) -> DatabaseUnavailable:
        reason = f"it has not answered for {self._clock() - began:.1f} s"
        are_others_answered = self._clock() - self._answered_at < self._silence_s
        return DatabaseUnavailable(reason) if are_others_answered else self._lost(reason)

    def _has_answered(self) -> None:
        self._answered_at = self._clock()
        if self._away_since is not None:
            log.info("The database answers again after %.1f s", self._answered_at - self._away_since)
            self._away_since = None

    def _lost(self, reason: str) -> DatabaseUnavailable:
        self._reason = reason
        if self._away_since is None:
            self._away_since = self._clock()
            log.warning("The database is away, completions go on and their rows wait in the spool: %s", reason)
            self._knocking = gevent.spawn(self._knock_until_answered)
        return DatabaseUnavailable(reason)

    def _knock_until_answered(self) -> None:
        while self._away_since is not None:
            with suppress(Exception):  # an edge: what is wrong has been told already
                self._watched(self._knock)
                return
            gevent.sleep(self._knock_every_s)


class _Watch:
    """Throws `Silence` into the greenlet that has made it, once its time is over."""

    def __init__(self, left_s: Callable[[], float]) -> None:
        self.has_cut = False
        self._left_s = left_s
        self._greenlet = gevent.getcurrent()
        self._more_looks = MORE_LOOKS
        self._timer: Any = None
        self._start(left_s())

    def end(self) -> None:
        """It throws no more."""
        self._timer.stop()
        self._timer.close()

    def _start(self, seconds: float) -> None:
        self._due_at = time.monotonic() + seconds
        self._timer = gevent.get_hub().loop.timer(max(0.001, seconds))
        self._timer.start(self._look)

    def _look(self) -> None:
        """Called by the event loop, so the greenlet is waiting for something."""
        left_s = self._left_s()
        has_stalled = time.monotonic() - self._due_at > STALL_S
        if left_s > 0 or (has_stalled and self._more_looks):
            if left_s <= 0:
                self._more_looks -= 1
            self.end()
            self._start(left_s if left_s > 0 else STALL_S)
            return
        self.has_cut = True
        self._greenlet.throw(Silence)
