"""A crowd: as many requests are let in as can be answered, the others are told at once when to come again."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from hermes.admission import crowd as bounds
from hermes.admission.crowd import Crowd
from hermes.errors import Overloaded
from hermes.web.completions import HotRoutes


class World:
    """A crowd with a clock and requests under way of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.in_flight = bounds.FEW
        self.told = 0
        self.crowd = Crowd(lambda: self.in_flight, self.tell, rng=random.Random(1), clock=lambda: self.now)

    def tell(self, requests: int) -> None:
        self.told += requests

    def let_in(self, asked: int) -> int:
        """How many of so many at once are let in."""
        passed = 0
        for _ in range(asked):
            try:
                self.crowd.let_in()
            except Overloaded:
                continue
            passed += 1
        return passed


@pytest.fixture
def world() -> World:
    return World()


def test_a_burst_out_of_nothing_is_no_crowd(world: World) -> None:
    assert world.let_in(int(bounds.BURST)) == bounds.BURST


def test_a_few_who_wait_for_their_answers_are_no_crowd_however_often_they_ask(world: World) -> None:
    """Two hundred agents whose provider answers at once begin far more than a round lets in."""
    world.let_in(10_000)
    world.in_flight = bounds.FEW - 1

    for late_s in (0.0, 0.3, bounds.FEW_LATE_S):
        world.crowd.come_round(late_s)
        assert world.let_in(1000) == 1000
    world.crowd.come_round(2 * bounds.FEW_LATE_S)
    assert world.let_in(1000) < 50
    assert not world.crowd._room > bounds.A_ROUND, "they use up what others may begin"


def test_in_a_crowd_each_round_lets_in_what_a_round_can_do(world: World) -> None:
    world.let_in(10_000)

    for _ in range(5):
        world.crowd.come_round(0.1)
        assert world.let_in(10_000) == bounds.A_ROUND


def test_more_than_any_machine_can_do_passes_in_short_rounds() -> None:
    assert bounds.A_ROUND / bounds.ROUND_S >= 5000, "requests a second"


def test_what_is_not_used_is_saved_up_for_the_next_burst(world: World) -> None:
    world.let_in(10_000)

    for _ in range(100):
        world.crowd.come_round(0.0)

    assert world.let_in(10_000) == bounds.BURST


def test_a_loop_that_is_late_with_other_work_begins_fewer_and_always_some(world: World) -> None:
    world.let_in(10_000)

    begun = []
    for late_s in (0.5, 1.0, 5.0, 500.0):
        world.crowd.come_round(late_s)
        begun.append(world.let_in(10_000))

    assert begun == [25, 12, 4, 4]


def test_one_process_has_so_many_under_way_at_most(world: World) -> None:
    world.in_flight = bounds.MOST_AT_ONCE

    assert world.let_in(1) == 0


def test_who_is_turned_away_is_told_when_to_come_again(world: World) -> None:
    world.in_flight = bounds.MOST_AT_ONCE
    waits = set()
    for _ in range(50):
        with pytest.raises(Overloaded) as refused:
            world.crowd.let_in()
        waits.add(round(refused.value.retry_after_s or 0))

    assert waits == {1, 2, 3, 4}, "not all of them at the same time"
    world.crowd.come_round(0.0)
    assert world.told == 50


def test_what_nobody_waits_for_is_put_off_first_and_longest(world: World) -> None:
    world.crowd.let_in_later()
    world.let_in(10_000)

    world.crowd.come_round(0.0)
    assert world.let_in(1) == 1
    with pytest.raises(Overloaded):
        world.crowd.let_in_later()
    world.now += bounds.PUT_OFF_S
    world.crowd.let_in_later()


def test_a_round_begins_so_many_and_the_others_wait_in_their_order(world: World) -> None:
    begun: list[int] = []
    numbers = itertools.count()

    def ask() -> None:
        number = next(numbers)
        world.crowd.wait_for_turn()
        begun.append(number)

    a_round = int(bounds.A_ROUND)
    greenlets = [gevent.spawn(ask) for _ in range(2 * a_round)]
    gevent.idle()
    assert begun == list(range(a_round))

    world.crowd.come_round(0.0)
    late = gevent.spawn(ask)
    gevent.idle()
    assert begun == list(range(2 * a_round))

    world.crowd.come_round(0.0)
    gevent.joinall([*greenlets, late], timeout=10, raise_error=True)
    assert begun == list(range(2 * a_round + 1))


def test_nobody_who_comes_later_is_before_those_who_wait(world: World) -> None:
    begun: list[str] = []

    def ask(name: str) -> None:
        world.crowd.wait_for_turn()
        begun.append(name)

    for _ in range(int(bounds.A_ROUND)):
        world.crowd.wait_for_turn()
    early = [gevent.spawn(ask, "early") for _ in range(int(bounds.A_ROUND) + 1)]
    gevent.idle()
    world.crowd.come_round(0.0)
    late = gevent.spawn(ask, "late")
    gevent.idle()
    assert begun == ["early"] * int(bounds.A_ROUND)

    world.crowd.come_round(0.0)
    gevent.joinall([*early, late], timeout=10, raise_error=True)
    assert begun[-2:] == ["early", "late"]


def test_who_waits_too_long_for_a_turn_is_told_to_come_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those let in waited for 10 to 20 s behind a flood of refusals, some until their time was over."""
    monkeypatch.setattr(bounds, "TURN_WAIT_S", 0.02)
    for _ in range(int(bounds.A_ROUND)):
        world.crowd.wait_for_turn()

    with pytest.raises(Overloaded):
        world.crowd.wait_for_turn()

    assert world.crowd.is_crowded()
    world.crowd.come_round(0.0)
    world.crowd.wait_for_turn()  # nobody is before it any more


def test_who_waits_for_a_turn_is_one_of_those_under_way(world: World) -> None:
    world.let_in(10_000)
    world.in_flight = 0
    waiting = [gevent.spawn(world.crowd.wait_for_turn) for _ in range(bounds.FEW + 60)]
    gevent.idle()

    world.crowd.come_round(0.0)

    assert world.let_in(1) == 0, "a burst gets no longer while it waits"
    gevent.idle()
    world.crowd.come_round(0.0)
    assert world.let_in(1) == 1
    gevent.killall(waiting)
    assert world.let_in(1000) == 1000, "who has left waits no more"


@pytest.fixture
def full() -> Iterator[HotRoutes]:
    """The hot routes of a Hermes that has no room, whose gateway nobody may reach."""

    def nobody(*_: Any) -> Any:
        raise AssertionError("it was let in")

    gateway = SimpleNamespace(chat=nobody, complete=nobody, embed=nobody)
    crowd = Crowd(lambda: bounds.MOST_AT_ONCE)
    return HotRoutes(nobody, SimpleNamespace(gateway=gateway, crowd=crowd))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/completions/stream", "/v1/embeddings"]
)
def test_nothing_of_a_refused_request_is_read(full: HotRoutes, path: str) -> None:
    answer: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]]) -> None:
        answer.update(status=status, headers=dict(headers))

    body = b"".join(full({"REQUEST_METHOD": "POST", "PATH_INFO": path}, start_response))

    assert answer["status"].startswith("503 ")
    assert 1 <= int(answer["headers"]["Retry-After"]) <= 4
    assert "x-should-retry" not in answer["headers"]
    assert json.loads(body)["error"]["code"] == "overloaded"
