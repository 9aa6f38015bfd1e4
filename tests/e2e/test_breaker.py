"""An endpoint that fails again and again is left alone for a while, then tried by exactly one request."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from . import replies
from .client import Answer
from .gateway import Gateway, eventually
from .replies import Reply, answer, broken_stream, error
from .world import World

RECOVERY_S = 0.5


def state(gateway: Gateway, model: str = "primary-model") -> str:
    return str(gateway.circuits()[model]["state"])


def open_the_primarys(world: World) -> None:
    world.primary.script(error(500))
    for _ in range(3):
        assert world.gateway.chat().status == 200
    assert state(world.gateway) == "open"


def wait_for_recovery(world: World, model: str = "primary-model") -> None:
    eventually(lambda: world.gateway.circuits()[model]["retry_in_sec"], lambda left: not left)
    time.sleep(0.05)


def test_every_endpoint_is_listed_from_the_start(world: World) -> None:
    circuits = world.gateway.circuits()

    assert set(circuits) == {"primary-model", "fallback-model", "lone-model"}
    wanted = {"endpoint", "base_url", "model", "state", "failures", "opened_at", "retry_in_sec"}
    assert all(set(entry) >= wanted for entry in circuits.values())
    assert circuits["lone-model"]["base_url"] == world.lone.base_url
    assert [entry["state"] for entry in circuits.values()] == ["closed"] * 3


@pytest.mark.parametrize(
    ("reply", "stream"),
    [
        pytest.param(error(500), False, id="500"),
        pytest.param(error(503), True, id="503"),
        pytest.param(replies.raw(b"", end="rst"), False, id="resets"),
        pytest.param(answer(200, "<html>"), False, id="pages"),
        pytest.param(broken_stream("a"), True, id="broken streams"),
    ],
)
def test_failures_in_a_row_open_it(world: World, reply: Reply, stream: bool) -> None:
    world.configure(circuit_breaker={"failure_threshold": 3, "recovery_timeout_sec": 30})
    world.lone.script(reply)
    for _ in range(3):
        world.gateway.chat(tier="complex", stream=stream)
    calls = len(world.lone.calls)

    got = world.gateway.chat(tier="complex", stream=stream)

    assert state(world.gateway, "lone-model") == "open"
    assert len(world.lone.calls) == calls == 3
    assert (got.status, got.problem) == (503, None)
    assert 1 <= int(got.headers["retry-after"]) <= 31
    assert got.error["type"] == "upstream_error"
    assert world.gateway.admin("GET", "/health/ready").status == 200, "two endpoints are still closed"
    changes = [(t["old_state"], t["new_state"]) for t in world.gateway.traces(event="circuit", model="lone-model")]
    assert changes[-1] == ("closed", "open")


def test_a_429_of_the_last_key_is_a_failure_as_well(world: World) -> None:
    world.configure(circuit_breaker={"failure_threshold": 1}, complex=[world.endpoint(world.lone, keys=2)])
    world.lone.script(error(429))

    world.gateway.chat(tier="complex")

    assert len(world.lone.calls) == 2
    assert state(world.gateway, "lone-model") == "open"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([error(400)], id="400"),
        pytest.param([error(422)], id="422"),
        pytest.param([error(500), error(500), replies.chat()], id="a success between failures"),
    ],
)
def test_what_is_no_sign_of_illness_leaves_it_closed(world: World, script: list[Reply]) -> None:
    world.primary.script(*script * 3)

    for _ in range(9):
        world.gateway.chat()

    assert state(world.gateway) == "closed"
    assert len(world.primary.calls) == 9


def test_while_it_is_open_the_fallback_is_asked_at_once(world: World) -> None:
    open_the_primarys(world)

    got = world.gateway.chat()

    assert (got.status, got.headers["x-hermes-fallback-level"]) == (200, "1")
    assert len(world.primary.calls) == 3


def test_one_probe_among_twenty_requests_closes_it(world: World) -> None:
    open_the_primarys(world)
    world.primary.script(answer(200, replies.completion("well again"), after_s=0.4))
    wait_for_recovery(world)

    answers = together(20, lambda: world.gateway.chat())

    assert len(world.primary.calls) == 1
    assert sorted(got.headers["x-hermes-fallback-level"] for got in answers) == ["0"] + ["1"] * 19
    assert state(world.gateway) == "closed"
    assert world.gateway.chat().headers["x-hermes-fallback-level"] == "0"


def test_a_probe_that_fails_opens_it_again(world: World) -> None:
    open_the_primarys(world)
    wait_for_recovery(world)

    assert world.gateway.chat().headers["x-hermes-fallback-level"] == "1"

    assert len(world.primary.calls) == 4
    assert state(world.gateway) == "open"
    assert world.gateway.chat().status == 200
    assert len(world.primary.calls) == 4


@pytest.mark.parametrize("how", ["the caller's own mistake", "the caller leaves"])
def test_a_probe_that_decides_nothing_lets_the_next_one_pass(world: World, how: str) -> None:
    open_the_primarys(world)
    world.primary.script(error(400) if how == "the caller's own mistake" else replies.silence(), replies.chat("well"))
    wait_for_recovery(world)
    exchange = world.gateway.open_chat()
    eventually(lambda: world.primary.calls, bool)
    if how == "the caller leaves":
        exchange.vanish()
        eventually(lambda: world.primary.calls_under_way, lambda number: number == 0)
    else:
        assert exchange.read_all().status == 400

    got = eventually(world.gateway.chat, lambda got: got.headers["x-hermes-fallback-level"] == "0")

    assert got.text == "well"
    assert state(world.gateway) == "closed"


def test_when_all_are_open_the_callers_are_told_at_once(world: World) -> None:
    world.configure(circuit_breaker={"failure_threshold": 1, "recovery_timeout_sec": 30, "window_sec": 60})
    world.lone.script(error(500))
    world.gateway.chat(tier="complex")

    plain, stream = (world.gateway.chat(tier="complex", stream=stream) for stream in (False, True))

    assert (plain.status, stream.status) == (503, 503)
    assert plain.took_s < 0.3
    assert len(world.lone.calls) == 1
    assert [attempt["status"] for attempt in plain.error["attempts"]] == [None]
    assert world.gateway.row(plain)["attempts"] == 0


def together(number: int, work: Callable[[], Answer]) -> list[Answer]:
    with ThreadPoolExecutor(number) as pool:
        return [future.result() for future in [pool.submit(work) for _ in range(number)]]
