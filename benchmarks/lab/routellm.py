"""How a router is judged that must choose between a weak and a strong model: RouteLLM's measures.

PGR is the share of the way from the weak model's accuracy to the strong one's; APGR is its mean over all shares of
strong calls, CPT(x) the share of strong calls at which PGR is x. Thresholds are the borders of ten equal parts.

Source: Ong et al. 2024, "RouteLLM", and its `evaluate.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PARTS = 10


@dataclass(frozen=True, slots=True)
class Judged:
    """What a router is worth."""

    apgr: float
    cpt50: float
    cpt80: float


def judge(scores: Floats, weak_right: Any, strong_right: Any) -> Judged:
    """Routes to the strong model what has the highest scores, more and more of it."""
    weak, strong = float(np.mean(weak_right)), float(np.mean(strong_right))
    shares, accuracies = [0.0], [weak]
    for border in np.quantile(scores, np.linspace(0, 1, PARTS + 1))[::-1][1:]:
        chosen = scores >= border
        shares.append(float(chosen.mean()))
        accuracies.append(float(np.where(chosen, strong_right, weak_right).mean()))
    pgr = (np.array(accuracies) - weak) / (strong - weak)
    return Judged(float(np.trapezoid(pgr, shares)), _share_at(0.5, pgr, shares), _share_at(0.8, pgr, shares))


def _share_at(wanted: float, pgr: Floats, shares: list[float]) -> float:
    """The share of strong calls, in percent, at which a PGR is reached, by linear interpolation."""
    for at in range(1, len(shares)):
        if pgr[at] >= wanted:
            before, step = pgr[at - 1], pgr[at] - pgr[at - 1]
            part = (wanted - before) / step if step else 1.0
            return 100 * (shares[at - 1] + part * (shares[at] - shares[at - 1]))
    return 100.0
