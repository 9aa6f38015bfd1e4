"""Whatever bytes providers send, the caller gets whole HTTP: an answer, a stream with its end, or an error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import replies
from .gateway import eventually
from .world import World

TIMES = 150
"""Of each kind, in one run; the same ones in every run."""

GROWTH_MB = 16.0
SEED = 20261201
TOKENS = [
    b"\r\n", b"\n", b"data:", b"{", b"}", b"[", b"]", b'"', b"\x00", b"\xff\xfe", b"0\r\n\r\n", b"[DONE]", b"NaN",
    b"1e999", b"\\ud800", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1 200 OK\r\n", b"null",
    b"-1", b"event: error\n", b"\xef\xbb\xbf", b"ffffffffffffffff\r\n", b"Content-Encoding: gzip\r\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    """With breakers that never open, so that every mutation is met."""
    world = World({"circuit_breaker": {"failure_threshold": 1_000_000}})
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs


def mutated(rng: random.Random, whole: bytes) -> bytes:
    """With one to four bytes or pieces changed, left out, put in or repeated."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        at, how = rng.randrange(len(data)), rng.randrange(4)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at : at + rng.randint(1, 30)]
        elif how == 2:
            data[at:at] = rng.choice(TOKENS)
        else:
            start = rng.randrange(len(data))
            data[at:at] = data[start : start + rng.randint(1, 60)]
    return bytes(data)


@pytest.mark.parametrize("stream", [False, True], ids=["an answer", "a stream"])
def test_garbage_in_and_http_out(world: World, stream: bool) -> None:
    rng = random.Random(SEED)
    said = replies.stream("one", "zwölf", "three") if stream else replies.chat("zwölf")
    before, counts = resident_mb(world), {200: 0, 502: 0}

    for _ in range(TIMES):
        for provider in (world.primary, world.fallback):
            provider.script(replies.raw(mutated(rng, replies.wire(said))))
        got = world.gateway.chat(stream=stream)

        assert got.problem is None, got.raw
        counts[got.status] += 1
        if got.status == 502:
            assert got.error["attempts"], got.body
        elif stream:  # what events say is handed on as it is; that an end is told is Hermes's
            assert got.is_stream
            assert got.body.endswith(b"data: [DONE]\n\n") or b'"finish_reason":"stop"' in got.body, got.body
        else:
            assert isinstance(got.json["choices"], list)

    assert min(counts.values()) > 0, "some pass and some do not"
    assert resident_mb(world) - before < GROWTH_MB
    assert eventually(lambda: gap_and_depth(world), lambda seen: seen == [0, 0], 5) == [0, 0]


def gap_and_depth(world: World) -> list[float]:
    lines = dict(line.rsplit(" ", 1) for line in world.gateway.admin("GET", "/metrics").body.decode().splitlines())
    return [float(lines[name]) for name in ("hermes_ledger_gap", "hermes_spool_depth")]


def resident_mb(world: World) -> float:
    (pid,) = world.gateway.workers()
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
