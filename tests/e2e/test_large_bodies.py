"""Whatever somebody sends, and however much of it, the others hardly notice: the event loop goes on."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from .client import Answer
from .gateway import CHAT
from .world import World

WORST_GAP_S = 0.25
"""An answer of /health takes 1 ms; 50 ms are aimed at, the rest is for machines with other work."""

HEADERS = {"Content-Type": "application/json", "X-Hermes-Tier": "simple"}
HI = b'"messages":[{"role":"user","content":"hi"}]'


def listed(item: bytes, number: int) -> bytes:
    """A JSON list of equal items."""
    return b"[" + b",".join([item] * number) + b"]"


def conversation(messages: bytes) -> bytes:
    return b'{"messages":%b,"model":"simple"}' % messages


def one_text(text: bytes) -> bytes:
    return conversation(b'[{"role":"user","content":"%b"}]' % text)


def one_image(data: bytes) -> bytes:
    return conversation(b'[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:%b"}}]}]' % data)


def beside(field: bytes) -> bytes:
    """A field between the messages and the model."""
    return b'{%b,"x":%b,"model":"simple"}' % (HI, field)


def message(content: bytes) -> bytes:
    return b'{"role":"user","content":%b}' % content


def of_parts(part: bytes, number: int) -> bytes:
    return conversation(b"[%b]" % message(listed(part, number)))


SENT: list[tuple[str, Callable[[], bytes], int]] = [
    ("a text of 20 MB", lambda: one_text(b"x" * 20_000_000), 200),
    ("an image of 20 MB", lambda: one_image(b"QUJD" * 5_000_000), 200),
    ("20 MB of escaped quotes", lambda: one_text(rb"\"" * 10_000_000), 200),
    ("20 MB of escaped Chinese", lambda: one_text(rb"\u4f60" * 3_300_000), 200),
    ("an agent's 10 MB", lambda: conversation(listed(message(b'"%b"' % (b"word " * 1000)), 2000)), 200),
    ("20,000 messages", lambda: conversation(listed(message(b'"a"'), 20_000)), 200),
    ("100,000 messages", lambda: conversation(listed(message(b'"a"'), 100_000)), 400),
    ("400,000 messages", lambda: conversation(listed(message(b'"a"'), 400_000)), 400),
    ("20,000 long parts", lambda: of_parts(b'"%b"' % (b"a b " * 250), 20_000), 200),
    ("300,000 parts", lambda: of_parts(b'{"type":"text","text":"a b"}', 300_000), 400),
    ("390,000 numbers", lambda: beside(listed(b"1", 390_000)), 200),
    ("10,000,000 numbers", lambda: beside(listed(b"1", 10_000_000)), 400),
    ("390,000 texts", lambda: beside(listed(b'"a"', 390_000)), 200),
    ("10,000,000 empty lists", lambda: beside(listed(b"[]", 10_000_000)), 400),
    ("NaN among 100,000 objects", lambda: beside(b"[NaN,%b]" % listed(b'{"a":1}', 100_000)), 200),
    ("NaN among 450,000 objects", lambda: beside(b"[NaN,%b]" % listed(b'{"a":1}', 450_000)), 400),
    ("500,000 fields", lambda: b"{%b,%b}" % (HI, b",".join(b'"k%d":1' % number for number in range(500_000))), 400),
    ("20 MB of blanks", lambda: beside(b" " * 20_000_000 + b"1"), 400),
    ("20 MB of digits", lambda: beside(b"1" * 20_000_000), 400),
    ("20 MB of brackets", lambda: b"[" * 20_000_000, 400),
    ("20 MB without an end", lambda: b'{"a":"' + b"x" * 20_000_000, 400),
]


@contextmanager
def ticking(world: World) -> Iterator[list[float]]:
    """Asks /health again and again meanwhile; how long each answer took, in seconds."""
    gaps: list[float] = []
    is_over = threading.Event()
    connection = http.client.HTTPConnection("127.0.0.1", world.gateway.port, timeout=30)

    def tick() -> None:
        while not is_over.wait(0.002):
            began = time.monotonic()
            connection.request("GET", "/health")
            connection.getresponse().read()
            gaps.append(time.monotonic() - began)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield gaps
    finally:
        is_over.set()
        thread.join()
        connection.close()


def send(world: World, body: bytes) -> Answer:
    return world.gateway.request("POST", CHAT, HEADERS, body, timeout_s=30)


@pytest.fixture
def patient_world(world: World) -> World:
    """A provider that has time to read twenty megabytes."""
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=20)])
    return world


@pytest.mark.parametrize(("make", "status"), [pytest.param(make, status, id=name) for name, make, status in SENT])
def test_a_large_body_holds_up_nobody_else(patient_world: World, make: Callable[[], bytes], status: int) -> None:
    body = make()

    with ticking(patient_world) as gaps:
        got = send(patient_world, body)

    assert got.status == status, got.body[:300]
    assert max(gaps) <= WORST_GAP_S
    if status == 200:
        (call,) = patient_world.primary.calls
        assert len(call.body) == len(body) + len('"primary-model"') - len('"simple"')
    else:
        assert got.error["type"] == "invalid_request_error"


def test_many_large_bodies_take_turns(patient_world: World) -> None:
    body = beside(listed(b'"a"', 200_000))

    with ticking(patient_world) as gaps, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: send(patient_world, body), range(6)))

    assert [answer.status for answer in answers] == [200] * 6
    assert max(gaps) <= WORST_GAP_S
