"""What gunicorn refuses by itself is answered in the shape of all other errors."""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import gevent.socket
import pytest
from gevent.pool import Pool
from gunicorn.config import Config
from gunicorn.http import errors as http
from gunicorn.http.unreader import SocketUnreader

from hermes.errors import ClientGone
from hermes.turns import MOMENT_S
from hermes.web import connections
from hermes.web.connections import CallersListener, ClientSocket, deadlines
from hermes.web.worker import SAME_WAIT_S, CallersRequest, HermesWorker, refusal


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(http.LimitRequestLine(9000, 4094), 414, id="a long request line"),
        pytest.param(http.LimitRequestHeaders("limit request headers fields"), 431, id="many headers"),
        pytest.param(http.ExpectationFailed("tea"), 417, id="an expectation"),
        pytest.param(http.UnsupportedTransferCoding("gzip"), 501, id="a transfer coding"),
        pytest.param(http.ForbiddenProxyRequest("10.0.0.1"), 403, id="a proxy"),
        pytest.param(http.InvalidHTTPVersion("HTTP/9.9"), 400, id="a version"),
        pytest.param(http.InvalidRequestLine("GE"), 400, id="a request line"),
        pytest.param(http.InvalidHeader("CONTENT-LENGTH"), 400, id="a header"),
        pytest.param(http.InvalidHeaderName("a b"), 400, id="a header's name"),
        pytest.param(http.InvalidSchemeHeaders(), 400, id="whatever else is no HTTP"),
        pytest.param(ssl.SSLError(1, "no TLS"), 400, id="no TLS"),
    ],
)
def test_a_fault_of_the_callers_has_its_status(fault: Exception, status: int) -> None:
    error = refusal(fault)

    assert error is not None
    assert (error.status, error.body()["type"]) == (status, "invalid_request_error")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(http.InvalidResponseHeader("x"), id="a header of the answer"),
        pytest.param(http.ConfigurationProblem("x"), id="the configuration"),
        pytest.param(KeyError("x"), id="the application"),
    ],
)
def test_a_fault_of_ours_is_none_of_the_callers(fault: Exception) -> None:
    assert refusal(fault) is None


