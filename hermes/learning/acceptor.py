"""From which level verdicts need no teacher: so that of all that is accepted, the target's share is the teacher's own
verdict, with a confidence of 95 %.

Every score used here was given by a model that had not seen the text, and was calibrated on other texts. Levels are
tried from strict to lenient, on a grid of shares of the traffic that is fixed beforehand, from three starts that share
the risk; each walk ends at the first level whose exact lower bound is under the target. So the risk of having certified
too much is 5 % altogether, however many levels there are.

A row may stand for several requests. Weighted rows count as many as equally weighted ones of the same accuracy would.

Source: Angelopoulos et al. 2021, "Learn then Test", fixed sequence testing; Kish 1965 for the effective number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hermes.bounds import DELTA, lower_bound
from hermes.routing.standing import Point

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SHARES: Final = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Of the traffic, the strictest first."""

STARTS: Final = (0.1, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at every row: how sure it is, and whether it is right."""

    assurance: Floats
    right: Bools


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a level is worth, on rows that it was not fitted on."""

    target: float
    level: float
    coverage: float
    """The share of the traffic that is accepted."""

    agreement: float
    """The share of that which is as the teacher decides."""

    lower: float
    """The least that share is, at the confidence of the walk that found the level."""

    points: tuple[Point, ...]
    """The evidence at this level and at the stricter ones."""


class Looks:
    """Verdicts of one look, or of a first and a second one: what the first is not sure of, the second looks at."""

    def __init__(self, weights: Floats, first: Look, second: Look | None = None) -> None:
        self._weights = weights
        self._first = first
        self._second = second
        self._best = first.assurance if second is None else np.maximum(first.assurance, second.assurance)

    def levels(self) -> list[float]:
        """The level of each share of the traffic in `SHARES`."""
        order = np.argsort(-self._best, kind="stable")
        reached = np.cumsum(self._weights[order]) / self._weights.sum()
        at = np.minimum(np.searchsorted(reached, np.array(SHARES) - 1e-9), len(order) - 1)
        return [float(level) for level in self._best[order][at]]

    def point(self, level: float) -> Point:
        """The evidence at a level."""
        accepted, right = self.decided(level)
        weights = self._weights[accepted]
        if not len(weights):
            return Point(level, 0.0, 0.0)
        texts = float(weights.sum() ** 2 / (weights**2).sum())
        return Point(level, texts, texts * float(np.average(right[accepted], weights=weights)))

    def coverage(self, level: float) -> float:
        """The share of the traffic that reaches a level."""
        accepted, _ = self.decided(level)
        return float(self._weights[accepted].sum() / self._weights.sum())

    def decided(self, level: float) -> tuple[Bools, Bools]:
        """Which rows reach a level, and which would be right."""
        by_first = self._first.assurance >= level
        if self._second is None:
            return by_first, self._first.right
        return self._best >= level, np.where(by_first, self._first.right, self._second.right)


def certify(looks: Looks, target: float, delta: float = DELTA) -> Certificate | None:
    """The most lenient level that keeps the target; None: there is none that can be shown to.

    Blocks: 0.2 s.
    """
    points = [looks.point(level) for level in looks.levels()]
    risk = delta / len(STARTS)
    bounds = [lower_bound(point.right, point.texts, risk) for point in points]
    found = -1
    for start in STARTS:
        for at in range(SHARES.index(start), len(points)):
            if bounds[at] < target:
                break
            found = max(found, at)
    if found < 0:
        return None
    point = points[found]
    kept = {one.level: one for one in points[found::-1]}
    return Certificate(
        target=target,
        level=point.level,
        coverage=looks.coverage(point.level),
        agreement=point.right / point.texts,
        lower=bounds[found],
        points=tuple(sorted(kept.values())),
    )
