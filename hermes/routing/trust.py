"""Keeps what audits say of the surrogate that decides, and holds it to that: see `hermes.routing.standing`.

Every worker reads the audits of all of them, so all come to the same conclusion within a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hermes.routing.standing import LEAST_AUDITS, Judged, Point, Standing, assurance


class Audited(Protocol):
    """One audit, as it is stored."""

    @property
    def id(self) -> int: ...
    @property
    def surrogate_tier(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def agrees(self) -> bool: ...


class Trusted(Protocol):
    """A surrogate, as far as it matters here."""

    @property
    def version(self) -> str: ...
    @property
    def simple_cost(self) -> float: ...
    @property
    def evidence(self) -> Sequence[Point]: ...
    def raise_to(self, level: float | None) -> None: ...


AuditsOf = Callable[[str, int], Sequence[Audited]]
"""The audits of a version whose ids are above a number, the oldest first."""


class Trust:
    """How the surrogate in force stands."""

    def __init__(self, audits_of: AuditsOf, aside: Callable[[Callable[[], None]], None] = lambda work: work()) -> None:
        """
        Args:
            aside: runs what would hold up requests, in a native thread.
        """
        self._audits_of = audits_of
        self._aside = aside
        self._last = 0
        self._of: tuple[str, float] | None = None
        self.standing: Standing | None = None
        """Of the surrogate that was looked at last."""

    def look(self, surrogate: Trusted | None, target: float) -> str | None:
        """Takes in what was audited since the last look, and gives a sentence where that has changed something.

        Raises whatever reading audits raises; the surrogate then stands as it stood.
        """
        if surrogate is None:
            self.standing = self._of = None
            return None
        if self._of != (surrogate.version, target) or self.standing is None:
            self._of, self._last = (surrogate.version, target), 0
            self.standing = Standing(surrogate.evidence, target)
            surrogate.raise_to(None)
        standing, before = self.standing, self.standing.level
        audits = self._audits_of(surrogate.version, self._last)
        cost = surrogate.simple_cost

        def take() -> None:
            for audit in audits:
                standing.take(Judged(assurance(audit.surrogate_tier, audit.confidence, cost), audit.agrees))

        if audits:
            self._last = audits[-1].id
            self._aside(take)
        if standing.level == before:
            return None
        surrogate.raise_to(standing.level)
        return says(standing, surrogate.version)


def says(standing: Standing, version: str) -> str:
    """How a surrogate stands, as a sentence without its full stop."""
    audited, target = standing.audited, f"the target of {standing.target:.0%}"
    counted = f"{standing.agreed} of {audited} audited verdicts were the teacher's"
    if standing.level > 1:
        why = f"which is too few for {target}" if standing.has_drifted else f"and {target} can be shown at no threshold"
        return (
            f"The surrogate {version} has stepped back and the teacher decides: {counted}, {why}. "
            "Traffic or teacher is not what it was fitted on; fit a new one (python -m hermes surrogate refit)"
        )
    if standing.is_raised:
        since = f"; from there on {counted}" if audited else ""
        return f"The surrogate {version} fell under {target}, so its thresholds were raised and it decides less{since}"
    if audited < LEAST_AUDITS:
        so_far = f"{counted} so far, and fewer than {LEAST_AUDITS} conclude nothing" if audited else "no audit yet"
        return f"The surrogate {version} decides on what was known when it was fitted: {so_far}"
    return f"The surrogate {version} keeps {target}: {counted}"
