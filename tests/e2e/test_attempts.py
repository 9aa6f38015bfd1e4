"""How often an endpoint is asked: again when nothing was sent or it is busy, never where that might be paid twice."""

from __future__ import annotations

import itertools
import threading

import pytest

from . import replies
from .gateway import eventually
from .replies import error, raw
from .world import World


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_refused_connection_is_tried_again_and_then_the_fallback_answers(world: World, stream: bool) -> None:
    world.primary.refuse()
    world.fallback.script(replies.stream("from fallback") if stream else replies.chat("from fallback"))

    got = world.gateway.chat(stream=stream)

    assert got.text == "from fallback"
    assert 0.1 <= got.took_s < 1.0, "three attempts, 50 ms apart"


def test_a_provider_that_is_back_in_a_moment_still_answers(world: World) -> None:
    world.configure(retry={"transport_attempts": 3, "transport_backoff_sec": 0.4})
    world.primary.refuse()
    threading.Timer(0.2, world.primary.accept).start()

    got = world.gateway.chat()

    assert (got.status, got.headers["x-hermes-fallback-level"]) == (200, "0")
    assert world.calls() == ["primary"]


def test_a_connection_reset_at_once_costs_no_more_than_the_attempts_allowed(world: World) -> None:
    world.lone.resets_on_accept = True

    got = world.gateway.chat(tier="complex")

    assert got.status == 502
    assert got.error["attempts"][-1]["status"] is None


def test_one_request_never_makes_more_than_ten_calls(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, model=f"m{number}") for number in range(5)])
    world.primary.script(error(503))

    got = world.gateway.chat()

    assert got.status == 502
    assert 5 <= len(world.primary.calls) <= 10
    assert world.gateway.row(got)["attempts"] == len(world.primary.calls)


def test_connections_are_kept_and_tested_before_they_are_used_again(world: World) -> None:
    """A provider closes idle connections when it likes; that must cost neither an answer nor a second call."""
    assert [world.gateway.chat().status for _ in range(2)] == [200, 200]
    world.primary.close_idle()
    eventually(lambda: world.primary.open_connections, lambda number: number == 0)

    last = world.gateway.chat()

    assert (last.status, last.headers["x-hermes-fallback-level"]) == (200, "0")
    first, second, third = (call.connection for call in world.primary.calls)
    assert first == second != third


def test_a_kept_connection_that_dies_under_a_request_is_no_reason_to_send_it_twice(world: World) -> None:
    world.primary.script(replies.chat(), raw(b"", end="rst"), replies.chat("a second generation"))
    world.fallback.script(replies.chat("from fallback"))
    world.gateway.chat()

    got = world.gateway.chat()

    assert got.text == "from fallback"
    assert world.calls() == ["primary", "primary", "fallback"]


def test_a_503_is_tried_again_and_may_succeed(world: World) -> None:
    world.primary.script(error(503), error(503), replies.chat("at last"))

    got = world.gateway.chat()

    assert (got.text, got.headers["x-hermes-fallback-level"]) == ("at last", "0")
    gaps_s = [later.at - earlier.at for earlier, later in itertools.pairwise(world.primary.calls)]
    assert gaps_s[0] >= 0.05
    assert gaps_s[1] >= 0.1


def test_a_503_that_names_a_shorter_wait_is_believed(world: World) -> None:
    world.configure(retry={"backoff_503_sec": [20, 20, 20]})
    world.primary.script(error(503, headers={"Retry-After": "0"}), replies.chat("at once"))

    got = world.gateway.chat(headers={"X-Request-Timeout": "30"})

    assert got.text == "at once"
    assert got.took_s < 2
