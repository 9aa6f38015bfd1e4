"""The client towards providers, over real sockets: what it reuses, what it refuses, and that every wait ends."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hermes.types import ANYONE, Endpoint
from hermes.upstream import response as client
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.names import Names
from hermes.upstream.response import Lost, NotSent, Response, TimedOut
from hermes.upstream.transport import IDLE_PLAIN_S, Target, Transport

from .gateway import eventually
from .provider import HOST, Provider
from .replies import Reply, answer, chat, drip, in_pieces, over_and_over, raw, silence

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def transport() -> Iterator[Transport]:
    opened = Transport(connect_timeout_s=0.5)
    yield opened
    opened.close()


def post(transport: Transport, provider: Provider, within_s: float = 2.0) -> Response:
    deadline = time.monotonic() + within_s
    endpoint = Endpoint("m@p", "m", provider.base_url, provider.base_url)
    return transport.post(endpoint, {}, [b"{}"], allowance=ANYONE, deadline=deadline, lifeline=Lifeline())


def body_of(transport: Transport, provider: Provider, within_s: float = 2.0) -> bytes:
    response = post(transport, provider, within_s)
    try:
        return response.read_all(1_000_000)
    finally:
        response.release()


def test_a_whole_answer_gives_its_connection_back(transport: Transport, provider: Provider) -> None:
    for _ in range(3):
        body_of(transport, provider)

    assert {call.connection for call in provider.calls} == {1}


def test_an_address_is_looked_up_nowhere(provider: Provider) -> None:
    """A thousand look-ups in a crowd would wait for a few threads."""

    def ask_a_thread(*_: object, **__: object) -> list[Any]:
        raise AssertionError("looked up")

    with closing(Transport(names=Names(ask_a_thread))) as transport:
        assert body_of(transport, provider)


def test_a_name_is_looked_up_within_the_requests_time(provider: Provider) -> None:
    """As the system does it, which knows no timeout; and an answer that comes too late is of use to the next one."""
    speaks = threading.Event()

    def silent_at_first(*_: object, **__: object) -> list[Any]:
        speaks.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (HOST, provider.port))]

    named = Endpoint("m@p", "m", *[f"http://provider.example:{provider.port}/v1"] * 2)
    with closing(Transport(connect_timeout_s=0.2, names=Names(silent_at_first))) as transport:

        def ask() -> bytes:
            deadline = time.monotonic() + 20
            return transport.post(
                named, {}, [b"{}"], allowance=ANYONE, deadline=deadline, lifeline=Lifeline()
            ).read_all(1_000_000)

        with pytest.raises(NotSent, match="could not be looked up in time"):
            ask()
        speaks.set()

        assert ask()


def test_a_connection_that_was_closed_meanwhile_is_not_used(transport: Transport, provider: Provider) -> None:
    body_of(transport, provider)
    provider.close_idle()
    assert eventually(lambda: provider.open_connections, lambda number: number == 0) == 0

    body_of(transport, provider)

    assert [call.connection for call in provider.calls] == [1, 2]


class Clock:
    """Time that passes when a test says so, beside the real one."""

    def __init__(self) -> None:
        self.more_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.more_s


@pytest.mark.parametrize("older_s", [0.0, IDLE_PLAIN_S], ids=["the provider has closed it", "it is too old"])
def test_what_nobody_uses_is_closed_on_this_side_too(provider: Provider, older_s: float) -> None:
    clock = Clock()
    transport = Transport(clock=clock)
    with closing(transport):
        body_of(transport, provider)
        transport.close_stale()
        assert provider.open_connections == 1, "it is young and open"

        clock.more_s = older_s
        if not older_s:
            provider.close_idle()
            assert eventually(lambda: provider.open_connections, lambda number: number == 0) == 0
        transport.close_stale()

        assert transport.idle == 0
        assert eventually(lambda: provider.open_connections, lambda number: number == 0) == 0


def test_an_answer_that_nobody_asked_for_is_never_given_to_the_next_caller(
    transport: Transport, provider: Provider
) -> None:
    provider.script(
        raw(HEAD + b"ok", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen", end="keep").but(times=1), chat("mine")
    )
    body_of(transport, provider)
    time.sleep(0.05)

    assert b"mine" in body_of(transport, provider)
    assert [call.connection for call in provider.calls] == [1, 2]


def test_an_answer_that_is_not_read_to_its_end_closes_its_connection(transport: Transport, provider: Provider) -> None:
    provider.script(in_pieces([(0.0, b"a"), (5.0, b"b")]).but(times=1), chat())
    response = post(transport, provider)
    assert response.read() == b"a"

    response.release()

    assert eventually(lambda: provider.open_connections, lambda number: number == 0) == 0


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(silence(), id="silence"),
        pytest.param(drip(HEAD + b"ok"), id="one byte of the head at a time"),
        pytest.param(drip(LONG + b"x" * 99, at_once=len(LONG)), id="one byte of the body at a time"),
        pytest.param(in_pieces([(0.0, b"a"), (9.0, b"b")]), id="a body that stops"),
    ],
)
def test_no_wait_outlives_the_deadline(transport: Transport, provider: Provider, reply: Reply) -> None:
    provider.script(reply)
    began = time.monotonic()

    with pytest.raises((TimedOut, Lost)):
        body_of(transport, provider, within_s=0.3)

    assert time.monotonic() - began < 0.6


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(over_and_over(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"), id="headers"),
        pytest.param(over_and_over(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="100 Continue"),
        pytest.param(over_and_over(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 4096), id="one header"),
    ],
)
def test_an_endless_head_is_refused_long_before_the_deadline(
    transport: Transport, provider: Provider, reply: Reply
) -> None:
    provider.script(reply)

    with pytest.raises(Lost):
        post(transport, provider, within_s=5.0)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(raw(b"hello\r\n\r\n"), id="no HTTP"),
        pytest.param(raw(b""), id="closed at once"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"), id="shorter than it says"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ncut"), id="a chunk is cut"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), id="no chunk size"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!"), id="two lengths"),
        pytest.param(
            raw(HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok")), id="two framings"
        ),
        pytest.param(
            raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx"), id="another protocol"
        ),
        pytest.param(answer(200, b"??", headers={"Content-Encoding": "br"}), id="packed as nobody asked"),
        pytest.param(answer(200, b"no gzip", headers={"Content-Encoding": "gzip"}), id="not packed at all"),
        pytest.param(
            answer(200, gzip.compress(b"x" * 999)[:-9], headers={"Content-Encoding": "gzip"}), id="half a gzip"
        ),
    ],
)
def test_what_is_not_a_whole_http_answer_is_lost(transport: Transport, provider: Provider, reply: Reply) -> None:
    provider.script(reply)

    with pytest.raises(Lost):
        body_of(transport, provider)


def test_a_packed_answer_is_unpacked(transport: Transport, provider: Provider) -> None:
    provider.script(answer(200, gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"}))

    assert body_of(transport, provider) == b"hello"


def test_a_small_packed_answer_cannot_fill_the_memory(
    transport: Transport, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_UNPACKED_BYTES", 10_000)
    provider.script(answer(200, gzip.compress(b"\0" * 5_000_000), headers={"Content-Encoding": "gzip"}))

    with pytest.raises(Lost):
        body_of(transport, provider)


def test_without_a_length_the_connections_end_is_the_answers_end(transport: Transport, provider: Provider) -> None:
    provider.script(answer(200, b"hello", framing="close"))

    assert body_of(transport, provider) == b"hello"


def test_a_refused_connection_has_sent_nothing(transport: Transport, provider: Provider) -> None:
    provider.refuse()

    with pytest.raises(NotSent):
        post(transport, provider)


def test_an_answer_beyond_its_bound_is_not_collected(transport: Transport, provider: Provider) -> None:
    provider.script(answer(200, b"x" * 100_000))

    response = post(transport, provider)
    with pytest.raises(Lost):
        response.read_all(50_000)
    response.release()


@pytest.mark.parametrize(
    ("base_url", "path", "host", "authorization"),
    [
        pytest.param("https://h/v1", b"/v1/chat/completions", b"h", b"", id="as written"),
        pytest.param("https://h", b"/chat/completions", b"h", b"", id="no path: none is invented"),
        pytest.param("http://h:80/v1", b"/v1/chat/completions", b"h", b"", id="the usual port is left out"),
        pytest.param("http://h:8080/a/v4", b"/a/v4/chat/completions", b"h:8080", b"", id="another port"),
        pytest.param("https://h/d?api-version=1", b"/d/chat/completions?api-version=1", b"h", b"", id="a query"),
        pytest.param("https://u:p@h/v1", b"/v1/chat/completions", b"h", b"Basic dTpw", id="a user"),
        pytest.param("http://[::1]:9/v1", b"/v1/chat/completions", b"[::1]:9", b"", id="IPv6"),
    ],
)
def test_where_a_base_url_leads(base_url: str, path: bytes, host: bytes, authorization: bytes) -> None:
    target = Target.parse(base_url)

    assert (target.path, target.host_header, target.authorization) == (path, host, authorization)
