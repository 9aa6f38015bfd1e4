"""The log tells of every attempt that failed and of every fallback, in one line each, and of every request that nobody
could answer.
"""

from __future__ import annotations

import re

import pytest

from . import replies
from .client import Answer
from .replies import Reply, error
from .world import World

LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[router\] (?P<level>[A-Z]+) (?P<said>.*)$")


def said_of(world: World, before: str) -> list[tuple[str, str]]:
    """Level and text of every line since then."""
    new = world.gateway.logs().removeprefix(before).splitlines()
    found = [LINE.match(line) for line in new]
    assert all(found), new
    return [(match["level"], match["said"]) for match in found if match]


def warnings_of(world: World, tier: str, stream: bool) -> tuple[Answer, list[str]]:
    """A request, and the warnings it leaves."""
    before = world.gateway.logs()
    got = world.gateway.chat(tier=tier, stream=stream)
    return got, [said for level, said in said_of(world, before) if level == "WARNING"]


FAULTS = [
    pytest.param(error(500, "boom"), "(status 500): the provider answered 500: boom", id="500"),
    pytest.param(error(429, "slow"), "(status 429): the provider answered 429: slow", id="429"),
    pytest.param(error(401), "(status 401): the provider answered 401", id="401"),
    pytest.param(
        replies.raw(b"", end="fin"), "(status none): the connection was closed without an answer", id="closes"
    ),
    pytest.param(replies.silence(), "(status none): no answer in time", id="says nothing"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("fault", "said"), FAULTS)
def test_a_failed_attempt_and_the_fallback_after_it_are_a_warning_each(
    world: World, fault: Reply, said: str, stream: bool
) -> None:
    world.primary.script(fault)
    world.fallback.script(replies.stream("ok") if stream else replies.chat("ok"))

    got, warnings = warnings_of(world, "simple", stream)

    assert got.status == 200
    attempt, fallback = warnings
    assert attempt.startswith(f"Attempt at primary-model@127.0.0.1:{world.primary.port}/v1 failed {said}")
    assert attempt.endswith(f"; fallback-model@127.0.0.1:{world.fallback.port}/v1 is next")
    assert fallback.startswith(
        f"Fallback 1: fallback-model@127.0.0.1:{world.fallback.port}/v1 answers for primary-model@"
    )


def test_what_is_done_next_is_told_with_each_attempt(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, keys=2)])
    world.primary.script(error(429), error(503), replies.chat("at last"))

    got, warnings = warnings_of(world, "simple", stream=False)

    assert got.text == "at last"
    assert [warning.rpartition("; ")[2] for warning in warnings] == [
        "it is asked with its next key",
        "it is asked again in 0.05 s",
    ]


def test_a_request_that_nobody_could_answer_is_a_warning_with_its_id(world: World) -> None:
    world.lone.script(error(500))

    got, warnings = warnings_of(world, "complex", stream=False)

    assert got.status == 502
    attempt, ended = warnings
    assert attempt.endswith("; no other endpoint is left")
    assert ended.startswith(f"Request {got.request_id} is answered 502 upstream_error: ")


def test_a_skipped_primary_is_told_with_the_reason(world: World) -> None:
    world.configure(circuit_breaker={"failure_threshold": 1, "recovery_timeout_sec": 30})
    world.primary.script(error(500))
    world.gateway.chat()

    _, warnings = warnings_of(world, "simple", stream=False)

    (fallback,) = warnings
    assert fallback.endswith("(skipped: its circuit is open)")


def test_a_callers_own_mistake_is_no_warning(world: World) -> None:
    world.primary.script(error(400, "no such parameter"))

    got, warnings = warnings_of(world, "simple", stream=False)

    assert (got.status, warnings) == (400, [])
