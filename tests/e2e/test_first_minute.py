"""A fresh checkout without any configuration answers its first request, and shows what it did."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .client import Answer
from .gateway import CHAT, Gateway, eventually

DECIDED = {"x-request-id", "x-hermes-tier", "x-hermes-model", "x-hermes-decision"}
MEASURED = {"x-hermes-fallback-level", "x-hermes-overhead-ms"}
JSON = {"Content-Type": "application/json"}
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A server in an empty folder, which nobody has told anything."""
    gateway = Gateway.start()
    yield gateway
    gateway.stop()


def test_the_first_request_is_answered(gateway: Gateway) -> None:
    got = gateway.chat("Hello, who are you?", tier=None)

    assert (got.status, got.problem) == (200, None)
    assert got.text
    assert set(got.headers) >= DECIDED | MEASURED | {"x-hermes-cost-usd"}
    assert got.headers["x-hermes-tier"] in ("simple", "complex")
    assert got.headers["x-hermes-fallback-level"] == "0"
    assert 0 <= float(got.headers["x-hermes-overhead-ms"]) < 1000
    assert got.json["usage"]["total_tokens"] > 0


def test_the_first_stream_is_answered(gateway: Gateway) -> None:
    got = gateway.chat("Tell me a story", tier=None, stream=True)

    assert (got.status, got.problem) == (200, None)
    assert got.is_stream
    assert got.text
    assert got.done_count == 1
    assert len(got.arrivals) > 2, "it comes bit by bit"
    assert set(got.headers) >= DECIDED | MEASURED


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_it_leaves_a_trace_and_one_row_with_the_right_numbers(gateway: Gateway, stream: bool) -> None:
    asked: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    got = gateway.chat("What is the capital of France?", tier=None, user=f"paul-{stream}", **asked)

    row = gateway.row(got)
    usage = got.chunks[-1]["usage"] if stream else got.json["usage"]
    assert {name: row[name] for name in usage if name in row} == {name: usage[name] for name in usage if name in row}
    assert row["status"] == "ok"
    assert row["route"] == CHAT
    assert row["user_id"] == f"paul-{stream}"
    assert row["tier"] == got.headers["x-hermes-tier"]
    assert row["model"] == got.headers["x-hermes-model"]
    assert row["decision"] == got.headers["x-hermes-decision"].partition(";")[0]
    assert (bool(row["stream"]), row["attempts"], row["fallback_level"]) == (stream, 1, 0)
    assert row["duration_ms"] >= row["overhead_ms"] >= 0
    assert row["usage_estimated"] in (False, 0)
    assert row["prompt_preview"] == "What is the capital of France?"
    if not stream:
        assert float(got.headers["x-hermes-cost-usd"]) == pytest.approx(float(row["estimated_cost_usd"]))

    (classified,) = gateway.traces(event="classify", request_id=got.request_id)
    assert (classified["tier"], classified["source"]) == (row["tier"], row["decision"])
    assert classified["is_first"] is True
    (routed,) = gateway.traces(event="route", request_id=got.request_id)
    assert (routed["model"], routed["upstream_status"], routed["stream"]) == (row["model"], 200, stream)
    assert routed["ts"].endswith("Z")


def test_the_old_mount_point_answers_as_well(gateway: Gateway) -> None:
    got = gateway.request("POST", f"/api{CHAT}", body={"messages": [{"role": "user", "content": "hi"}]})

    assert got.status == 200
    assert got.text


def test_models_are_listed(gateway: Gateway) -> None:
    listed = gateway.request("GET", "/v1/models").json

    assert listed["object"] == "list"
    names = {model["id"] for model in listed["data"]}
    assert names >= {"auto", "simple", "complex", "chat", "reasoning"}
    assert gateway.request("GET", "/v1/models/auto").json["id"] == "auto"
    assert_is_an_error(gateway.request("GET", "/v1/models/none-such"), 404)


def test_health_and_readiness(gateway: Gateway) -> None:
    health = gateway.request("GET", "/health")

    assert (health.status, health.json["status"]) == (200, "ok")
    assert isinstance(health.json["sessions"], int)
    assert gateway.request("GET", "/health/ready").status == 200


def assert_is_an_error(got: Answer, status: int, kind: str | None = None) -> None:
    assert (got.status, got.problem) == (status, None)
    assert got.headers["content-type"].startswith("application/json")
    assert set(got.error) >= {"message", "type", "param", "code"}
    assert got.request_id in got.error["message"]
    assert "Traceback" not in got.body.decode()
    if kind:
        assert got.error["type"] == kind


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        pytest.param("GET", "/v1/nothing/here", None, 404, None, id="no such path"),
        pytest.param("POST", "/v1/nothing", b"{}", 404, None, id="no such path to post to"),
        pytest.param("GET", CHAT, None, 405, None, id="the wrong method"),
        pytest.param("DELETE", "/v1/models", None, 405, None, id="another wrong method"),
        pytest.param("POST", CHAT, b"", 400, "invalid_request_error", id="no body"),
        pytest.param("POST", CHAT, b"{", 400, "invalid_request_error", id="half a body"),
        pytest.param("POST", CHAT, b"[]", 400, "invalid_request_error", id="a list"),
        pytest.param("POST", CHAT, b'"hi"', 400, "invalid_request_error", id="a word"),
        pytest.param("POST", CHAT, b"{}", 400, "invalid_request_error", id="no messages"),
        pytest.param("POST", CHAT, b'{"messages": "hi"}', 400, "invalid_request_error", id="messages that are text"),
        pytest.param("POST", CHAT, b'{"messages": []}', 400, "invalid_request_error", id="messages that are none"),
        pytest.param("POST", CHAT, b'{"messages": [7]}', 400, "invalid_request_error", id="a message that is a number"),
        pytest.param("POST", CHAT, b"\xff\xfe{}", 400, "invalid_request_error", id="no UTF-8"),
        pytest.param("POST", CHAT, b"[" * 200_000, 400, "invalid_request_error", id="an abyss"),
    ],
)
def test_mistakes_are_told_in_openais_shape(
    gateway: Gateway, method: str, path: str, body: bytes | None, status: int, kind: str | None
) -> None:
    assert_is_an_error(gateway.request(method, path, JSON, body), status, kind)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        pytest.param("/chat/completions", CHAT, id="without v1"),
        pytest.param("/chat/completions/", CHAT, id="with a slash behind"),
        pytest.param("/v1/v1/chat/completions", CHAT, id="v1 twice"),
        pytest.param("/openai/v1/completions/stream", "/v1/completions/stream", id="below another path"),
        pytest.param("/v1/chat/completion", CHAT, id="a letter less"),
        pytest.param("/V1/Models", "/v1/models", id="in capitals"),
        pytest.param("/heath", "/health", id="health"),
        pytest.param("/somewhere/else", None, id="nothing like it"),
    ],
)
def test_a_path_that_is_nearly_right_is_told_the_right_one(gateway: Gateway, path: str, meant: str | None) -> None:
    got = gateway.request("POST", path, JSON, b"{}")

    assert_is_an_error(got, 404)
    hint = f" Did you mean {meant}?" if meant else ""
    assert got.error["message"].startswith(f"There is no route {path}.{hint} (request")


@pytest.mark.parametrize("path", [f"/{CHAT}", f"///api{CHAT}", f"{CHAT}//"])
def test_further_slashes_around_a_path_change_nothing(gateway: Gateway, path: str) -> None:
    """As where a client's base URL ends with one."""
    got = gateway.request("POST", path, JSON, b'{"messages": [{"role": "user", "content": "hi"}]}')

    assert (got.status, got.headers["access-control-allow-origin"]) == (200, "*")


@pytest.mark.parametrize(
    ("path", "method", "allowed", "use"),
    [
        pytest.param(CHAT, "GET", "OPTIONS, POST", "POST", id="a route to post to"),
        pytest.param("/v1/models", "POST", "GET, HEAD, OPTIONS", "GET", id="a route to read"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(gateway: Gateway, path: str, method: str, allowed: str, use: str) -> None:
    got = gateway.request(method, path, JSON, b"{}" if method == "POST" else None)

    assert_is_an_error(got, 405)
    assert got.headers["allow"] == allowed
    assert f"does not take {method}, but {use}." in got.error["message"]


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(gateway: Gateway) -> None:
    with gateway.open("POST", CHAT, {**JSON, "Content-Length": str(65 * MEGABYTE)}, b"{") as exchange:
        assert_is_an_error(exchange.read_all(), 413)


def test_a_body_that_turns_out_too_large_is_refused(gateway: Gateway) -> None:
    """In chunks nobody knows its size beforehand; it must not be cut and taken for the whole."""
    piece = b"%x\r\n%b\r\n" % (MEGABYTE, b" " * MEGABYTE)
    with gateway.open("POST", CHAT, {**JSON, "Transfer-Encoding": "chunked"}) as exchange:
        with contextlib.suppress(ConnectionError):
            for _ in range(65):
                exchange.send_more(piece)
            exchange.send_more(b"2\r\n{}\r\n0\r\n\r\n")
        assert_is_an_error(exchange.read_all(), 413)


def test_a_connection_serves_one_request_after_another(gateway: Gateway) -> None:
    """A stream, a mistake and a whole answer on one connection; none may leave anything of itself behind."""
    bodies = [b'{"stream": true, "messages": [{"role": "user", "content": "hi"}]}', b"{", b"[]"]
    posts = [
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies
    ]
    with gateway.open("GET", "/health", {"Connection": "keep-alive"}) as exchange:
        exchange.read_until(b'"ok"')
        exchange.send_more(posts[0])
        exchange.read_until(b"0\r\n\r\n")
        exchange.send_more(posts[1])
        exchange.read_until(b"invalid_request_error")
        exchange.send_more(posts[2].replace(b"Host: x", b"Host: x\r\nConnection: close"))
        exchange.read_all()

    statuses = re.findall(rb"HTTP/1.1 (\d+) ", exchange.raw)
    assert statuses == [b"200", b"200", b"400", b"400"]


def test_a_client_that_waits_for_leave_to_send_gets_it(gateway: Gateway) -> None:
    """curl does so for bodies over a megabyte."""
    body = b'{"messages": [{"role": "user", "content": "hi"}]}'
    expecting = {**JSON, "Content-Length": str(len(body)), "Expect": "100-continue"}
    with gateway.open("POST", CHAT, expecting) as exchange:
        exchange.read_until(b"HTTP/1.1 100 Continue\r\n\r\n")
        exchange.send_more(body)
        exchange.read_until(b"HTTP/1.1 200")


def test_a_caller_may_name_the_request(gateway: Gateway) -> None:
    """Two requests of one name would be one row, so a caller's own id is never taken for the row's."""
    answers = [gateway.chat(headers={"X-Request-Id": "mine"}) for _ in range(2)]

    rows = [gateway.row(got) for got in answers]
    assert rows[0]["id"] != rows[1]["id"]


def test_the_secret_free_log_tells_what_was_decided(gateway: Gateway) -> None:
    got = gateway.chat("hi there", tier=None)

    line = f"→ {got.headers['x-hermes-tier']} ({got.headers['x-hermes-model']})"
    assert line in eventually(gateway.logs, lambda logs: line in logs)
