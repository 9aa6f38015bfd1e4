"""From out-of-fold scores to a calibrated probability, and to the two thresholds that are applied to it.

Every score used here was given by a model that had not seen the text, nor another text of its family.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

COMPLEX_MISTAKE_COST = 1.5
"""A complex task on the small model costs quality and a retry; a simple one on the large model costs a fraction of a
cent.
"""

ACCEPTED_SHARE_RIGHT = 0.98
"""Of what is decided without a teacher, so much must be right, of each tier."""

CUTS = [hundredths / 100 for hundredths in range(25, 80, 5)]
ACCEPTANCES = [hundredths / 100 for hundredths in range(50, 100)]


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Platt's: a probability of a score."""

    slope: float
    offset: float

    def __call__(self, scores: Floats) -> Floats:
        """Shape as given; 0..1."""
        probabilities: Floats = 1 / (1 + np.exp(-(self.slope * scores + self.offset)))
        return probabilities


@dataclass(frozen=True, slots=True)
class Quality:
    """What out-of-fold verdicts are worth; shares are of weights, so that each source counts."""

    accuracy: float
    complex_to_simple: float
    simple_to_complex: float
    accepted: float
    accepted_right: float


def calibrate(scores: Floats, is_complex: Bools, weights: Floats) -> Sigmoid:
    """Fits the sigmoid to labels."""
    fitted = LogisticRegression(C=1e6).fit(scores[:, None], is_complex, sample_weight=weights)
    return Sigmoid(float(fitted.coef_[0, 0]), float(fitted.intercept_[0]))


def choose_cut(p_complex: Floats, is_complex: Bools, weights: Floats) -> float:
    """The probability from which the verdict is *complex*: where mistakes cost least."""

    def cost(cut: float) -> float:
        quality = measure(p_complex, is_complex, weights, cut, 1.0)
        return COMPLEX_MISTAKE_COST * quality.complex_to_simple + quality.simple_to_complex

    return min(CUTS, key=cost)


def choose_acceptance(p_complex: Floats, is_complex: Bools, weights: Floats, cut: float) -> float:
    """The least confidence from which verdicts of either tier are right often enough."""
    for acceptance in ACCEPTANCES:
        shares = [_share_right(p_complex, is_complex, weights, cut, acceptance, tier) for tier in (True, False)]
        if min(shares) >= ACCEPTED_SHARE_RIGHT:
            return acceptance
    return 1.0


def measure(p_complex: Floats, is_complex: Bools, weights: Floats, cut: float, acceptance: float) -> Quality:
    """The quality of verdicts under given thresholds."""
    verdict = p_complex >= cut
    right = verdict == is_complex
    accepted = _confidence(p_complex, verdict) >= acceptance
    return Quality(
        accuracy=_share(right, weights),
        complex_to_simple=_share(~verdict[is_complex], weights[is_complex]),
        simple_to_complex=_share(verdict[~is_complex], weights[~is_complex]),
        accepted=_share(accepted, weights),
        accepted_right=_share(right[accepted], weights[accepted]),
    )


def _share_right(
    p_complex: Floats, is_complex: Bools, weights: Floats, cut: float, acceptance: float, tier: bool
) -> float:
    verdict = p_complex >= cut
    chosen = (verdict == tier) & (_confidence(p_complex, verdict) >= acceptance)
    return _share((verdict == is_complex)[chosen], weights[chosen])


def _confidence(p_complex: Floats, verdict: Bools) -> Floats:
    confidence: Floats = np.where(verdict, p_complex, 1 - p_complex)
    return confidence


def _share(true: Bools, weights: Floats) -> float:
    """0 where there is nothing."""
    return float(np.average(true, weights=weights)) if len(true) and weights.sum() > 0 else 0.0
