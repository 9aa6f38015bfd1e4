"""Audits are a share of the traffic, and on quiet days enough to notice a change."""

from __future__ import annotations

import random

import pytest

from hermes.routing.audit import UNDOUBTED, Auditor
from hermes.routing.sampling import DAY_S, LEAST_A_DAY, MOST, Sampling


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def drawn(a_day: int, days: int, rate: float = 0.03, least: float = LEAST_A_DAY) -> list[float]:
    """The shares of those who are drawn, on the last day of evenly spread traffic."""
    clock = Clock()
    sampling = Sampling(random.Random(1), least, clock)
    found: list[float] = []
    for number in range(a_day * days):
        clock.now += DAY_S / a_day
        share = sampling.draws(rate)
        if share and number >= a_day * (days - 1):
            found.append(share)
    return found


def test_much_traffic_is_audited_at_the_operators_share() -> None:
    found = drawn(10_000, 2)

    assert set(found) == {0.03}
    assert len(found) == pytest.approx(300, abs=60)


def test_on_quiet_days_there_are_some_fifty() -> None:
    found = drawn(400, 5)

    assert len(found) == pytest.approx(LEAST_A_DAY, abs=20)
    assert min(found) > 0.1, "each is kept with its share, so that it stands for those who were not drawn"


def test_every_second_one_at_most() -> None:
    assert set(drawn(30, 5)) == {MOST}


def test_several_workers_share_the_fifty() -> None:
    assert len(drawn(400, 5, least=LEAST_A_DAY / 4)) < 25


def test_a_process_that_has_just_begun_audits_what_the_operator_said() -> None:
    sampling = Sampling(random.Random(1), clock=Clock())

    assert {sampling.draws(0.2) for _ in range(100)} == {0.0, 0.2}


def test_switched_off_is_off() -> None:
    assert not any(drawn(30, 5, rate=0.0))


def test_the_teacher_is_asked_again_in_one_case_of_fifty_and_not_in_the_first_minutes() -> None:
    auditor = Auditor(None, None, random.Random(1))  # type: ignore[arg-type]  # neither is asked here

    assert not any(auditor.doubts(0.5) for _ in range(UNDOUBTED))
    assert sum(bool(auditor.doubts(0.5)) for _ in range(10_000)) == pytest.approx(200, abs=50)
    assert not any(auditor.doubts(0.0) for _ in range(1000))
