"""What callers send: whatever a provider would take is taken, and what is broken is refused as the caller's mistake."""

from __future__ import annotations

import json

import pytest

from . import replies
from .gateway import CHAT, eventually, new_user
from .replies import stream
from .world import World

HEADERS = {"Content-Type": "application/json", "X-Hermes-Tier": "simple"}
HI = b'"messages":[{"role":"user","content":"hi"}]'
CHUNKED = {"Transfer-Encoding": "chunked"}
USAGE_ASKED = {"include_usage": True}


@pytest.mark.parametrize(
    ("body", "streamed"),
    [
        pytest.param(b"{%b}", False, id="no model"),
        pytest.param(b'{"model":null,%b}', False, id="a model that is null"),
        pytest.param(b'{"model":"x","model":"y",%b}', False, id="two models"),
        pytest.param(b'{"mod\\u0065l":"x",%b}', False, id="a model by an escaped name"),
        pytest.param(b'{"a":{"model":"inner"},"model":"x",%b}', False, id="a model within"),
        pytest.param(b'{%b,"model":"x"}', False, id="a model at the end"),
        pytest.param(b" \n{ %b }\t\n", False, id="blanks around it"),
        pytest.param(b'{"stream":false,"stream":true,%b}', True, id="the last of two streams is true"),
        pytest.param(b'{"stream":true,"stream":false,%b}', False, id="the last of two streams is false"),
        pytest.param(b'{"stream":true,"stream_options":null,%b}', True, id="stream options that are null"),
        pytest.param(b'{"stream":true,"stream_options":{"include_usage":false},%b}', True, id="usage not wanted"),
        pytest.param(b'{"messages":[],%b}', False, id="the last of two lists of messages"),
        pytest.param(b'{"temperature":NaN,%b}', False, id="a number that is none"),
        pytest.param(b'{"user":{"a":1},"metadata":[1],%b}', False, id="a user and metadata of strange kinds"),
    ],
)
def test_the_provider_reads_what_was_meant(world: World, body: bytes, streamed: bool) -> None:
    world.primary.script(stream("ok").only(has="stream"), replies.chat("ok"))
    body = body.replace(b"%b", HI)

    got = world.gateway.request("POST", CHAT, HEADERS, body)

    assert (got.status, got.text, got.is_stream) == (200, "ok", streamed)
    sent = world.primary.calls[0].json
    assert sent["model"] == "primary-model"
    assert sent["messages"] == [{"role": "user", "content": "hi"}]
    assert sent.get("stream_options") == (USAGE_ASKED if streamed else None)
    assert sent.get("a") == json.loads(body).get("a")
    assert b'"usage"' not in got.body or not streamed


@pytest.mark.parametrize("field", ["user", "metadata"])
def test_a_user_of_half_a_surrogate_pair_is_still_one_user(world: World, field: str) -> None:
    value = '{"user_id":"a\\ud800b"}' if field == "metadata" else '"a\\ud800b"'
    body = b'{"%b":%b,%b}' % (field.encode(), value.encode(), HI)

    got = world.gateway.request("POST", CHAT, {"Content-Type": "application/json"}, body)

    assert got.status == 200
    assert world.gateway.row(got)["user_id"] == "a\ufffdb"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("session_id", "x" * 1_000_000, id="a session of a megabyte"),
        pytest.param("data_classes", ["x"] * 100_000, id="a hundred thousand classes of data"),
    ],
)
def test_metadata_that_hermes_reads_is_bounded(world: World, name: str, value: object) -> None:
    got = world.gateway.chat(metadata={name: value, "anything": "x" * 1000})

    assert (got.status, got.error["param"]) == (400, f"metadata.{name}")
    assert len(got.body) < 1000
    assert world.calls() == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('"a\\ud800b"', id="half a surrogate pair"),
        pytest.param('"a\\u0000b"', id="a NUL"),
        pytest.param('"%s"' % ("\U0001f600" * 500), id="many emoji"),
        pytest.param("7", id="a number"),
        pytest.param("null", id="nothing"),
        pytest.param('[7, null, {"type": "text"}, {"type": "text", "text": 7}, "x"]', id="parts of strange kinds"),
        pytest.param('"%s"' % ("x " * 1_000_000), id="two megabytes"),
    ],
)
def test_no_text_is_too_strange_to_be_answered_and_recorded(world: World, content: str) -> None:
    body = f'{{"messages":[{{"role":"user","content":{content}}}]}}'.encode()
    user = new_user()

    got = world.gateway.request("POST", CHAT, {**HEADERS, "X-Hermes-User": user}, body)

    assert got.status == 200
    assert world.primary.calls[0].json["messages"] == json.loads(body)["messages"]
    row = world.gateway.row(got)
    assert (row["status"], row["user_id"]) == ("ok", user)
    assert len(row["prompt_preview"] or "") <= 120


@pytest.mark.parametrize(
    ("headers", "body", "status", "kind"),
    [
        pytest.param(CHUNKED, b"zz\r\n", 400, "invalid_request_error", id="a chunk without a size"),
        pytest.param(CHUNKED, b"3\r\n{}XXX", 400, "invalid_request_error", id="a chunk without an end"),
        pytest.param({"Content-Encoding": "gzip"}, b"\x1f\x8b", 415, "unsupported_media_type", id="a packed body"),
        pytest.param({"X-Hermes-Tier": "medium"}, b"{%b}", 400, "invalid_request_error", id="a tier that is none"),
    ],
)
def test_a_broken_request_is_the_callers_mistake(
    world: World, headers: dict[str, str], body: bytes, status: int, kind: str
) -> None:
    body = body.replace(b"%b", HI)
    length = {} if headers == CHUNKED else {"Content-Length": str(len(body))}

    with world.gateway.open("POST", CHAT, {**HEADERS, **length, **headers}) as exchange:
        exchange.send_more(body)
        got = exchange.read_all()

    assert (got.status, got.error["type"]) == (status, kind)
    assert world.calls() == []


def test_a_caller_who_sends_the_next_request_early_has_not_left(world: World) -> None:
    """Bytes that wait to be read are no hang-up, and no reason to spin."""
    world.primary.script(stream(*"abcdef", every_s=0.05))
    with world.gateway.open(
        "POST", CHAT, {**HEADERS, "Connection": "keep-alive"}, b'{"stream":true,%b}' % HI
    ) as exchange:
        exchange.read_until(b'"a"')
        exchange.send_more(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        exchange.read_until(b'"status":"ok"')

    assert exchange.raw.count(b"HTTP/1.1 200") == 2
    assert b"interrupted" not in exchange.raw
    assert b"[DONE]" in exchange.raw


def test_a_body_that_ends_too_early_reaches_no_provider(world: World) -> None:
    exchange = world.gateway.open("POST", CHAT, {**HEADERS, "Content-Length": "500"}, b'{"messages":')

    exchange.vanish()

    eventually(lambda: world.calls(), bool, within_s=0.3)
    assert world.calls() == []
