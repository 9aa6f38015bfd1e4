"""What is certified holds: on scores that were not fitted, and however sure a hopeless classifier is of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hermes.bounds import lower_bound
from hermes.learning.acceptor import Look, Looks, certify


def traffic(n: int, chance: np.random.Generator, skill: float = 1.0) -> tuple[Any, Any]:
    """Assurances, and whether the verdicts are right: the surer, the likelier, as far as there is skill."""
    assurance = chance.uniform(0.5, 1.0, n)
    p_right = skill * (1 - (1 - assurance) ** 1.5) + (1 - skill) * 0.8
    return assurance, chance.uniform(size=n) < p_right


def certified(n: int, seed: int = 0, skill: float = 1.0, target: float = 0.95) -> Any:
    assurance, right = traffic(n, np.random.default_rng(seed), skill)
    return certify(Looks(np.ones(n), Look(assurance, right)), target)


def test_more_traffic_certifies_more_coverage() -> None:
    coverages = [found.coverage if (found := certified(n)) else 0.0 for n in (40, 1_000, 20_000)]

    assert coverages[0] == 0.0
    assert 0.0 < coverages[1] < coverages[2]


def test_the_guarantee_holds_in_at_least_95_of_100_fits() -> None:
    """Two hundred installations of 600 texts each; the truth is measured on 100,000 others."""
    chance = np.random.default_rng(1)
    assurance, right = traffic(100_000, chance)
    broken = 0
    for seed in range(200):
        found = certified(600, seed=seed + 10)
        broken += found is not None and right[assurance >= found.level].mean() < 0.95

    assert broken <= 10


def test_a_classifier_without_skill_is_given_nothing() -> None:
    assert certified(5_000, skill=0.0) is None


def test_the_numbers_of_a_certificate_are_those_of_its_rows() -> None:
    assurance, right = traffic(2_000, np.random.default_rng(7))
    found = certify(Looks(np.ones(2_000), Look(assurance, right)), 0.95)

    assert found is not None
    accepted = assurance >= found.level
    assert found.coverage == pytest.approx(accepted.mean())
    assert found.agreement == pytest.approx(right[accepted].mean())
    assert found.lower == pytest.approx(lower_bound(right[accepted].sum(), accepted.sum(), 0.05 / 3))
    assert found.lower >= 0.95
    assert [point.level for point in found.points] == sorted({point.level for point in found.points})
    assert found.points[0].level == found.level


def test_rows_that_stand_for_many_are_not_taken_for_many() -> None:
    """A hundred audits at 1 % are a hundred texts, not ten thousand."""
    assurance, right = traffic(100, np.random.default_rng(3))
    once = Looks(np.ones(100), Look(assurance, right))
    weighted = Looks(np.full(100, 100.0), Look(assurance, right))

    assert weighted.point(0.6) == pytest.approx(once.point(0.6))


def test_uneven_weights_count_as_fewer_texts() -> None:
    weights = np.array([1.0] * 50 + [20.0] * 5)
    looks = Looks(weights, Look(np.ones(55), np.ones(55, np.bool_)))

    assert looks.point(0.5).texts == pytest.approx(150**2 / (50 + 5 * 400))


def test_the_second_look_decides_what_the_first_is_not_sure_of() -> None:
    first = Look(np.array([0.9, 0.6, 0.6]), np.array([True, False, False]))
    second = Look(np.array([0.5, 0.95, 0.5]), np.array([False, True, True]))

    accepted, right = Looks(np.ones(3), first, second).decided(0.8)

    assert accepted.tolist() == [True, True, False]
    assert right[accepted].tolist() == [True, True]


def test_equal_scores_stay_together() -> None:
    looks = Looks(np.ones(10), Look(np.full(10, 0.7), np.ones(10, np.bool_)))

    assert {round(looks.point(level).texts, 6) for level in looks.levels()} == {10.0}
