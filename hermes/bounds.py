"""How sure a share can be that was counted: exact bounds of Clopper and Pearson, in plain Python.

Serving needs them without scipy, which takes 100 MB to load. A bound is the quantile of a beta distribution, found by
halving; the distribution is the continued fraction of Lentz.

Source: Press et al., Numerical Recipes, 6.4; Clopper and Pearson 1934.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p, sqrt
from typing import Final, NamedTuple

DELTA: Final = 0.05
"""What is claimed is wrong in so many of all cases at most."""

HALVINGS: Final = 45
TERMS: Final = 300
TINY: Final = 1e-300
ENOUGH: Final = 1e-14


class Interval(NamedTuple):
    """From where to where a share may reasonably be, 0..1."""

    lower: float
    upper: float


def lower_bound(right: float, of: float, delta: float = DELTA) -> float:
    """The least share that `right` of `of` are compatible with, at a confidence of 1 - delta; one-sided. The counts
    may be fractions, where they are sums of weights.

    >>> round(lower_bound(59, 59), 4), round(lower_bound(58, 59), 4), lower_bound(0, 10)
    (0.9505, 0.9221, 0.0)
    """
    if right <= 0 or of <= 0:
        return 0.0
    return _quantile(delta, right, of - right + 1)


def upper_bound(right: float, of: float, delta: float = DELTA) -> float:
    """The largest such share."""
    return 1 - lower_bound(of - right, of, delta)


def interval(right: float, of: float, delta: float = DELTA) -> Interval:
    """Both bounds, together at a confidence of 1 - delta."""
    return Interval(lower_bound(right, of, delta / 2), upper_bound(right, of, delta / 2))


def ceiling(same: float) -> float:
    """The most that anybody can agree with a judge who, asked twice, says the same in this share of cases.

    Where the judge errs with the probability e, two answers are the same with 1 - 2e(1 - e), and one who never errs
    agrees with it in 1 - e. Where some cases are harder than others, less can be reached, never more.

    >>> ceiling(1.0), round(ceiling(0.9), 3), ceiling(0.4)
    (1.0, 0.947, 0.5)
    """
    return (1 + sqrt(max(2 * same - 1, 0.0))) / 2


def _quantile(share: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if beta_share(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return low


def beta_share(x: float, a: float, b: float) -> float:
    """The distribution function of the beta distribution at x."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, TERMS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + factor * d)
            c = _away_from_zero(1 + factor / c)
            value *= c * d
        if abs(c * d - 1) < ENOUGH:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY
