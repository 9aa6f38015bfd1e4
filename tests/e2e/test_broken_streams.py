"""Before its first content a stream may fail unseen; after it, nobody else is asked and the caller gets a clean end."""

from __future__ import annotations

from typing import Any

import pytest

from . import replies
from .replies import DONE, ROLE, Reply, broken_stream, chunk, event, sse, stream, then_silence, usage_chunk
from .world import World

INTERRUPTED = b": hermes stream interrupted\ndata: [DONE]\n\n"
BEFORE_CONTENT = b": wait\n\n" + event({"choices": [], "note": "of the primary"}) + ROLE
BROKEN_EARLY = [
    pytest.param(sse(BEFORE_CONTENT, end="fin"), id="ends"),
    pytest.param(broken_stream(torso=b": wait\n"), id="resets"),
    pytest.param(sse(BEFORE_CONTENT + event({"error": {"message": "overloaded"}}) + DONE), id="reports an error"),
    pytest.param(sse(BEFORE_CONTENT + b"event: error\ndata: {\ndata: }\n\n"), id="sends an error event"),
    pytest.param(then_silence(sse(BEFORE_CONTENT).but(end="keep")), id="says no more"),
    pytest.param(sse(BEFORE_CONTENT + DONE), id="is done without content"),
]


@pytest.mark.parametrize("reply", BROKEN_EARLY)
def test_a_stream_that_fails_before_its_first_content_is_never_seen(world: World, reply: Reply) -> None:
    world.primary.script(reply)
    whole = ROLE + chunk({"content": "from fallback"}, "stop") + DONE
    world.fallback.script(sse(whole))

    got = world.gateway.chat(stream=True)

    assert got.body == whole
    assert got.headers["x-hermes-fallback-level"] == "1"
    assert world.calls() == ["primary", "fallback"]
    assert world.gateway.circuits()["primary-model"]["failures"] == 1


CONTENT = [
    pytest.param({"content": "x"}, id="content"),
    pytest.param({"reasoning_content": "x"}, id="reasoning"),
    pytest.param({"refusal": "x"}, id="a refusal"),
    pytest.param({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, id="a tool call"),
    pytest.param({"audio": {"id": "a", "data": "AAAA"}}, id="audio"),
]


@pytest.mark.parametrize("delta", CONTENT)
def test_after_the_first_content_nobody_else_is_asked(world: World, delta: dict[str, Any]) -> None:
    world.primary.script(sse(ROLE + chunk(delta), whole=False, end="fin"))

    got = world.gateway.chat(stream=True)

    assert got.body == ROLE + chunk(delta) + INTERRUPTED
    assert world.calls() == ["primary"]


def test_a_long_preamble_is_let_go(world: World) -> None:
    """What is held before the first content is bounded; beyond it the caller sees that somebody is at work."""
    pings = [(0.0, b": %d\n\n" % number) for number in range(100)]
    late = replies.in_pieces([*pings, (0.4, chunk({"content": "x"}, "stop") + DONE)], headers=replies.EVENT_STREAM)
    world.primary.script(late)

    got = world.gateway.chat(stream=True)

    assert got.body == b"".join(ping for _, ping in pings) + chunk({"content": "x"}, "stop") + DONE
    assert got.arrived_at(b": 0\n\n") < world.primary.calls[0].sent_at[1 + len(pings)]


TORSO = b'data: {"choices": [{"del'
BREAKS = [
    pytest.param({"end": "rst"}, id="resets"),
    pytest.param({"end": "fin"}, id="ends"),
    pytest.param({"end": "rst", "torso": TORSO}, id="resets within an event"),
    pytest.param({"end": "fin", "torso": TORSO, "whole": True}, id="ends properly within an event"),
    pytest.param({"end": "keep", "wire": b"zz\r\nwhat\r\n"}, id="breaks its own framing"),
    pytest.param({"end": "fin", "whole": True}, id="ends properly without a finish reason"),
]


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("on_break", ["done", "error"])
def test_a_stream_that_breaks_ends_cleanly_and_at_once(world: World, how: dict[str, Any], on_break: str) -> None:
    world.configure(streaming={"on_break": on_break})
    world.primary.script(broken_stream("The answer", " is", **how))

    got = world.gateway.chat(stream=True)

    relayed = ROLE + chunk({"content": "The answer"}) + chunk({"content": " is"})
    assert (got.status, got.problem) == (200, None)
    assert got.body.startswith(relayed + b": hermes stream interrupted\n")
    assert got.took_s < 0.5
    rest = got.body.removeprefix(relayed)
    if on_break == "done":
        assert rest == INTERRUPTED
    else:
        assert rest.startswith(b": hermes stream interrupted\ndata: {")
        assert got.done_count == 0
        assert got.chunks[-1]["error"]["message"]
    assert [choice["finish_reason"] for part in got.chunks for choice in part.get("choices", [])] == [None] * 3
    row = world.gateway.row(got)
    assert row["status"] == "interrupted"
    assert row["completion_tokens"] >= 1
    assert world.gateway.circuits()["primary-model"]["failures"] == 1
    (trace,) = world.gateway.traces(event="stream_error", request_id=got.request_id)
    assert (trace["failure_count"], trace["max_failures"]) == (1, 3)


@pytest.mark.parametrize("tail", [b"", usage_chunk()], ids=["after its finish reason", "after its usage"])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_a_stream_that_only_lacks_its_done_is_whole(world: World, tail: bytes, end: Any) -> None:
    body = ROLE + chunk({"content": "ok"}) + chunk({}, "stop") + tail
    world.primary.script(
        replies.in_pieces([(0, body), (0.05, b"")], headers=replies.EVENT_STREAM, whole=False, end=end)
    )

    got = world.gateway.chat(stream=True, stream_options={"include_usage": True})

    assert got.body.removesuffix(DONE) == body
    assert got.problem is None
    assert world.gateway.row(got)["status"] == "ok"
    assert world.gateway.circuits()["primary-model"]["failures"] == 0


def test_an_error_in_mid_stream_is_handed_on(world: World) -> None:
    body = ROLE + chunk({"content": "well"}) + event({"error": {"message": "server overloaded", "code": 529}}) + DONE
    world.primary.script(sse(body))

    got = world.gateway.chat(stream=True)

    assert got.body == body.removesuffix(DONE)  # an error is an end; nothing says that all went well
    assert world.calls() == ["primary"]
    assert world.gateway.row(got)["status"] in ("interrupted", "error")


def test_three_broken_streams_send_the_session_elsewhere_once(world: World) -> None:
    world.configure(circuit_breaker={"failure_threshold": 100})
    world.primary.script(broken_stream("a"))
    world.fallback.script(stream("from fallback"))
    user = "strikes"

    def ask(session: str) -> str:
        return world.gateway.chat(stream=True, user=user, headers={"X-Hermes-Session": session}).text

    answers = [ask("mine") for _ in range(3)] + [ask("another"), ask("mine"), ask("mine")]

    assert world.calls() == ["primary"] * 4 + ["fallback", "primary"]
    assert answers == ["a", "a", "a", "a", "from fallback", "a"]
