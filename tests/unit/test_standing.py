"""A surrogate is trusted as far as its evidence and its audits go: raised when it must be, out when it has drifted."""

from __future__ import annotations

import random

import pytest

from hermes.routing.standing import LEAST_AUDITS, NOTHING, Judged, Point, Standing, assurance, evidence, threshold

CERTIFIED = [Point(0.8, 600, 590), Point(0.9, 400, 398), Point(0.95, 200, 200)]


def standing_after(audits: list[tuple[float, bool]], points: list[Point] = CERTIFIED, target: float = 0.95) -> Standing:
    standing = Standing(points, target)
    for at, agrees in audits:
        standing.take(Judged(at, agrees))
    return standing


def test_a_surrogate_that_agrees_stays_as_it_is() -> None:
    standing = standing_after([(0.85, True)] * 500)

    assert (standing.level, standing.is_raised) == (0.8, False)
    assert (standing.audited, standing.agreed) == (500, 500)


def test_the_level_is_raised_to_the_least_one_that_keeps_the_target() -> None:
    """Every sixth verdict between the first two levels is wrong; above the second they are right."""
    audits = [audit for number in range(60) for audit in ((0.85, number % 6 != 0), (0.97, True), (0.92, True))]

    standing = standing_after(audits[:150], points=[Point(0.8, 50, 49), Point(0.9, 400, 398)])

    assert standing.level == 0.9
    assert standing.is_raised
    assert not standing.has_drifted
    assert standing.audited == standing.agreed == 100


def test_where_no_level_keeps_the_target_nothing_is_accepted() -> None:
    audits = [(0.99, number % 8 != 0) for number in range(400)]

    standing = standing_after(audits, points=[Point(0.8, 60, 60)])

    assert standing.level == NOTHING
    assert standing.is_raised
    assert 0 < standing.agreed < standing.audited


def test_old_evidence_does_not_hide_that_traffic_has_drifted() -> None:
    """A certificate from 20,000 texts would carry the bound for long; the bet notices within some dozens."""
    standing = Standing([Point(0.8, 20_000, 19_800)], 0.95)
    chance = random.Random(3)

    taken = 0
    while not standing.has_drifted and taken < 200:
        standing.take(Judged(0.9, chance.random() < 0.6))
        taken += 1

    assert standing.has_drifted
    assert standing.level == NOTHING
    assert taken < 40


def test_a_surrogate_that_keeps_its_target_is_seldom_taken_for_drifted() -> None:
    """The bet is wrong in one life of twenty at most, even at the target exactly and however long one looks."""
    chance = random.Random(5)
    alarms = 0
    for _ in range(100):
        standing = Standing([Point(0.8, 10**5, 10**5)], 0.95)
        for _ in range(400):
            standing.take(Judged(0.9, chance.random() < 0.95))
        alarms += standing.has_drifted

    assert alarms <= 8


def test_a_few_early_disagreements_conclude_nothing() -> None:
    standing = standing_after([(0.9, False), (0.9, True), (0.9, False)], points=[Point(0.8, 59, 59)])

    assert standing.level == 0.8
    assert standing.audited < LEAST_AUDITS


def test_when_there_are_enough_early_disagreements_count() -> None:
    """The one that makes them enough need not be a disagreement itself."""
    audits = [(0.9, number not in (5, 15, 25)) for number in range(LEAST_AUDITS)]

    assert standing_after(audits[:-1], points=[Point(0.8, 59, 59)]).level == 0.8
    assert standing_after(audits, points=[Point(0.8, 59, 59)]).level == NOTHING


def test_what_was_decided_under_a_lower_level_does_not_count() -> None:
    standing = standing_after([(0.5, False)] * 100)

    assert (standing.audited, standing.level) == (0, 0.8)


@pytest.mark.parametrize("tier", ["simple", "complex"])
@pytest.mark.parametrize("level", [0.6, 0.85, 0.99, NOTHING])
def test_a_threshold_is_the_confidence_of_a_level(tier: str, level: float) -> None:
    assert assurance(tier, threshold(tier, level, 1.5), 1.5) == pytest.approx(level)


def test_nothing_is_a_level_that_no_verdict_reaches() -> None:
    assert threshold("simple", NOTHING, 1.0) > 1
    assert threshold("complex", NOTHING, 1.0) > 1
    assert threshold("simple", NOTHING, 100.0) > 1


def test_what_was_cross_validated_elsewhere_counts_a_little() -> None:
    manifest = {"thresholds": {"accept": 0.86}, "cross_validation": {"accepted_right": 0.98}}

    assert evidence(manifest, 0.86) == (Point(0.86, 200, 196),)


def test_a_certificate_is_the_evidence() -> None:
    manifest = {"thresholds": {"accept": 0.8}, "certificate": {"points": [[0.8, 60, 60], [0.9, 40, 40]]}}

    assert evidence(manifest, 0.8) == (Point(0.8, 60, 60), Point(0.9, 40, 40))


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_any_target_that_can_be_configured_can_be_watched(target: float) -> None:
    standing = standing_after([(0.9, number % 2 == 0) for number in range(100)], target=target)

    assert standing.is_raised == (target == 1.0)
