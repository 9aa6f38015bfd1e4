"""No request outlives its time, whatever a provider does; neither the caller's time nor the endpoint's."""

from __future__ import annotations

import pytest

from . import replies
from .gateway import eventually
from .replies import DONE, Reply, broken_stream, chunk, drip, error, in_pieces, over_and_over, then_silence
from .world import World

TIME_S = 0.5
SPARE_S = 0.5
SHORT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
IN_TIME = {"X-Request-Timeout": str(TIME_S)}
INTERRUPTED = b": hermes stream interrupted\ndata: [DONE]\n\n"
HEAD_BYTES = len(replies.chat().pieces[0][1])

SLOW = [
    pytest.param(replies.silence(), id="says nothing"),
    pytest.param(drip(replies.wire(replies.chat())), id="drips its head"),
    pytest.param(drip(replies.wire(replies.chat()), at_once=HEAD_BYTES), id="drips its body"),
    pytest.param(over_and_over(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05), id="100 Continue for ever"),
    pytest.param(over_and_over(SHORT_HEAD, b"X-More: yes\r\n", 0.05), id="header lines for ever"),
    pytest.param(over_and_over(SHORT_HEAD + b"\r\n", b" ", 0.01), id="a body without an end"),
    pytest.param(error(503).but(pieces=[(0.1, replies.wire(error(503)))]), id="503 again and again"),
    pytest.param(then_silence(in_pieces([(0, b"<html>")], 500, whole=False)), id="an error page that never ends"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("reply", SLOW)
def test_the_callers_time_ends_the_request(world: World, reply: Reply, stream: bool) -> None:
    world.configure(
        simple=[world.endpoint(provider, timeout_seconds=30) for provider in (world.primary, world.fallback)],
        retry={"backoff_503_sec": [0.2, 0.2, 0.2]},
    )
    world.primary.script(reply)
    world.fallback.script(reply)

    got = world.gateway.chat(stream=stream, headers=IN_TIME)

    assert got.took_s < TIME_S + SPARE_S
    assert got.problem is None
    assert got.status in (504, 502)
    assert got.status == 504 or got.took_s < TIME_S, "502 only when everything has failed before the time was over"
    assert got.error["type"] == ("timeout" if got.status == 504 else "upstream_error")
    assert got.error["attempts"][0]["model"] == "primary-model"
    assert int(got.headers["retry-after"]) >= 0
    assert world.gateway.row(got)["status"] == "error"


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b": still here\n\n", id="comments"),
        pytest.param(chunk({"content": "x"}), id="content"),
        pytest.param(b"d", id="one event without an end"),
        pytest.param(b"", id="silence"),
    ],
)
@pytest.mark.parametrize("whose", ["the caller's time", "the endpoint's time"])
def test_a_stream_that_has_begun_ends_in_time_too(world: World, rest: bytes, whose: str) -> None:
    callers = whose == "the caller's time"
    world.configure(complex=[world.endpoint(world.lone, timeout_seconds=30 if callers else TIME_S)])
    begun = broken_stream("begun")
    piece = b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b""
    world.lone.script(begun.but(pieces=[*begun.pieces[:3], (0.05 if rest else 30, piece)], endless=True))

    got = world.gateway.chat(tier="complex", stream=True, headers=IN_TIME if callers else {})

    assert got.took_s < TIME_S + SPARE_S
    assert (got.status, got.problem) == (200, None)
    assert got.text.startswith("begun")
    assert got.body.endswith(INTERRUPTED)
    assert world.gateway.row(got)["status"] == "interrupted"


def test_a_text_that_cannot_be_looked_through_in_time_is_not_sent(world: World) -> None:
    world.configure(residency={"rules": [{"match": {"detected": ["email", "phone"]}, "action": "redact"}]})
    text = "".join(f"user{number}@example.com +49 30 {900_000 + number} " for number in range(100_000))

    got = world.gateway.chat(text, headers=IN_TIME)

    assert (got.status, got.error["type"]) == (504, "timeout")
    assert "could not be looked through" in got.error["message"]
    assert got.took_s < TIME_S + 10 * SPARE_S  # megabytes have to arrive first
    assert world.gateway.row(got)["status"] == "error"
    assert world.primary.calls == []


def test_every_endpoint_gets_its_own_time_and_all_of_them_together_the_tiers(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, model=f"m{n}", timeout_seconds=0.3) for n in range(9)])
    world.primary.script(replies.silence())

    got = world.gateway.chat(headers={"X-Request-Timeout": "0.75"})

    assert got.status == 504
    assert 0.7 < got.took_s < 0.75 + SPARE_S
    assert len(world.primary.calls) == 3
    assert eventually(lambda: world.primary.calls_under_way, lambda number: number == 0) == 0


def test_a_tiers_own_time_bounds_the_whole_where_the_caller_names_none(world: World) -> None:
    tier = {"endpoints": [world.endpoint(world.lone, timeout_seconds=30)], "timeout_seconds": TIME_S}
    plain = world.config()
    world.configure(models={**plain["models"], "complex": tier})
    world.lone.script(replies.silence())

    got = world.gateway.chat(tier="complex")

    assert got.status == 504
    assert TIME_S <= got.took_s < TIME_S + SPARE_S


def test_a_wait_that_would_be_too_long_is_not_begun(world: World) -> None:
    """The pause before the next try of a 503 does not fit, so the fallback is asked while there is time."""
    world.configure(retry={"backoff_503_sec": [30]})
    world.primary.script(error(503))

    got = world.gateway.chat(headers={"X-Request-Timeout": "2"})

    assert (got.status, got.headers["x-hermes-fallback-level"]) == (200, "1")
    assert got.took_s < 1
    assert world.calls() == ["primary", "fallback"]


@pytest.mark.parametrize("value", ["", "soon", "-1", "0", "nan", "inf", "1e999", "1" * 400, "0x10"])
def test_a_time_that_makes_no_sense_is_refused_or_ignored(world: World, value: str) -> None:
    got = world.gateway.chat(headers={"X-Request-Timeout": value})

    assert got.status in (200, 400)
    assert got.took_s < 1


def test_a_silent_stream_ends_at_the_idle_timeout_and_a_talking_one_does_not(world: World) -> None:
    world.configure(
        streaming={"idle_timeout_sec": 0.3},
        complex=[world.endpoint(world.lone, timeout_seconds=30)],
    )
    world.lone.script(replies.stream(*"abcd", every_s=0.2), then_silence(broken_stream("a", end="keep")))

    talking = world.gateway.chat(tier="complex", stream=True)
    silent = world.gateway.chat(tier="complex", stream=True)

    assert (talking.text, talking.body[-len(DONE) :]) == ("abcd", DONE)
    assert world.gateway.row(talking)["status"] == "ok"
    assert silent.body.endswith(INTERRUPTED)
    assert 0.3 <= silent.took_s < 0.3 + SPARE_S
