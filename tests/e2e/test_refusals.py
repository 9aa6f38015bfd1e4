"""What never reaches a route is refused as everything else is: OpenAI's error, with a request id."""

from __future__ import annotations

import json
import socket

import pytest

from .client import READ_BYTES
from .gateway import eventually
from .replies import chat
from .world import World

HOST = b"Host: x\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\n"


def raw(world: World, *pieces: bytes) -> bytes:
    """All that comes back for these bytes, until the connection ends."""
    with socket.create_connection(("127.0.0.1", world.gateway.port), 10) as sock:
        got = b""
        try:
            for piece in pieces:
                sock.sendall(piece)
            while more := sock.recv(READ_BYTES):
                got += more
        except ConnectionError:
            pass
        return got


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"GET /health HTTP/1.1\r\n" + HOST + b"X: %b\r\n\r\n" % (b"x" * 9000), 431, id="a long header"),
        pytest.param(
            b"GET /health HTTP/1.1\r\n" + HOST + b"X-%b: 1\r\n\r\n" % b": 1\r\nX-".join([b"a"] * 99),
            431,
            id="many headers",
        ),
        pytest.param(b"GET /health?%b HTTP/1.1\r\n" % (b"x" * 5000) + HOST + b"\r\n", 414, id="a long address"),
        pytest.param(
            POST + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400, id="two lengths"
        ),
        pytest.param(
            POST + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, id="two different lengths"
        ),
        pytest.param(POST + HOST + b"Content-Length: -1\r\n\r\n", 400, id="a negative length"),
        pytest.param(b"GET /health HTTP/9.9\r\n" + HOST + b"\r\n", 400, id="a version that is none"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="no request line"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, id="TLS where none is spoken"),
        pytest.param(
            b"GET /health HTTP/1.1\r\n" + HOST + b"a b: 1\r\n\r\n", 400, id="a header with a blank in its name"
        ),
        pytest.param(b"GET /health HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, id="two hosts"),
    ],
)
def test_what_is_no_http_is_refused_in_the_shape_of_all_errors(world: World, request_bytes: bytes, status: int) -> None:
    head, _, body = raw(world, request_bytes).partition(b"\r\n\r\n")

    headers = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
    error = json.loads(body)["error"]
    assert head.split()[1] == str(status).encode()
    assert error["type"] == "invalid_request_error"
    assert headers["x-request-id"] in error["message"]
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", b"400", id="HTTP/1.1 needs one"),
        pytest.param(b"GET /health HTTP/1.0\r\n\r\n", b"200", id="HTTP/1.0 does not"),
        pytest.param(b"GET /health HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", b"200", id="an empty one is one"),
    ],
)
def test_a_request_names_its_host(world: World, head: bytes, status: bytes) -> None:
    got = raw(world, head)

    assert got.split()[1] == status
    if status == b"400":
        assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
        assert b"X-Request-Id: req_" in got


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize(
    ("framing", "begun"),
    [
        pytest.param({"Content-Length": "500"}, b'{"messages":', id="a length"),
        pytest.param({"Transfer-Encoding": "chunked"}, b'c\r\n{"messages":', id="in the midst of a chunk"),
        pytest.param({"Transfer-Encoding": "chunked"}, b'c\r\n{"messages":\r\n', id="between two chunks"),
        pytest.param({"Transfer-Encoding": "chunked"}, b'd\r\n{"messages":5\r', id="at the end of a chunk"),
    ],
)
def test_a_caller_who_leaves_while_sending_has_left_and_was_not_refused(
    world: World, framing: dict[str, str], begun: bytes, how: str
) -> None:
    world.primary.script(chat())
    user = f"leaver-{how}-{begun!r}"
    exchange = world.gateway.open(
        "POST", "/v1/chat/completions", {"X-Hermes-User": user.encode().hex(), "X-Hermes-Tier": "simple", **framing}
    )
    exchange.send_more(begun)

    exchange.vanish("rst" if how == "rst" else "fin")

    [row] = eventually(lambda: world.gateway.usage(0, user_id=user.encode().hex()), bool)
    assert (row["status"], row["error_message"]) == ("client_disconnected", "the caller hung up")
    assert world.calls() == []


def test_a_caller_who_leaves_an_operators_route_leaves_no_trace(world: World) -> None:
    headers = {"Authorization": "Bearer canary-admin-key", "Content-Length": "500"}
    exchange = world.gateway.open("PUT", "/admin/pins/model.chat", headers, b'{"value":')

    exchange.vanish()

    assert world.gateway.is_healthy()
    assert "Unexpected error" not in world.gateway.logs()


def test_the_callers_time_bounds_its_sending_too(world: World) -> None:
    """Two bytes a second are a pace, but not one that this caller has the time for."""
    head = POST + HOST + b"X-Hermes-User: slow-sender\r\nX-Request-Timeout: 0.3\r\nContent-Length: 500\r\n\r\n"

    got = raw(world, head, b"{")

    assert got.split()[1] == b"408"
    assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["type"] == "request_timeout"
    [row] = world.gateway.usage(1, user_id="slow-sender")
    assert (row["status"], row["error_message"]) == (
        "refused",
        "The request's body came too slowly: X-Request-Timeout is over.",
    )


def test_a_header_in_utf_8_names_the_same_user_as_a_body(world: World) -> None:
    user = "Jürgen 用户"

    by_header = world.gateway.chat(user=user, headers={"X-Hermes-Session": "Gespräch"})
    by_body = world.gateway.chat(user="other", metadata={"user_id": user, "session_id": "Gespräch"})

    rows = [world.gateway.row(answer) for answer in (by_header, by_body)]
    assert [row["user_id"] for row in rows] == [user, user]
    assert rows[0]["session_key"] == rows[1]["session_key"]


def test_a_header_in_latin_1_is_read_as_such(world: World) -> None:
    body = b'{"model":"simple","messages":[]}'
    head = POST + HOST + b"Connection: close\r\nX-Hermes-User: J\xfcrgen L.\r\nContent-Length: %d\r\n\r\n" % len(body)

    got = raw(world, head, body)

    request_id = got.partition(b"X-Request-Id: ")[2].split()[0].decode()
    [row] = world.gateway.usage(1, request_id=request_id)
    assert row["user_id"] == "Jürgen L."
