"""A wall clock that is put forward or back while the server runs changes nothing but the dates of what is written."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .dashboard import signed_in
from .gateway import eventually, new_user
from .inside import WallClock
from .load import Load
from .replies import answer, chat, error, stream
from .world import World

HOUR_S = 3600.0
STEPS = [pytest.param(HOUR_S, id="an hour forward"), pytest.param(-HOUR_S, id="an hour back")]
WORDS = [f"t{number} " for number in range(6)]


@pytest.fixture(scope="module")
def clock() -> Iterator[WallClock]:
    clock = WallClock()
    yield clock
    clock.close()


@pytest.fixture(scope="module")
def running_world(clock: WallClock) -> Iterator[World]:
    """One whose wall clock can be moved."""
    world = World({"limits": {"per_user": {"concurrent": 1}}}, clock.env)
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs


@pytest.fixture(autouse=True)
def right_time(clock: WallClock) -> None:
    clock.move(0)


def test_the_server_goes_by_the_clock_that_is_moved(world: World, clock: WallClock) -> None:
    """Else nothing here would mean anything."""
    clock.move(-40 * 86_400)

    row = world.gateway.row(world.gateway.chat())

    assert row["created_at"] < time.strftime("%Y-%m-%d", time.gmtime(time.time() - 39 * 86_400))


@pytest.mark.parametrize("step_s", STEPS)
def test_what_is_under_way_ends_as_it_would_have(world: World, clock: WallClock, step_s: float) -> None:
    """A stream goes on, an endpoint that is silent has its time and no more, a caller's only place is free again."""
    user = new_user()
    world.primary.script(stream(*WORDS, every_s=0.1))
    flowing = world.gateway.open_chat(stream=True, user=user)
    flowing.read_until(b"t0")

    clock.move(step_s)

    got = flowing.read_all()
    assert (got.text, got.done_count, got.problem) == ("".join(WORDS), 1, None)
    world.primary.script(answer(200, after_s=30))
    waiting = world.gateway.open_chat(user=user)
    eventually(lambda: world.primary.calls_under_way, lambda number: number == 1)
    clock.move(0)
    late = waiting.read_all()
    assert (late.status, world.calls()[-1]) == (200, "fallback")
    assert late.took_s < 10, "the time of one attempt"
    rows = [world.gateway.row(found) for found in (got, late)]
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert [0 < row["duration_ms"] < 60_000 for row in rows] == [True, True]


def test_a_breaker_stays_shut_when_the_clock_is_put_forward(world: World, clock: WallClock) -> None:
    world.configure(circuit_breaker={"failure_threshold": 3, "recovery_timeout_sec": 120, "window_sec": 60})
    world.primary.script(error(500))
    for _ in range(3):
        world.gateway.chat()
    assert world.gateway.circuits()["primary-model"]["state"] == "open"
    asked = len(world.primary.calls)

    clock.move(HOUR_S)

    assert world.gateway.chat().status == 200
    assert len(world.primary.calls) == asked
    assert 0 < world.gateway.circuits()["primary-model"]["retry_in_sec"] <= 120


def test_a_breaker_is_tried_in_time_when_the_clock_is_put_back(world: World, clock: WallClock) -> None:
    world.primary.script(error(500))
    for _ in range(3):
        world.gateway.chat()
    assert world.gateway.circuits()["primary-model"]["state"] == "open"
    world.primary.script(chat())

    clock.move(-HOUR_S)

    def state() -> str:
        world.gateway.chat()
        return str(world.gateway.circuits()["primary-model"]["state"])

    assert eventually(state, lambda found: found == "closed") == "closed"


@pytest.mark.parametrize("step_s", STEPS)
def test_a_key_that_rests_goes_on_resting_for_what_it_was_told(world: World, clock: WallClock, step_s: float) -> None:
    world.configure(simple=[world.endpoint(world.primary)])
    world.primary.script(error(429, headers={"Retry-After": "90"}))
    world.gateway.chat()
    world.primary.script(chat())

    clock.move(step_s)
    refused = world.gateway.chat()

    assert (refused.status, world.primary.calls) == (502, [])
    assert 0 < int(refused.headers["retry-after"]) <= 90


@pytest.mark.parametrize("step_s", STEPS)
def test_nobody_is_signed_out_and_nobody_kept_out(world: World, clock: WallClock, step_s: float) -> None:
    gateway = world.gateway
    session = signed_in(gateway)

    clock.move(step_s)

    assert gateway.request("GET", "/dashboard/circuits", session).status == 200
    assert gateway.admin("GET", "/admin/usage").status == 200


def test_each_day_has_its_budget_once_however_often_midnight_comes(world: World, clock: WallClock) -> None:
    """Two days, a budget of two requests each, and a clock that goes to and fro between them."""
    user = new_user()
    world.configure(limits={"per_user": {"concurrent": 0}})
    put = {"scope": "user", "id": user, "period": "day", "limit_requests": 2}
    assert world.gateway.admin("PUT", "/admin/budgets", put).status == 200
    to_midnight_s = 86_400 - time.time() % 86_400
    evening_s, morning_s = to_midnight_s - 600, to_midnight_s + 600

    statuses = []
    for moved_s in (evening_s, morning_s, evening_s, morning_s, evening_s, morning_s):
        clock.move(moved_s)
        statuses.append(world.gateway.chat(user=user).status)

    assert statuses == [200, 200, 200, 200, 429, 429]
    assert [row["status"] for row in world.gateway.usage(6, user_id=user)].count("ok") == 4


def test_midnight_under_load_begins_one_new_day(world: World, clock: WallClock) -> None:
    """Every request counts in one day: as many pass as two days' budgets allow, and the rows say the same."""
    world.configure(limits={"per_user": {"concurrent": 0}})
    user, limit = new_user(), 60
    put = {"scope": "user", "id": user, "period": "day", "limit_requests": limit}
    assert world.gateway.admin("PUT", "/admin/budgets", put).status == 200
    to_midnight_s = 86_400 - time.time() % 86_400
    clock.move(to_midnight_s - 600)

    with Load(lambda _: world.gateway.chat(user=user), 8) as load:
        load.goes_on(20)
        clock.move(to_midnight_s + 600)
        eventually(lambda: passed(load), lambda number: number >= limit, 15)
        load.goes_on(60)

    midnight = time.strftime("%Y-%m-%dT00:00", time.gmtime(time.time() + to_midnight_s + 600))
    rows = world.gateway.usage(passed(load), user_id=user, status="ok", limit=1000)
    today = [row for row in rows if row["created_at"] >= midnight]
    assert load.faults == []
    assert {found.status for found in load.answers} == {200, 429}
    assert (len(rows), len(today)) == (passed(load), limit)
    (shown,) = [one for one in world.gateway.admin("GET", "/admin/budgets").json["budgets"] if one["id"] == user]
    assert shown["spent_requests"] == limit


def test_a_drain_has_its_time_whatever_the_clock_does(world: World, clock: WallClock) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(stream(*WORDS, every_s=0.4))
    flowing = world.gateway.open_chat(stream=True)
    flowing.read_until(b"t0")
    world.gateway.sigterm()
    flowing.read_until(b"t1")

    clock.move(HOUR_S)

    got = flowing.read_all()
    assert (got.text, got.done_count, got.problem) == ("".join(WORDS), 1, None)
    assert world.gateway.wait_exit() == 0
    world.gateway.spawn()


def passed(load: Load) -> int:
    return sum(found.status == 200 for found in load.answers)
