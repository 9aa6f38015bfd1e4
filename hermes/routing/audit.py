"""Puts a random share of what the surrogate has decided to the teacher too, off the request's path.

It is never in anybody's way: two calls at a time, a short queue, and what does not fit is not audited. Whoever is
sampled is decided by chance alone, so that the sample stands for all that was accepted.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import gevent
from gevent.lock import BoundedSemaphore

from hermes.errors import DatabaseUnavailable
from hermes.policy import TeacherPolicy
from hermes.routing.teacher import TeacherUnavailable
from hermes.types import ANYONE, Allowance, Verdict

log = logging.getLogger("hermes-router.routing")

AT_A_TIME: Final = 2
MOST_WAITING: Final = 64


@dataclass(frozen=True, slots=True)
class Accepted:
    """A verdict of the surrogate that has decided a request."""

    request_id: str
    surrogate: str
    """Its version."""

    caller: str | None
    """The API key's id."""

    verdict: Verdict
    text: str
    kept_text: str | None
    """What may be stored of the text; None: nothing."""

    rate: float
    allowance: Allowance = ANYONE
    """Who may see the text."""


class Classifier(Protocol):
    """The teacher."""

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        """The tier of a text; None: undecided. Raises TeacherUnavailable."""


Keep = Callable[[Accepted, Verdict], None]
"""Stores an audit: what was accepted, and what the teacher says."""


class Auditor:
    """Audits a share of the accepted traffic."""

    def __init__(
        self,
        teacher: Classifier,
        keep: Keep,
        rng: random.Random | None = None,
        is_crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self.missed = 0
        """Audits that were not made: the queue was full, or the teacher gave no verdict."""

        self._teacher = teacher
        self._keep = keep
        self._rng = rng or random.Random()  # noqa: S311  (a sample, no secret)
        self._turns = BoundedSemaphore(AT_A_TIME)
        self._is_crowded = is_crowded
        self._waiting = 0

    def samples(self, rate: float) -> bool:
        """Whether the next accepted verdict shall be audited; none is while requests are turned away."""
        return rate > 0 and self._rng.random() < rate and not self._is_crowded()

    def audit(self, policy: TeacherPolicy, accepted: Accepted) -> None:
        """Asks the teacher in a while. Returns at once."""
        if self._waiting >= MOST_WAITING:
            self.missed += 1
            return
        self._waiting += 1
        gevent.spawn(self._run, policy, accepted)

    def _run(self, policy: TeacherPolicy, accepted: Accepted) -> None:
        try:
            with self._turns:
                verdict = self._teacher.classify(policy, accepted.text, allowance=accepted.allowance)
            if verdict is not None:
                self._keep(accepted, verdict)
                return
        except (TeacherUnavailable, DatabaseUnavailable):
            pass  # whoever is away, the log says so already
        except Exception:  # an edge: this greenlet is nobody's, and the database may be away
            log.warning("An audit of the surrogate could not be stored", exc_info=True)
        finally:
            self._waiting -= 1
        self.missed += 1
