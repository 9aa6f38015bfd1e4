"""Whatever a provider does, the fallback answers; without one the caller is told what was tried. Nothing is paid twice.

`error.attempts` tells the status line that came, even if the body after it was cut; null where none came.
"""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from . import replies
from .replies import Reply, answer, drip, error, in_pieces, over_and_over, raw
from .world import ATTEMPT_S, World

WHOLE = replies.completion("never to be seen")
PROMISED = {"Content-Length": "5000"}
HTML = "<html><body><h1>Bad Gateway</h1></body></html>"
SHORT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HEAD_BYTES = len(replies.chat().pieces[0][1])
STREAM_HEAD_BYTES = len(replies.stream("x").pieces[0][1])
SPARE_S = 0.5
"""By how much a request may outlive its time."""

ANY = [
    # reply, the status that `error.attempts` tells, calls without streaming, calls with streaming
    pytest.param(replies.silence(), None, 1, 1, id="says nothing"),
    pytest.param(drip(replies.wire(replies.chat())), None, 1, 1, id="drips its head"),
    pytest.param(over_and_over(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), None, 1, 1, id="100 Continue for ever"),
    pytest.param(over_and_over(SHORT_HEAD, b"X-More: yes\r\n", 0.001), None, 1, 1, id="header lines for ever"),
    pytest.param(over_and_over(SHORT_HEAD + b"X: ", b"x" * 999, 0.001), None, 1, 1, id="one header line for ever"),
    pytest.param(answer(200, WHOLE, headers={"X-Huge": "x" * 1_000_000}), None, 1, 1, id="a header of a megabyte"),
    pytest.param(raw(b"", end="fin"), None, 1, 1, id="closes without an answer"),
    pytest.param(raw(b"", end="rst"), None, 1, 1, id="resets without an answer"),
    pytest.param(raw(SHORT_HEAD), None, 1, 1, id="closes in its head"),
    pytest.param(raw(b"\x16\x03\x01\x02\x00what\r\n\r\n"), None, 1, 1, id="binary garbage"),
    pytest.param(raw(b"HTTP/1.1 abc OK\r\n\r\n"), None, 1, 1, id="a status that is no number"),
    pytest.param(raw(SHORT_HEAD + b"Content-Length: -5\r\n\r\n"), None, 1, 1, id="a negative length"),
    pytest.param(error(429), 429, 1, 1, id="429"),
    pytest.param(error(503), 503, 4, 1, id="503"),
    *(pytest.param(error(status), status, 1, 1, id=str(status)) for status in (401, 403, 404)),
    *(pytest.param(error(status), status, 1, 1, id=str(status)) for status in (500, 502, 504, 529)),
    pytest.param(answer(502, HTML, headers={"Content-Type": "text/html"}), 502, 1, 1, id="502 as a page"),
    pytest.param(answer(500, b""), 500, 1, 1, id="500 without a body"),
    pytest.param(answer(200, {"error": {"message": "overloaded", "code": 529}}), 200, 1, 1, id="200 that is an error"),
    pytest.param(answer(200, HTML, headers={"Content-Type": "text/html"}), 200, 1, 1, id="200 as a page"),
    pytest.param(answer(200, "OK", headers={"Content-Type": "text/plain"}), 200, 1, 1, id="200 as text"),
    pytest.param(answer(200, b""), 200, 1, 1, id="200 without a body"),
    pytest.param(answer(204, b""), 204, 1, 1, id="204"),
]
PLAIN = [
    pytest.param(drip(replies.wire(replies.chat()), at_once=HEAD_BYTES), 200, 1, id="drips its body"),
    pytest.param(over_and_over(SHORT_HEAD + b"\r\n", b" " * 99, 0.001), 200, 1, id="a body without an end"),
    pytest.param(answer(200, WHOLE, headers=PROMISED, end="fin"), 200, 1, id="a body that is too short"),
    pytest.param(answer(200, WHOLE, headers=PROMISED, end="rst"), 200, 1, id="a body that is cut"),
    pytest.param(in_pieces([(0, b'{"id": 1')], whole=False, end="fin"), 200, 1, id="a chunked body that is cut"),
    pytest.param(raw(SHORT_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 200, 1, id="a chunk without a size"),
    pytest.param(answer(200, '{"id":"r1","choices":[{"ind'), 200, 1, id="half of its JSON"),
    pytest.param(answer(200, {**WHOLE, "choices": []}), 200, 1, id="no choices"),
    pytest.param(answer(200, [1, 2]), 200, 1, id="JSON that is no object"),
    pytest.param(replies.stream("never to be seen"), 200, 1, id="a stream that nobody asked for"),
]
STREAM = [
    pytest.param(drip(replies.wire(replies.stream("x")), at_once=STREAM_HEAD_BYTES), 200, 1, id="drips its body"),
    pytest.param(replies.chat("never to be seen"), 200, 1, id="JSON where a stream was asked for"),
    pytest.param(replies.sse(b'data: {"error":{"message":"busy"}}\n\n'), 200, 1, id="an error as first event"),
    pytest.param(replies.sse(b"event: error\ndata: {\ndata: }\n\n"), 200, 1, id="an event of the type error"),
    pytest.param(replies.sse(b""), 200, 1, id="a stream of nothing"),
    pytest.param(replies.broken_stream(), 200, 1, id="resets before any content"),
    pytest.param(replies.broken_stream(end="fin"), 200, 1, id="closes before any content"),
    pytest.param(replies.sse(b"data: what?\n\n" * 3, end="fin"), 200, 1, id="events that are not JSON"),
]


def _table() -> list[Any]:
    """(reply, status, calls, stream), each faulty behaviour with and without streaming where it makes sense."""
    rows = [(param.values, param.id, True) for param in STREAM] + [(param.values, param.id, False) for param in PLAIN]
    for param in ANY:
        reply, status, calls, stream_calls = param.values
        rows += [((reply, status, calls), param.id, False), ((reply, status, stream_calls), param.id, True)]
    return [pytest.param(*row, stream, id=f"{name}, {'stream' if stream else 'plain'}") for row, name, stream in rows]


@pytest.mark.parametrize(("reply", "status", "calls", "stream"), _table())
def test_the_fallback_answers(world: World, reply: Reply, status: int | None, calls: int, stream: bool) -> None:
    world.primary.script(reply)
    world.fallback.script(replies.stream("from fallback") if stream else replies.chat("from fallback"))

    got = world.gateway.chat(stream=stream)

    assert (got.status, got.text, got.problem) == (200, "from fallback", None)
    assert got.headers["x-hermes-fallback-level"] == "1"
    assert got.headers["x-hermes-model"] == "fallback-model"
    assert got.took_s < ATTEMPT_S + SPARE_S
    assert world.calls() == ["primary"] * calls + ["fallback"]
    row = world.gateway.row(got)
    assert (row["status"], row["attempts"], row["fallback_level"]) == ("ok", calls + 1, 1)


@pytest.mark.parametrize(("reply", "status", "calls", "stream"), _table())
def test_without_a_fallback_the_caller_is_told(
    world: World, reply: Reply, status: int | None, calls: int, stream: bool
) -> None:
    world.lone.script(reply)

    got = world.gateway.chat(tier="complex", stream=stream)

    assert got.problem is None
    assert got.status == 502 or (got.status == 504 and got.took_s >= ATTEMPT_S)
    assert got.headers["content-type"].startswith("application/json")
    assert got.took_s < ATTEMPT_S + SPARE_S
    assert 0 <= int(got.headers["retry-after"]) <= 3600
    assert set(got.error) >= {"message", "type", "param", "code", "attempts"}
    assert got.error["type"] == ("upstream_error" if got.status == 502 else "timeout")
    assert got.request_id in got.error["message"]
    assert [attempt["model"] for attempt in got.error["attempts"]] == ["lone-model"] * len(got.error["attempts"])
    assert got.error["attempts"][-1]["status"] == status
    assert set(got.error["attempts"][-1]) == {"endpoint", "model", "status", "message"}
    assert len(world.lone.calls) == calls
    row = world.gateway.row(got)
    assert (row["status"], row["attempts"]) == ("error", calls)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_redirect_is_not_followed(world: World, status: int, stream: bool) -> None:
    elsewhere = f"{world.teacher.base_url}/steal"
    world.lone.script(answer(status, b"", headers={"Location": elsewhere}))

    got = world.gateway.chat("a secret", tier="complex", stream=stream)

    assert (got.status, got.error["attempts"][0]["status"]) == (502, status)
    assert world.calls() == ["lone"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("status", [400, 413, 422])
def test_the_callers_own_mistake_goes_back_to_the_caller_unchanged(world: World, status: int, stream: bool) -> None:
    said = {"error": {"message": "temperature must be <= 2", "type": "t", "param": "temperature", "code": "c"}}
    world.primary.script(answer(status, said))

    got = world.gateway.chat(stream=stream)

    assert (got.status, got.json) == (status, said)
    assert world.calls() == ["primary"]
    assert world.gateway.circuits()["primary-model"]["failures"] == 0
    assert world.gateway.row(got)["status"] == "error"


TOO_LONG = {"message": "This model's maximum context length is 10 tokens", "code": "context_length_exceeded"}


@pytest.mark.parametrize(
    ("window", "called"),
    [
        pytest.param({}, ["primary", "fallback"], id="a window that is not known"),
        pytest.param({"context_window": 200_000}, ["primary", "fallback"], id="a larger window"),
        pytest.param({"context_window": 50}, ["primary"], id="a smaller window"),
    ],
)
def test_a_prompt_too_long_goes_where_it_may_fit(world: World, window: dict[str, int], called: list[str]) -> None:
    first = world.endpoint(world.primary, context_window=100)
    world.configure(simple=[first, world.endpoint(world.fallback, **window)])
    world.primary.script(answer(400, {"error": TOO_LONG}))

    got = world.gateway.chat()

    assert world.calls() == called
    assert got.status == (200 if len(called) == 2 else 400)
    assert world.gateway.circuits()["primary-model"]["failures"] == 0


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_packed_answer_is_unpacked(world: World, framing: Any) -> None:
    """Hermes asks for identity; a provider that packs all the same is still understood."""
    packed = gzip.compress(replies.wire(answer(200, replies.completion("ok " * 400))).split(b"\r\n\r\n", 1)[1])
    world.primary.script(answer(200, packed, headers={"Content-Encoding": "gzip"}, framing=framing))

    got = world.gateway.chat(headers={"Accept-Encoding": "gzip"})

    assert got.text == "ok " * 400
    assert "content-encoding" not in got.headers
    assert world.primary.calls[0].headers["accept-encoding"] == "identity"
    assert world.gateway.row(got)["prompt_tokens"] == 11


def test_what_was_sent_upstream_is_what_the_caller_said(world: World) -> None:
    """All but the model goes through byte for byte: spacing, spelling of numbers, order, unknown fields."""
    said = b'{ "model" : "x" , "weird" : [ 1.50, 1e2, -0.0 ],\n "messages":[{"role":"user","content":"h\\u00e9"}] }'
    headers = {"Content-Type": "application/json", "X-Hermes-Tier": "simple", "Authorization": "Bearer dummy"}

    got = world.gateway.request("POST", "/v1/chat/completions", {**headers, "X-Private": "yes"}, said)

    assert got.status == 200
    (call,) = world.primary.calls
    assert call.body == said.replace(b'"x"', b'"primary-model"')
    assert call.path == "/v1/chat/completions"
    assert call.key.startswith("canary-")
    assert not {"x-private", "x-hermes-tier", "x-hermes-user"} & set(call.headers)
