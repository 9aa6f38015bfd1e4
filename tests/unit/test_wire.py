"""Answers of the hot routes on the wire: one piece where they are short, framed as HTTP wants it, never two answers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.http.errors import InvalidResponseHeader

from hermes.web.wire import PATHS, TOGETHER_BYTES, Answer, environ_of, is_hot, origin_of_plain


class Sock:
    """A connection that keeps what is sent, call by call."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)


def request(**changes: Any) -> Any:
    """What gunicorn's parser gives."""
    parts = {
        "method": "POST",
        "path": "/v1/chat/completions",
        "query": "",
        "version": (1, 1),
        "scheme": "http",
        "headers": [("HOST", "hermes")],
        "body": None,
        "_expected_100_continue": False,
    }
    return SimpleNamespace(**(parts | changes))


def answered(headers: list[tuple[str, str]], body: Any, *, keeps_open: bool = True) -> list[bytes]:
    sock = Sock()
    answer = Answer(sock, keeps_open=keeps_open)
    answer.start_response("200 OK", headers)
    answer.send(body)
    return sock.sent


def test_a_short_answer_goes_out_in_one_piece() -> None:
    (sent,) = answered([("Content-Length", "2")], [b"{}"])

    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: keep-alive\r\nContent-Length: 2" in head
    assert b"Transfer-Encoding" not in head
    assert body == b"{}"


def test_a_long_body_is_not_copied_behind_its_head() -> None:
    body = b"x" * (TOGETHER_BYTES + 1)

    head, sent = answered([("Content-Length", str(len(body)))], [body])

    assert head.endswith(b"\r\n\r\n")
    assert sent is body


def test_a_stream_is_framed_in_chunks_and_its_head_goes_with_the_first() -> None:
    first, *others = answered([], iter([b"one", b"", b"three"]))

    assert first.endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
    assert others == [b"5\r\nthree\r\n", b"0\r\n\r\n"]  # an empty piece would have ended it


def test_an_empty_first_piece_sends_the_head_at_once() -> None:
    """A stream that begins with nothing tells its caller so far that it has begun."""
    sock = Sock()
    answer = Answer(sock, keeps_open=True)
    answer.start_response("200 OK", [])

    pieces: Iterator[bytes] = iter([b""])
    answer.write(next(pieces))

    assert answer.has_begun
    assert sock.sent[0].endswith(b"\r\n\r\n")


def test_an_answer_without_a_body_still_has_its_head() -> None:
    (sent,) = answered([("Content-Length", "0")], [], keeps_open=False)

    assert b"\r\nConnection: close\r\n" in sent
    assert sent.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(("X-A", "b\r\nX-Forged: c"), id="a line end in a value"),
        pytest.param(("X-A\nX-Forged", "c"), id="a line feed in a name"),
        pytest.param(("X-A", "b\rc"), id="half a line end"),
        pytest.param(("X-A", "b\0c"), id="NUL"),
        pytest.param(("X-A", "b\x1bc"), id="an escape"),
    ],
)
def test_no_header_can_break_the_head(header: tuple[str, str]) -> None:
    sock = Sock()

    with pytest.raises(InvalidResponseHeader):
        Answer(sock, keeps_open=True).start_response("200 OK", [header])

    assert sock.sent == []


def test_an_answer_that_has_begun_cannot_become_an_error() -> None:
    answer = Answer(Sock(), keeps_open=True)
    answer.start_response("200 OK", [])
    answer.write(b"half of it")
    fault = ValueError("later")

    with pytest.raises(ValueError, match="later"):
        answer.start_response("500 Internal Server Error", [], (ValueError, fault, None))


@pytest.mark.parametrize("path", sorted(PATHS))
def test_the_hot_routes_take_this_way(path: str) -> None:
    assert is_hot(request(path=path))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"method": "GET"}, id="another method"),
        pytest.param({"path": "/v1/models"}, id="another path"),
        pytest.param({"version": (1, 0)}, id="HTTP/1.0, which knows no chunks"),
        pytest.param({"_expected_100_continue": True}, id="a caller who waits for leave to send"),
    ],
)
def test_all_else_takes_gunicorns_way(changes: dict[str, Any]) -> None:
    assert not is_hot(request(**changes))


def test_headers_reach_the_application_as_pep_3333_names_them() -> None:
    headers = [("HOST", "h"), ("CONTENT-LENGTH", "2"), ("CONTENT-TYPE", "a/b"), ("X-A", "1"), ("X-A", "2")]

    environ = environ_of(request(headers=headers), "the socket")

    assert environ["CONTENT_LENGTH"] == "2"
    assert environ["CONTENT_TYPE"] == "a/b"
    assert environ["HTTP_HOST"] == "h"
    assert environ["HTTP_X_A"] == "1,2"
    assert environ["gunicorn.socket"] == "the socket"


def plain(*further: str, path: str = "/v1/chat/completions", body: bytes = b"{}", length: str = "2") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: hermes", f"Content-Length: {length}", *further]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_plain_request_is_known_by_its_bytes(path: str) -> None:
    assert origin_of_plain(plain(path=path)) == ""
    assert origin_of_plain(plain("oRiGiN: https://page.example", "Connection: Keep-Alive", path=path)) == (
        "https://page.example"
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(plain(path="/v1/models"), id="another path"),
        pytest.param(plain(path="/v1/chat/completions?a=b"), id="a query"),
        pytest.param(plain().replace(b"POST", b"PUT"), id="another method"),
        pytest.param(plain().replace(b"HTTP/1.1", b"HTTP/1.0"), id="HTTP/1.0"),
        pytest.param(plain().replace(b"Host", b"Ghost"), id="no host"),
        pytest.param(plain()[:-1], id="a part of the body"),
        pytest.param(plain()[:-4], id="a part of the head"),
        pytest.param(plain() + b"P", id="more than the body"),
        pytest.param(plain(length="+2"), id="a length that is no number"),
        pytest.param(plain(length="9" * 5000), id="a length that Python does not read"),
        pytest.param(plain("Content-Length: 2"), id="two lengths"),
        pytest.param(plain("Transfer-Encoding: chunked"), id="chunks"),
        pytest.param(plain("Expect: 100-continue"), id="an expectation"),
        pytest.param(plain("Connection: close"), id="the end of the connection"),
        pytest.param(plain("Connection: Upgrade", "Upgrade: h2c"), id="another protocol"),
        pytest.param(plain("Bad Name: x"), id="no HTTP"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_nothing_else_is_plain(data: bytes) -> None:
    assert origin_of_plain(data) is None