def answered(fault: BaseException) -> bytes:
    """What a caller gets when the worker meets this fault."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"the rest of what was refused")
        theirs.shutdown(socket.SHUT_WR)
        HermesWorker.handle_error(SimpleNamespace(), None, ours, ("10.0.0.1", 1), fault)
        theirs.settimeout(0.1)
        try:
            return theirs.recv(65536)
        except TimeoutError:
            return b""


def test_a_refusal_has_an_id_and_ends_the_connection() -> None:
    head, _, body = answered(http.LimitRequestHeaders("many")).partition(b"\r\n\r\n")

    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ") for line in lines)
    error = json.loads(body)["error"]
    assert first == "HTTP/1.1 431 Request Header Fields Too Large"
    assert (headers["Connection"], headers["Content-Type"]) == ("close", "application/json")
    assert int(headers["Content-Length"]) == len(body)
    assert headers["X-Request-Id"].startswith("req_")
    assert headers["X-Request-Id"] in error["message"]


def test_a_fault_of_ours_tells_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    got = answered(KeyError("inner matter"))

    assert got.startswith(b"HTTP/1.1 500 ")
    assert b"inner matter" not in got
    assert "inner matter" in caplog.text


def test_a_caller_who_has_left_is_not_answered() -> None:
    assert answered(ClientGone()) == b""


RECEIVED_AT_ONCE = 8192


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    """The worker's end of a connection, and the caller's."""
    ours, theirs = gevent.socket.socketpair()
    with ours, theirs:
        ours.__class__ = ClientSocket
        yield ours, theirs


def reading(sock: Any) -> Any:
    """A greenlet that reads a request."""
    return gevent.spawn(CallersRequest, Config(), SocketUnreader(sock), ("10.0.0.1", 1))


def test_who_connects_is_taken_up_in_the_same_round_however_many_they_are() -> None:
    callers = 120
    seen: list[str] = []

    def serve(client: Any, _: Any) -> None:
        seen.append("caller")
        until = time.monotonic() + 0.001
        while time.monotonic() < until:
            pass
        gevent.sleep(10)

    with socket.create_server(("127.0.0.1", 0), backlog=callers) as listening:
        sockets = [socket.create_connection(listening.getsockname()) for _ in range(callers)]
        listener = CallersListener(gevent.socket.socket(fileno=os.dup(listening.fileno())), serve, spawn=Pool(callers))
        listener.start()
        for _ in range(20):
            gevent.sleep(MOMENT_S)
            seen.append("round")
        listener.stop(timeout=0)
        for sock in sockets:
            sock.close()

    first = seen.index("caller")
    assert seen[first : first + callers] == ["caller"] * callers


def test_a_new_connection_is_read_when_the_loop_has_looked_at_all(pair: tuple[Any, Any]) -> None:
    """gevent begins up to fifty greenlets before it looks for what there is to read."""
    ours, theirs = pair
    theirs.sendall(b"GET /health HTTP/1.1\r\nHost: hermes\r\n\r\n")

    reader = reading(ours)
    gevent.sleep(0)
    assert not reader.dead

    assert reader.get(timeout=10).path == "/health"


def test_who_sends_without_waiting_for_refusals_leaves_the_others_their_turns(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    requests = 8
    turns: list[int] = []
    refused: list[bytearray] = []

    def refuse(data: bytearray, _: float) -> bytes | None:
        refused.append(data)
        turns.append(0)
        return b"no" if len(refused) < requests else None

    def other() -> None:
        while True:
            gevent.sleep(MOMENT_S)
            turns.append(1)

    monkeypatch.setattr(CallersRequest, "refusal", staticmethod(refuse))
    theirs.sendall(b"GET / HTTP/1.1\r\n\r\n".ljust(RECEIVED_AT_ONCE, b"x") * requests)
    reader, others = reading(ours), gevent.spawn(other)
    reader.get(timeout=10)
    others.kill()

    assert len(refused) == requests
    assert all(turns[at + 1] for at, turn in enumerate(turns[:-1]) if not turn), "two in a row"


@pytest.mark.parametrize(
    ("alive", "waited_s", "answer"), [(True, 0.0, b"no"), (False, 0.0, None), (True, SAME_WAIT_S, None)]
)
def test_only_a_connection_that_goes_on_within_its_bound_is_refused_at_once(
    alive: bool, waited_s: float, answer: bytes | None
) -> None:
    worker = SimpleNamespace(alive=alive, _turn_away=lambda _: b"no")

    assert HermesWorker._refusal(worker, bytearray(b"x"), time.monotonic() - waited_s) == answer


@pytest.fixture
def tcp_pairs() -> Iterator[list[tuple[Any, Any]]]:
    """The worker's ends of three connections with small buffers, and the callers'."""
    pairs = []
    with gevent.socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        for _ in range(3):
            theirs = gevent.socket.socket()
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            theirs.connect(listening.getsockname())
            ours, _ = listening.accept()
            ours.__class__ = ClientSocket
            pairs.append((ours, theirs))
    yield pairs
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


UNREAD = b"x" * 4_000_000


def crowded(waiting: dict[Any, Any]) -> Any:
    """A worker of which nearly all places are taken, and the waits for requests there are."""
    worker = SimpleNamespace(_waiting=waiting, _is_full=lambda: False)
    worker._end_one = lambda greenlet: HermesWorker._end_one(worker, greenlet)
    return worker


def test_who_has_read_nothing_for_the_longest_makes_room_and_not_who_has_just_come(
    tcp_pairs: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_MOMENT_S", 0.0)
    writing = []
    for ours, _ in tcp_pairs:
        writing.append(gevent.spawn(ours.sendall, UNREAD))
        gevent.sleep(0.02)  # by now its buffer is full
    came = gevent.spawn(gevent.sleep, 60)
    worker = crowded({came: gevent.Timeout(60, False)})

    ended = []
    for _ in (*writing, came):
        gevent.get_hub().loop.run_callback(HermesWorker._end_longest, worker, came)
        gevent.sleep(0.02)
        ended.append([greenlet.dead for greenlet in (*writing, came)])

    came.kill()
    assert ended == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, False],
    ]
    assert all(isinstance(greenlet.exception, BrokenPipeError) for greenlet in writing)


def test_a_slow_reader_may_go_on_when_the_requests_time_is_over_and_a_deaf_one_may_not(
    tcp_pairs: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of room only when a third of its buffer has been taken, long after the last kilobyte."""
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    monkeypatch.setattr(connections, "UNREAD_LATE_S", 0.5)
    (slow, reader), (deaf, _), _ = tcp_pairs
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    for sock in (slow, deaf):
        monkeypatch.setitem(deadlines, sock, time.monotonic() - 1)
    size = 400_000
    writing, unread = gevent.spawn(slow.sendall, UNREAD[:size]), gevent.spawn(deaf.sendall, UNREAD)

    began, got = time.monotonic(), 0
    while got < size and writing.exception is None:
        got += len(reader.recv(1024))
        gevent.sleep(0.03 if time.monotonic() < began + 2 else 0)
    unread.join(10)

    writing.get(timeout=10)
    assert isinstance(unread.exception, BrokenPipeError)
