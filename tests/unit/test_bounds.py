"""The bounds are those of Clopper and Pearson, as scipy computes them."""

from __future__ import annotations

import pytest
from scipy.stats import beta

from hermes.bounds import interval, lower_bound, upper_bound

CASES = [(1, 1), (59, 59), (58, 59), (950, 1000), (4_900, 5_000), (19_000, 20_000), (1, 5_000), (7.5, 12.25)]


@pytest.mark.parametrize(("right", "of"), CASES)
@pytest.mark.parametrize("delta", [0.05, 0.05 / 3, 0.001])
def test_a_bound_is_the_exact_one(right: float, of: float, delta: float) -> None:
    assert lower_bound(right, of, delta) == pytest.approx(beta.ppf(delta, right, of - right + 1), abs=1e-9)
    expected = 1.0 if right == of else beta.ppf(1 - delta, right + 1, of - right)
    assert upper_bound(right, of, delta) == pytest.approx(expected, abs=1e-9)


def test_an_interval_has_both_bounds_at_half_the_risk_each() -> None:
    assert interval(95, 100) == (lower_bound(95, 100, 0.025), upper_bound(95, 100, 0.025))
    assert interval(0, 0) == (0.0, 1.0)
