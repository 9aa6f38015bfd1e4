"""What comes faster than it is read leaves the event loop its turns: others' bytes are noticed meanwhile.

Told by the order of events: a timer stands for whatever the loop finds only when it looks around.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import gevent
import orjson
import pytest

from hermes.admission.masking import mask
from hermes.admission.personal_data import KINDS
from hermes.chatrequest import ChatRequest
from hermes.errors import BodyTimeout
from hermes.routing.sessions import BATCH, Sessions
from hermes.state.store import MemoryStore
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.response import BYTES_IN_A_ROW, READS_IN_A_ROW, Response
from hermes.web.http import READ_BYTES, read_body
from hermes.web.http import READS_IN_A_ROW as BODY_READS_IN_A_ROW

MEGABYTE = 1024 * 1024


class Flood:
    """A provider whose next bytes are always there already, and an input of the server's of the same kind."""

    def __init__(self, log: list[str], piece: bytes, head: bytes = b"") -> None:
        self._log = log
        self._piece = piece
        self._head = head

    def recv(self, size: int) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        self._log.append("read")
        return self._piece[:size]

    read = recv

    def send(self, data: bytes) -> int:
        return len(data)

    def settimeout(self, seconds: float) -> None:
        """There is nothing to be waited for."""

    def close(self) -> None:
        """There is nothing to be closed."""


def ran(work: Callable[[], object], log: list[str]) -> list[str]:
    """The log after the work, beside which the loop finds an `event` as soon as it looks."""
    loop = gevent.get_hub().loop
    watcher = loop.timer(0)
    gevent.spawn(watcher.start, log.append, "event")
    gevent.spawn(work).join()
    watcher.stop()
    watcher.close()
    return log


@pytest.mark.parametrize(
    ("piece", "reads"),
    [
        pytest.param(b"x" * READ_BYTES, BYTES_IN_A_ROW // READ_BYTES, id="large pieces"),
        pytest.param(b"x" * 100, READS_IN_A_ROW, id="small pieces"),
    ],
)
def test_a_flood_from_a_provider(piece: bytes, reads: int) -> None:
    log: list[str] = []
    sock = Flood(log, piece, b"HTTP/1.1 200 OK\r\n\r\n")
    response = Response(cast(Any, sock), time.monotonic() + 60, Lifeline(), time.monotonic, lambda: None)

    def read() -> None:
        response.begin(b"POST / HTTP/1.1\r\n\r\n", [])
        for _ in range(10 * READS_IN_A_ROW):
            response.read()

    assert ran(read, log).index("event") <= reads + 1


@pytest.mark.parametrize("length", [str(64 * MEGABYTE), ""], ids=["of a known length", "in chunks"])
def test_a_large_request_that_has_arrived_already(length: str) -> None:
    log: list[str] = []
    environ = {"wsgi.input": Flood(log, b"x" * READ_BYTES), "CONTENT_LENGTH": length}

    def read() -> None:
        with suppress(Exception):
            read_body(environ, 64 * MEGABYTE)

    assert ran(read, log).index("event") <= BODY_READS_IN_A_ROW + 1
    assert log.count("read") >= 64 * MEGABYTE // READ_BYTES


class Dribble:
    """An input of which the next bytes are always there, a few at a time, and cost as much work as chunks of a byte."""

    def __init__(self, log: list[str], work_s: float, until: float) -> None:
        self._log = log
        self._work_s = work_s
        self._until = until
        self.failed = False

    def read(self, size: int) -> bytes:
        self._log.append("read")
        now = began = time.monotonic()
        if now > self._until:
            return b""
        while now < began + self._work_s:
            now = time.monotonic()
        return b"x" * min(size, 100)


@pytest.mark.parametrize("length", [str(64 * MEGABYTE), ""], ids=["of a known length", "in chunks"])
def test_what_is_always_there_ends_at_the_callers_deadline_all_the_same(length: str) -> None:
    dribble = Dribble([], 0.001, until=time.monotonic() + 5)
    environ = {"wsgi.input": dribble, "CONTENT_LENGTH": length, "HTTP_X_REQUEST_TIMEOUT": "0.05"}

    with pytest.raises(BodyTimeout, match="X-Request-Timeout"):
        read_body(environ, 64 * MEGABYTE)

    assert dribble.failed, "or its rest would be heard out"


class Sizes:
    """An input with so many bytes and no more, which comes in pieces of any size."""

    def __init__(self, content: bytes, sizes: Iterator[int]) -> None:
        self._content = content
        self._sizes = sizes

    def read(self, size: int) -> bytes:
        size = min(size, next(self._sizes))
        piece, self._content = self._content[:size], self._content[size:]
        return piece


@pytest.mark.parametrize("total", [0, 1, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1, 3 * MEGABYTE + 17])
def test_the_body_is_what_was_sent(total: int) -> None:
    content = bytes(number % 251 for number in range(total))
    sizes = [READ_BYTES, 1, 1000, 70_000, READ_BYTES] * 1000
    for length in (str(total), ""):
        environ = {"wsgi.input": Sizes(content, iter(sizes)), "CONTENT_LENGTH": length}

        assert read_body(environ, 64 * MEGABYTE) == content


def test_very_many_sessions_being_listed() -> None:
    log: list[str] = []
    sessions = Sessions(MemoryStore())
    for number in range(3 * BATCH):
        sessions.remember(str(number), "simple", 300)

    def read() -> None:
        sessions.all(300)
        log.append("listed")

    assert ran(read, log) == ["event", "listed"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("order 1234567890123 and 12 of 34, " * 3000, id="numbers"),
        pytest.param("some words " * 300_000, id="words"),
        pytest.param('"\\' * 50_000, id="escapes"),
    ],
)
def test_a_long_text_that_is_looked_through_for_personal_data(content: str) -> None:
    log: list[str] = []
    request = ChatRequest.parse(orjson.dumps({"messages": [{"role": "user", "content": content}]}))

    def read() -> None:
        mask(request, None, frozenset(KINDS), frozenset(KINDS))
        log.append("masked")

    assert ran(read, log) == ["event", "masked"]
