"""A stream is handed on as it is and as it comes; before its first content the cascade may still go on unseen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import replies
from .replies import DONE, ROLE, Reply, broken_stream, chunk, error, event, sse, stream, then_silence, usage_chunk
from .world import World

ASKED: dict[str, Any] = {"stream_options": {"include_usage": True}}
BOM = b"\xef\xbb\xbf"
INTERRUPTED = b": hermes stream interrupted\ndata: [DONE]\n\n"
CALLS = [
    {"id": "t1", "type": "function", "function": {"name": "a", "arguments": '{"x":'}},
    {"id": "t2", "function": {}},
]
PRETTY = json.dumps(json.loads(chunk({"content": "!"}).removeprefix(b"data: ")), indent=1).encode()
PLAIN_PARTS = [
    b": OPENROUTER PROCESSING\n\n",
    event({"id": "", "prompt_filter_results": [{"prompt_index": 0}], "choices": []}),
    ROLE,
    b"retry: 3000\r\nid: 7\r\nevent: message\r\n" + chunk({"content": "crlf "})[:-2] + b"\r\n\r\n",
    chunk({"content": "cr "}).replace(b"\n", b"\r"),
    chunk({"content": "no space "}).replace(b"data: ", b"data:"),
    b"data: " + PRETTY.replace(b"\n", b"\ndata: ") + b"\n\n",
    chunk({"content": "안녕 \u2028\u2029\x85 😀 "}),
    b"x-vendor: 1\n:comment within\n" + chunk({"content": "é"}, x_vendor={"k": [1, None]}),
    chunk({"tool_calls": CALLS}, logprobs={"content": [{"token": "a", "bytes": [97]}]}),
    chunk({"reasoning_content": "hm", "content": None}),
    b": ping\n\n: pong\n\n",
    chunk({}, "stop"),
]
NASTY = b"".join([*PLAIN_PARTS, usage_chunk(), DONE])


BY_CHUNKS = [(1, "chunked"), (2, "chunked"), (3, "chunked"), (7, "chunked"), (64, "chunked"), (0, "chunked")]
BY_READS = [(7, "length"), (7, "close"), (0, "length"), (0, "close")]


@pytest.mark.parametrize(("split", "framing"), [*BY_CHUNKS, *BY_READS])
def test_every_byte_is_handed_on_however_it_comes(world: World, split: int, framing: Any) -> None:
    world.primary.script(sse(NASTY, split=split, framing=framing))

    got = world.gateway.chat(stream=True, **ASKED)

    assert got.body == NASTY
    assert got.problem is None
    assert got.done_count == 1
    row = world.gateway.row(got)
    assert (row["status"], row["prompt_tokens"], row["completion_tokens"]) == ("ok", 11, 7)
    assert row["usage_estimated"] in (False, 0)


@pytest.mark.parametrize("split", [1, 2, 5, 0])
def test_only_what_kills_sdks_and_what_nobody_asked_for_is_left_out(world: World, split: int) -> None:
    empty = b"data:\n\n"
    begin, end = b"".join(PLAIN_PARTS[:5]), b"".join(PLAIN_PARTS[5:])
    world.primary.script(sse(BOM + empty + begin + b"data: \n\n" + empty + end + usage_chunk() + DONE, split=split))

    got = world.gateway.chat(stream=True)

    assert got.body == begin + end + DONE
    assert world.primary.calls[0].json["stream_options"] == {"include_usage": True}
    assert world.gateway.row(got)["completion_tokens"] == 7


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_an_event_is_passed_on_the_moment_it_is_complete(world: World, framing: Any) -> None:
    world.primary.script(stream("t0", "t1", "t2", "t3", every_s=0.15, framing=framing))

    got = world.gateway.chat(stream=True, headers={"Accept-Encoding": "gzip"})

    sent_at = world.primary.calls[0].sent_at[2:6]
    delays = [got.arrived_at(f'"t{n}"'.encode()) - moment for n, moment in enumerate(sent_at)]
    assert max(delays) < 0.1
    assert got.headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in got.headers["cache-control"]
    assert got.headers["x-accel-buffering"] == "no"
    assert not {"content-length", "content-encoding"} & set(got.headers)


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
    world.fallback.script(sse(NASTY))

    got = world.gateway.chat(stream=True, **ASKED)

    assert got.body == NASTY
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
    assert got.arrived_at(b": 0\n\n") < world.primary.calls[0].sent_at[-2]


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

    got = world.gateway.chat(stream=True, **ASKED)

    assert got.body.removesuffix(DONE) == body
    assert got.problem is None
    assert world.gateway.row(got)["status"] == "ok"
    assert world.gateway.circuits()["primary-model"]["failures"] == 0


def test_an_error_in_mid_stream_is_handed_on(world: World) -> None:
    body = ROLE + chunk({"content": "well"}) + event({"error": {"message": "server overloaded", "code": 529}}) + DONE
    world.primary.script(sse(body))

    got = world.gateway.chat(stream=True)

    assert got.body == body
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


def test_stream_options_that_are_refused_are_left_out_from_then_on(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, model="plain-old-server")])
    refusal = error(400, "Unrecognized request argument supplied: stream_options")
    world.primary.script(refusal.only(has="stream_options"), stream("ok", usage=None))

    answers = [world.gateway.chat(stream=True) for _ in range(2)]

    assert [got.text for got in answers] == ["ok", "ok"]
    assert ["stream_options" in call.json for call in world.primary.calls] == [True, False, False]
    assert world.gateway.row(answers[1])["usage_estimated"] in (True, 1)


@pytest.mark.parametrize("how", ["plain", "stream"])
def test_usage_that_the_provider_does_not_tell_is_estimated_and_marked(world: World, how: str) -> None:
    words = ["word "] * 400
    reply = stream(*words, usage=None) if how == "stream" else replies.chat("".join(words), usage=None)
    world.primary.script(reply)

    got = world.gateway.chat("write something", stream=how == "stream")

    row = world.gateway.row(got)
    assert row["usage_estimated"] in (True, 1)
    assert row["prompt_tokens"] >= 1
    assert 300 <= row["completion_tokens"] <= 900
    assert float(row["estimated_cost_usd"]) > 0


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream": None}], ids=["absent", "false", "null"])
def test_stream_options_are_never_added_where_nothing_is_streamed(world: World, fields: dict[str, Any]) -> None:
    assert world.gateway.chat(**fields).status == 200

    assert "stream_options" not in world.primary.calls[0].json
