"""How far a surrogate may still be trusted, worked out from the audits of what it decided.

It begins with the evidence that it was certified with: at each of a few levels, how many texts it would accept and how
many of those verdicts were the teacher's. Audits are added to it one by one, in their order, so every worker comes to
the same end from the same audits.

* Where the lower bound of the agreement at the present level falls under the target, the level is raised to the least
  one where it does not. Where there is none, nothing is accepted any more.
* A bet against the surrogate runs beside it: money that grows when it disagrees with the teacher, and that a surrogate
  which keeps its target makes twentyfold in one case of twenty at most, however long one looks. When it has, traffic
  has drifted, and nothing is accepted any more, however good the evidence of old was.

The level is that of the *assurance*: the confidence, but for a verdict *simple* each doubt counts more, since a wrong
*simple* costs more than a wrong *complex*. So one level means two thresholds.

Source: Waudby-Smith and Ramdas 2024, for the bet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hermes.bounds import lower_bound

LEAST_AUDITS: Final = 30
"""Before so many audits of a level nothing is concluded from its bound."""

LEAST_TO_STEP_BACK: Final = 10
"""Two disagreements at once would convince a statistician, but no operator."""

ALARM: Final = 20.0
"""The bet's money at which a surrogate steps back: 1 / 0.05."""

SHORTFALLS: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
"""How far under the target the agreement may have fallen: the bet is spread over these."""

NOTHING: Final = 2.0
"""A level that no assurance reaches."""

LOWEST_TARGET: Final = 0.01
HIGHEST_TARGET: Final = 0.999
"""Nobody can be shown to agree always."""

BORROWED: Final = 200
"""What a surrogate was cross-validated with elsewhere counts as so many audits here."""


class Point(NamedTuple):
    """The evidence at one level: `right` of `texts` that reach it were decided as the teacher does."""

    level: float
    texts: float
    right: float


@dataclass(frozen=True, slots=True)
class Judged:
    """One audit, as far as it matters here."""

    assurance: float
    agrees: bool


def assurance(tier: str, confidence: float, simple_cost: float) -> float:
    """What a level is compared with.

    >>> assurance("complex", 0.9, 1.5), round(assurance("simple", 0.9, 1.5), 2)
    (0.9, 0.85)
    """
    return confidence if tier == "complex" else 1 - simple_cost * (1 - confidence)


def threshold(tier: str, level: float, simple_cost: float) -> float:
    """The confidence that has this assurance.

    >>> threshold("complex", 0.85, 1.5), round(threshold("simple", 0.85, 1.5), 2)
    (0.85, 0.9)
    """
    return level if tier == "complex" or simple_cost == 1 else 1 - (1 - level) / simple_cost


def evidence(manifest: Mapping[str, Any], level: float, name: str = "points") -> tuple[Point, ...]:
    """What a surrogate was certified with, the lowest level first; for one that was fitted elsewhere, a little.

    Args:
        level: from which it decides.
        name: which of the certificate's lists counts.
    """
    points = manifest.get("certificate", {}).get(name)
    if points:
        return tuple(Point(*map(float, point)) for point in points)
    right = float(manifest.get("cross_validation", {}).get("accepted_right", 0.0))
    return (Point(level, BORROWED, BORROWED * right),)


class Standing:
    """What audits have made of a surrogate's certificate."""

    def __init__(self, points: Iterable[Point], target: float) -> None:
        self.audited = 0
        """At the present level."""

        self.agreed = 0
        self.has_drifted = False
        """The bet was won."""

        self._points = list(points)
        self.target = min(max(target, LOWEST_TARGET), HIGHEST_TARGET)
        self._at = 0
        self._judged: list[Judged] = []
        self._money = [1.0 / len(SHORTFALLS)] * len(SHORTFALLS)

    @property
    def level(self) -> float:
        """From which assurance a verdict is accepted; `NOTHING`: none is."""
        if self.has_drifted or self._at >= len(self._points):
            return NOTHING
        return self._points[self._at].level

    @property
    def is_raised(self) -> bool:
        """Whether it accepts less than it did at first."""
        return self.has_drifted or self._at > 0

    def take(self, judged: Judged) -> None:
        """Adds one audit.

        Blocks: 3 ms for each level, where the teacher disagrees.
        """
        self._judged.append(judged)
        if judged.assurance < self.level:  # decided before the level was raised, or with an operator's own threshold
            return
        self.audited += 1
        self.agreed += judged.agrees
        self._bet(judged.agrees)
        if sum(self._money) >= ALARM and self.audited >= LEAST_TO_STEP_BACK:
            self.has_drifted = True
        elif not judged.agrees or self.audited == LEAST_AUDITS:
            self._raise()

    def _bet(self, agrees: bool) -> None:
        target = self.target
        for number, shortfall in enumerate(SHORTFALLS):
            supposed = max(target - shortfall, 0.0)
            self._money[number] *= supposed / target if agrees else (1 - supposed) / (1 - target)

    def _raise(self) -> None:
        while self._at < len(self._points) and self.audited >= LEAST_AUDITS:
            point = self._points[self._at]
            if lower_bound(point.right + self.agreed, point.texts + self.audited) >= self.target:
                return
            self._at += 1
            if self._at == len(self._points):  # what was counted last is why nothing is accepted any more
                return
            self._money = [1.0 / len(SHORTFALLS)] * len(SHORTFALLS)
            reached = [one for one in self._judged if one.assurance >= self.level]
            self.audited, self.agreed = len(reached), sum(one.agrees for one in reached)
