"""Whoever sends without end, or sends nothing, keeps nobody else waiting and fills no memory, whatever the route."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .client import READ_BYTES
from .gateway import Gateway, eventually

HUGE = b"Content-Length: 100000000000\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
FILE = (
    b"Content-Type: multipart/form-data; boundary=x\r\n%b\r\n--x\r\n"
    b'Content-Disposition: form-data; name="a"; filename="b"\r\n'
)
CHAT = b"POST /v1/chat/completions"
WAIT_S = 1.0
"""What a caller beside it may wait, on a machine that is busy with other tests."""

GROWTH_MB = 150.0
"""Twice the longest body that is read at all (`server.max_body_mb`), and a little."""

LOOKS = 6
MANY = 12
LATE_S = 1.5
"""0.5 s and the time of a busy machine."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    gateway = Gateway.start()
    gateway.chat()
    yield gateway
    logs = gateway.logs()
    gateway.stop()
    assert "Traceback" not in logs


@pytest.mark.parametrize(
    ("head", "again"),
    [
        pytest.param(CHAT + b" HTTP/1.1\r\nHost: x\r\n" + HUGE + b"\r\n", b"x" * 65536, id="a length that is refused"),
        pytest.param(b"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + HUGE + b"\r\n", b"x" * 65536, id="no route"),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: x\r\n" + HUGE + b"\r\n", b"x" * 65536, id="a body nobody reads"),
        pytest.param(b"POST /admin/keys HTTP/1.1\r\nHost: x\r\n" + HUGE + b"\r\n", b"x" * 65536, id="no credential"),
        pytest.param(
            b"POST /dashboard/sign-in HTTP/1.1\r\nHost: x\r\n" + HUGE + FORM + b"\r\n", b"x" * 65536, id="a form"
        ),
        pytest.param(
            b"POST /dashboard/sign-in HTTP/1.1\r\nHost: x\r\n" + CHUNKED + FORM + b"\r\n",
            b"10000\r\n%b\r\n" % (b"x" * 65536),
            id="a form in chunks",
        ),
        pytest.param(
            b"POST /dashboard/sign-in HTTP/1.1\r\nHost: x\r\n" + FILE % HUGE + b"\r\n", b"x" * 65536, id="a file"
        ),
        pytest.param(
            CHAT + b" HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n", b"10000\r\n%b\r\n" % (b"x" * 65536), id="chunks"
        ),
        pytest.param(
            CHAT + b" HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n", b"1\r\nx\r\n" * 10000, id="chunks of a byte"
        ),
        pytest.param(
            b"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n", b"1\r\nx\r\n" * 10000, id="and no route"
        ),
        pytest.param(CHAT + b" HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n1;", b"e" * 65536, id="a chunk's extension"),
        pytest.param(
            CHAT + b" HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n1\r\n{\r\n0\r\n", b"X-A: b\r\n" * 8000, id="trailers"
        ),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: x\r\n", b"X-A: b\r\n" * 8000, id="headers"),
        pytest.param(b"", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 1000, id="requests without waiting"),
    ],
)
def test_nobody_else_waits_and_no_memory_fills(gateway: Gateway, head: bytes, again: bytes) -> None:
    before = memory_mb(gateway)

    with flood(gateway.port, head, again):
        waits_s = [wait_of_another(gateway) for _ in range(LOOKS)]

    assert max(waits_s) < WAIT_S
    assert memory_mb(gateway) - before < GROWTH_MB


def test_a_refused_body_is_heard_out_so_that_its_connection_can_be_used_again(gateway: Gateway) -> None:
    body = b"x" * 3_000_000
    refused = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", gateway.port), 5) as sock:
        sock.sendall(refused)
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = b""
        while more := sock.recv(READ_BYTES):
            got += more
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"404", b"200"]


def test_silent_connections_keep_nobody_out() -> None:
    """With as many places as an operator's limit of files allows, which is few here."""
    gateway = Gateway.start(files=400)
    silent = []
    try:
        for _ in range(300):
            sock = socket.create_connection(("127.0.0.1", gateway.port), 5)
            sock.sendall(b"GET /hea")
            silent.append(sock)

        assert gateway.request("GET", "/health", timeout_s=5).status == 200
        assert gateway.chat().status == 200
    finally:
        for sock in silent:
            sock.close()
        gateway.stop()


def test_many_who_send_chunks_of_a_byte_are_told_so_at_the_end_of_their_time(gateway: Gateway) -> None:
    """What is there already is read without waiting, so that no timer comes to it."""
    head = CHAT + b" HTTP/1.1\r\nHost: x\r\nX-Request-Timeout: 2\r\n" + CHUNKED + b"\r\n"

    with ThreadPoolExecutor(MANY) as pool:
        answers = [pool.submit(answer_to_a_flood, gateway.port, head, b"1\r\nx\r\n" * 10000) for _ in range(MANY)]
        time.sleep(0.5)
        waits_s = [wait_of_another(gateway) for _ in range(LOOKS)]
    told = [answer.result() for answer in answers]

    assert [status for status, _ in told] == [b"408"] * MANY
    assert max(after_s for _, after_s in told) < 2 + LATE_S
    assert max(waits_s) < WAIT_S


def test_who_reads_nothing_keeps_nobody_out() -> None:
    """More of them than there are places; what is written to them fits into no buffer."""
    gateway = Gateway.start(files=400)
    deaf = []
    try:
        for _ in range(300):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(5)
            sock.connect(("127.0.0.1", gateway.port))
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.send(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 60)
            deaf.append(sock)

        def is_answered() -> bool:
            with contextlib.suppress(OSError):
                return gateway.request("GET", "/health", timeout_s=5).status == 200
            return False

        assert eventually(is_answered, bool, 30)
        assert gateway.chat().status == 200
    finally:
        for sock in deaf:
            sock.close()
        gateway.stop()


def answer_to_a_flood(port: int, head: bytes, again: bytes) -> tuple[bytes, float]:
    """The status that is told to somebody who sends without end, and how long after the beginning."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        began = time.monotonic()
        sock.sendall(head)
        sock.settimeout(0.01)
        while time.monotonic() < began + 20:
            with contextlib.suppress(TimeoutError):
                sock.sendall(again)
            with contextlib.suppress(TimeoutError):
                return sock.recv(READ_BYTES).split(b" ")[1], time.monotonic() - began
    return b"", 20.0


@contextlib.contextmanager
def flood(port: int, head: bytes, again: bytes) -> Iterator[None]:
    """Somebody who sends as fast as it is taken, and another one who reads what is said to that."""
    ended = threading.Event()
    sock = socket.create_connection(("127.0.0.1", port), 5)

    def send() -> None:
        with contextlib.suppress(OSError):
            sock.sendall(head)
            while not ended.is_set():
                sock.sendall(again)

    def read() -> None:
        with contextlib.suppress(OSError):
            while sock.recv(READ_BYTES):
                pass

    threads = [threading.Thread(target=what, daemon=True) for what in (send, read)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    yield
    ended.set()
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(3)
    sock.close()


def wait_of_another(gateway: Gateway) -> float:
    began = time.monotonic()
    assert gateway.request("GET", "/health", timeout_s=5).status == 200
    return time.monotonic() - began


def memory_mb(gateway: Gateway) -> float:
    """Resident, of all workers."""
    lines = [line for pid in gateway.workers() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
