"""Measures one server: what each request, stream, idle stream and large body costs it."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.native import HEADERS, HeldStreams, Load, run_load
from lab.servers import Server

Figures = dict[str, float]

MB = 1024 * 1024
REQUEST_BYTES = 1024
LARGE_BYTES = 10 * MB
AT_ONCE = 50
SLOW_MS = 100
STREAMS_AT_ONCE = 200
CHUNKS = 100
CHUNK_EVERY_MS = 50
IDLE_STREAMS = 500
SETTLE_S = 0.5

WORDS = (
    "The garden lies behind the old house and slopes gently to the river. In spring the apple trees stand in "
    "white bloom, and the children carry baskets of leaves to the far corner, where an aunt keeps her bees. "
)
"""What a system prompt is made of."""

QUESTION = "What should we plant there next year, and when?"
"""No keyword stands in it, so that the whole message is searched and then classified."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long a run takes."""

    rounds: int
    requests_s: float
    single_s: float
    streams: int
    ramp_ms: int
    large_bodies: int


QUICK = Size(rounds=1, requests_s=1.0, single_s=0.7, streams=200, ramp_ms=1000, large_bodies=4)
FULL = Size(rounds=3, requests_s=3.0, single_s=2.0, streams=400, ramp_ms=2500, large_bodies=10)


class Bodies:
    """The requests, as files; each tells the stub what to do in its user's message."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.small = self._write("small", "stub:bytes=1024", REQUEST_BYTES)
        self.slow = self._write("slow", f"stub:delay={SLOW_MS}", REQUEST_BYTES)
        paced = f"stub:chunks={CHUNKS},every={CHUNK_EVERY_MS}"
        self.stream = self._write("stream", paced, REQUEST_BYTES, stream=True)
        self.idle = self._write("idle", "stub:chunks=2,every=600000", REQUEST_BYTES, stream=True)
        self.large = self._write("large", "stub:bytes=1024", LARGE_BYTES)

    def _write(self, name: str, stub: str, size: int, **fields: object) -> Path:
        """A short question behind a system prompt that makes up the rest of the size, as clients send it."""
        question = f"{stub} Letter ########. {QUESTION}"
        around = len(json.dumps(_request("", question, fields)))
        prompt = (WORDS * (size // len(WORDS) + 1))[: size - around]
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(_request(prompt, question, fields)), encoding="ascii")
        return path


def _request(prompt: str, question: str, fields: dict[str, object]) -> dict[str, object]:
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    return {"model": "auto", "messages": messages, "temperature": 0.7, **fields}


def measure(start: Callable[[], Server], bodies: Bodies, size: Size) -> Figures:
    """Everything about one server, which is started fresh: first its memory, while it has done nothing else."""
    began = time.monotonic()
    server = start()
    try:
        run_load(server.port, bodies.small, total=1)
        figures = {"start_s": time.monotonic() - began, "failed": 0.0}
        for step in (_idle, _large, _many, _single, _slow, _streams):
            found = step(server, bodies, size)
            failed = found.pop("failed", 0.0)
            figures["failed"] += failed
            # What a server does with requests that it fails is no figure to compare.
            figures.update({name: math.nan if failed else value for name, value in found.items()})
    finally:
        server.stop()
        os.environ.pop(HEADERS, None)
    return figures


def _idle(server: Server, bodies: Bodies, size: Size) -> Figures:
    """Memory of streams that wait, after a few others have brought in what every server needs once."""
    for body in (bodies.small, bodies.idle):
        with HeldStreams(server.port, body, 20):
            pass
    time.sleep(SETTLE_S)
    before, (rest, largest) = server.process.resident_bytes(), server.process.shared_once_bytes()
    with HeldStreams(server.port, bodies.idle, IDLE_STREAMS) as held:
        time.sleep(SETTLE_S)
        grown = server.process.resident_bytes() - before
    time.sleep(SETTLE_S)
    kept = {"rest_mb": rest / MB, "worker_mb": largest / MB}
    return {**kept, "idle_kb": grown / 1024 / IDLE_STREAMS, "failed": held.lost}


def _large(server: Server, bodies: Bodies, size: Size) -> Figures:
    before = server.process.resident_bytes()
    server.process.forget_peak()
    load, cpu_s = _run(server, bodies.large, total=size.large_bodies)
    peak = server.process.peak_bytes() - before
    return {"large_cpu_ms": cpu_s * 1000 / load.completed, "large_peak_mb": peak / MB, "failed": load.errors}


def _many(server: Server, bodies: Bodies, size: Size) -> Figures:
    _run(server, bodies.small, connections=AT_ONCE, seconds=size.requests_s / 4)
    load, cpu_s = _run(server, bodies.small, connections=AT_ONCE, seconds=size.requests_s)
    return {
        "cpu_ms": cpu_s * 1000 / load.completed,
        "load_cpu_ms": load.cpu_us / 1000 / load.completed,
        "per_second": load.per_second,
        "p50_ms": load.latency.p50_ms,
        "p99_ms": load.latency.p99_ms,
        "failed": load.errors,
    }


def _single(server: Server, bodies: Bodies, size: Size) -> Figures:
    load, _ = _run(server, bodies.small, seconds=size.single_s)
    return {"single_p50_ms": load.latency.p50_ms, "failed": load.errors}


def _slow(server: Server, bodies: Bodies, size: Size) -> Figures:
    load, _ = _run(server, bodies.slow, connections=AT_ONCE, seconds=size.requests_s)
    return {"slow_per_second": load.per_second, "failed": load.errors}


def _streams(server: Server, bodies: Bodies, size: Size) -> Figures:
    load, cpu_s = _run(server, bodies.stream, connections=STREAMS_AT_ONCE, total=size.streams, ramp_ms=size.ramp_ms)
    return {
        "stream_cpu_ms": cpu_s * 1000 / load.completed,
        "first_p50_ms": load.first_byte.p50_ms,
        "first_p99_ms": load.first_byte.p99_ms,
        "delay_p50_ms": load.delay.p50_ms,
        "delay_p99_ms": load.delay.p99_ms,
        "failed": load.errors + abs(load.completed * CHUNKS - load.chunks),
    }


def _run(server: Server, body: Path, **options: float) -> tuple[Load, float]:
    """What the load generator has seen, and the server's CPU seconds meanwhile."""
    before = server.process.cpu_s()
    load = run_load(server.port, body, **options)
    if load.completed == 0:
        raise RuntimeError(f"no answer at all to {body.stem}")
    return load, server.process.cpu_s() - before
