"""No caller and no provider keeps the others waiting, and no request outlives its time because one of them is slow."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from hermes.web.connections import UNREAD_LATE_S

from . import replies
from .client import Answer
from .gateway import eventually, new_user
from .replies import completion
from .world import World

TIME_S = 0.6
SPARE_S = 0.5
LARGE_TIME_S = 5
"""Enough for a large answer on a busy machine."""


@pytest.fixture
def dripping_tls() -> Iterator[int]:
    """A server that begins a TLS record and then sends it a byte at a time, for ever; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        conn, _ = listener.accept()
        with conn:
            conn.sendall(b"\x16\x03\x03\x40\x00")
            try:
                while not ended.wait(0.05):
                    conn.sendall(b"\0")
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield int(listener.getsockname()[1])
    ended.set()
    listener.close()
    thread.join(2)


def timed(world: World, **how: object) -> tuple[Answer, float]:
    began = time.monotonic()
    return world.gateway.chat(**how), time.monotonic() - began  # type: ignore[arg-type]


def test_a_handshake_that_drips_ends_with_the_requests_time(world: World, dripping_tls: int) -> None:
    slow = world.endpoint(world.primary, base_url=f"https://127.0.0.1:{dripping_tls}/v1", timeout_seconds=30)
    world.configure(simple=[slow])

    answer, took_s = timed(world, headers={"X-Request-Timeout": str(TIME_S)})

    assert answer.status == 504
    assert took_s < TIME_S + SPARE_S


@pytest.mark.parametrize("headers", [{"X-Request-Timeout": str(TIME_S)}, {}], ids=["the caller's", "the tier's"])
def test_a_silent_teacher_takes_a_part_of_the_requests_time_and_never_the_answer(
    world: World, headers: dict[str, str]
) -> None:
    teacher = {"model": "t", "base_url": world.teacher.base_url, "api_key_env": "", "timeout_seconds": 20}
    world.configure(classifier={**teacher, "surrogate": {"enabled": False}})
    world.teacher.script(replies.silence())

    answer, took_s = timed(world, text="which is it", tier=None, headers=headers)

    assert answer.status == 200
    assert answer.headers["x-hermes-decision"] == "default"
    assert took_s < 2 * TIME_S + SPARE_S


def test_a_stream_as_fast_as_the_wire_leaves_the_others_their_turn(world: World) -> None:
    event = replies.chunk({"content": "x" * 200}) * 50
    framed = b"%x\r\n%b\r\n" % (len(event), event)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    fast = world.endpoint(world.primary, timeout_seconds=30)
    world.configure(simple=[fast])
    world.primary.script(replies.over_and_over(head, framed))
    flood = world.gateway.open_chat(stream=True)
    reading = threading.Thread(target=flood.drain, daemon=True)
    reading.start()
    eventually(lambda: world.primary.calls_under_way, bool)

    waits_s = []
    for _ in range(10):
        began = time.monotonic()
        assert world.gateway.request("GET", "/health").status == 200
        waits_s.append(time.monotonic() - began)

    world.primary.script(replies.chat())
    reading.join(5)
    flood.vanish("fin")
    assert max(waits_s) < 1.0


def test_a_caller_who_does_not_read_is_let_go_at_the_end_of_the_requests_time(world: World) -> None:
    event = replies.chunk({"content": "x" * 2000}) * 20
    framed = b"%x\r\n%b\r\n" % (len(event), event)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(replies.over_and_over(head, framed))
    user = new_user()

    sleeper = world.gateway.open_chat(user=user, stream=True, headers={"X-Request-Timeout": str(TIME_S)})
    (row,) = world.gateway.usage(user_id=user)
    sleeper.vanish("fin")

    assert row["status"] in ("interrupted", "client_disconnected")
    assert row["duration_ms"] < (TIME_S + SPARE_S + 0.5) * 1000


def test_a_whole_answer_that_is_not_read_is_let_go_soon_after_the_requests_time(world: World) -> None:
    """Its row is there before its first byte leaves: it has been paid for."""
    world.primary.script(replies.answer(200, completion("x" * 20_000_000)))
    user = new_user()
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Hermes-User: {user}\r\nX-Hermes-Tier: simple\r\n"
        f"X-Request-Timeout: {LARGE_TIME_S}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", world.gateway.port))
        deaf.sendall(head.encode() + body)
        watch = select.poll()
        watch.register(deaf, select.POLLHUP | select.POLLERR)
        began = time.monotonic()
        ended = watch.poll(20_000)
        after_s = time.monotonic() - began

    assert ended
    assert after_s < LARGE_TIME_S + UNREAD_LATE_S + 3
    assert [row["status"] for row in world.gateway.usage(user_id=user)] == ["ok"]


def test_who_reads_slowly_gets_a_large_answer_whole_though_the_requests_time_is_over(world: World) -> None:
    said = "x" * 8_000_000
    world.primary.script(replies.answer(200, completion(said)))
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Hermes-Tier: simple\r\nConnection: close\r\n"
        f"X-Request-Timeout: {LARGE_TIME_S}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    got = bytearray()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        slow.connect(("127.0.0.1", world.gateway.port))
        slow.sendall(head.encode() + body)
        began = time.monotonic()
        while piece := slow.recv(65536):
            got += piece
            time.sleep(0.03 if time.monotonic() < began + LARGE_TIME_S + 1 else 0)
        took_s = time.monotonic() - began

    assert took_s > LARGE_TIME_S, "it was read beyond the request's time"
    assert said.encode() in got
