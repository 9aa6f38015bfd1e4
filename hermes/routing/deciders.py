"""Who decides beside the keywords and the sessions, as little of each as the router needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hermes.policy import SurrogatePolicy, TeacherPolicy
from hermes.routing.audit import Accepted
from hermes.types import Allowance, Tier, Verdict


class Surrogate(Protocol):
    """The learned classifier."""

    @property
    def version(self) -> str:
        """Which one it is, for audits."""

    def threshold_of(self, tier: Tier, configured: float | None = None) -> float:
        """The confidence from which a verdict of a tier decides; `configured`: the operator's own."""

    def judge(self, text: str) -> Verdict | None:
        """Its verdict with a confidence; None where no model is loaded."""

    def reconsider(self, text: str) -> Verdict | None:
        """A second, slower look at what it is not sure of; None where there is none."""


SurrogateOf = Callable[[SurrogatePolicy], Surrogate | None]
"""Finds the surrogate of a policy, at once; a request in flight keeps to its own policy's."""


class Classifier(Protocol):
    """The teacher, as `hermes.routing.teacher.Teacher` is."""

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        """The tier of a text; None: undecided. Raises TeacherUnavailable, in `patience_s` at the latest."""


class Audits(Protocol):
    """Compares a share of what the surrogate decides with the teacher, as `hermes.routing.audit.Auditor` does."""

    def samples(self, rate: float) -> float:
        """The share that is audited now, if the next accepted verdict shall be; else 0."""

    def doubts(self, rate: float) -> float:
        """The same for a verdict of the teacher, which it would be asked for again."""

    def audit(self, policy: TeacherPolicy, accepted: Accepted) -> None:
        """Does it, off the request's path."""
