"""Does anything grow? Mixed traffic with failures for some minutes, and what the server holds every ten seconds.

Callers ask, stream, leave in the middle, and meet a provider that refuses, breaks off and is busy. Flat means: memory
grows by less than 1 MB a minute once the server is warm (least squares), and when all is over no file, socket, thread
or greenlet is left that was not there before. Native threads are begun when they are first needed, so theirs is the
number that the warm server has.

    python benchmarks/soak.py                 ten minutes
    python benchmarks/soak.py --minutes 60
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import native
from lab.client import LOST, Answer, Caller, admin_get
from lab.process import clean_up_when_told_to_end, pinned
from lab.servers import PRICE, HermesServer, start_stub

CALLERS = 24
CONVERSATIONS = 20
"""Of each caller: sessions are kept for more than an hour, and must not look like a leak."""

STEEPEST_MB_A_MINUTE = 1.0
WARM_SHARE = 0.4
"""Of the samples, the first that do not count: caches fill, the allocator takes its pools."""

WARM_MINUTES = 8.0
"""A shorter run says nothing about memory."""

SPARE_DESCRIPTORS = 4
SPARE_GREENLETS = 2
"""The pool's greenlets that wait for a next connection come and go."""

IDLE_S = 6.0
"""After this, connections to the provider are too old to be used again."""

KEYS = {"STUB_KEY_A": "benchmark-key-a", "STUB_KEY_B": "benchmark-key-b"}


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that callers do."""

    name: str
    weight: int
    stub: str
    stream: bool = False
    leaves_after_s: float | None = None
    expects: Callable[[Answer], bool] = lambda answer: answer.status == 200


def _done(answer: Answer) -> bool:
    return answer.status == 200 and answer.is_done and not answer.was_cut


def _cut(answer: Answer) -> bool:
    return answer.status == 200 and answer.is_done and answer.was_cut


ACTS = (
    Act("whole", 50, "bytes=2000"),
    Act("slow", 6, "delay=200"),
    Act("stream", 20, "chunks=20,every=10", True, expects=_done),
    Act("leaves a stream", 8, "chunks=500,every=10", True, leaves_after_s=0.15),
    Act("leaves before an answer", 4, "delay=2000", leaves_after_s=0.1),
    Act("429, then the fallback", 3, "status=429"),
    Act("503, then the fallback", 3, "status=503"),
    Act("500, then the fallback", 3, "status=500"),
    Act("cut, then the fallback", 3, "cut=0"),
    Act("stream refused, then the fallback", 2, "status=500,chunks=5,every=10", True, expects=_done),
    # The fallback does not cut: it answers these where the primary's circuit is open.
    Act("stream cut in the middle", 3, "chunks=10,every=10,cut=5", True, expects=lambda a: _cut(a) or _done(a)),
    Act("not understood", 2, "status=400", expects=lambda answer: answer.status in (200, 400)),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the server holds at one moment."""

    minute: float
    requests: int
    resident_mb: float
    descriptors: int
    threads: int
    greenlets: int
    spool_rows: float
    sessions: float


class Traffic:
    """Callers in threads of this process, each doing one act after another."""

    def __init__(self, port: int) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self._port = port
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CALLERS)]

    @property
    def requests(self) -> int:
        """How many so far."""
        return sum(self.done.values())

    def start(self) -> None:
        """Lets all begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Lets all end what they do."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        chance, caller = random.Random(number), Caller(self._port, f"soak-{number}")
        while not self._over.wait(chance.uniform(0.0, 0.1)):
            act = chance.choices(ACTS, [each.weight for each in ACTS])[0]
            caller.session = f"letter-{chance.randrange(CONVERSATIONS)}"
            problem = self._do(caller, act, f"stub:{act.stub} The next page, please.")
            self.done[act.name] += 1
            if problem:
                self.wrong[f"{act.name}: {problem}"] += 1
        caller.hang_up()

    def _do(self, caller: Caller, act: Act, text: str) -> str:
        """What went wrong, or nothing."""
        if act.leaves_after_s is not None:
            caller.leave_after(act.leaves_after_s, text, stream=act.stream)
            return ""
        try:
            answer = caller.ask(text, stream=act.stream)
        except LOST as error:
            return f"the connection was lost ({type(error).__name__})"
        return "" if act.expects(answer) else f"status {answer.status}, {len(answer.body)} bytes"


def main() -> int:
    """The exit status: 0 where nothing grows and every answer was as it should be."""
    options = _options()
    clean_up_when_told_to_end()
    native.build()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, pinned(native.TOOLS_CPU):
        stub = start_stub(Path(folder))
        try:
            server = HermesServer.start(_config(stub.port), **KEYS)
            try:
                return int(not soak(server, options.minutes, options.every))
            finally:
                server.stop()
        finally:
            stub.process.stop()


def soak(server: HermesServer, minutes: float, every_s: float) -> bool:
    """Runs the traffic and prints what is seen; whether all is flat and right."""
    _warm_up(server)
    before = server.process.descriptors(), server.process.greenlets()
    traffic, samples, began = Traffic(server.port), [], time.monotonic()
    print("minute  requests  memory MB  descriptors  threads  greenlets  spool rows  sessions", flush=True)
    traffic.start()
    try:
        while (past_s := time.monotonic() - began) < minutes * 60:
            time.sleep(min(every_s, minutes * 60 - past_s))
            samples.append(_sample(server, traffic, began))
            print(_line(samples[-1]), flush=True)
    finally:
        traffic.stop()
    _warm_up(server)
    time.sleep(IDLE_S)
    _warm_up(server)
    print("after the end:\n" + _line(_sample(server, traffic, began)))
    after = server.process.descriptors(), server.process.greenlets()
    return _verdict(samples, traffic, before, after, server.process.threads())


def slope_a_minute(samples: Sequence[Sample]) -> float:
    """MB a minute, by least squares over the samples after the warm-up."""
    warm = samples[int(len(samples) * WARM_SHARE) :]
    mean_x = sum(sample.minute for sample in warm) / len(warm)
    mean_y = sum(sample.resident_mb for sample in warm) / len(warm)
    spread = sum((sample.minute - mean_x) ** 2 for sample in warm)
    rise = sum((sample.minute - mean_x) * (sample.resident_mb - mean_y) for sample in warm)
    return rise / spread if spread else 0.0


def _verdict(
    samples: Sequence[Sample],
    traffic: Traffic,
    before: tuple[int, list[str]],
    after: tuple[int, list[str]],
    threads: int,
) -> bool:
    slope, is_warm = slope_a_minute(samples), samples[-1].minute >= WARM_MINUTES
    note = "" if is_warm else f"; not judged, as caches fill for the first {WARM_MINUTES:.0f} minutes"
    warm_threads = max(sample.threads for sample in samples[: max(1, int(len(samples) * WARM_SHARE))])
    checks = (
        (slope < STEEPEST_MB_A_MINUTE or not is_warm, f"memory: {slope:+.2f} MB a minute once warm{note}"),
        (after[0] <= before[0] + SPARE_DESCRIPTORS, f"descriptors: {before[0]} before, {after[0]} after the end"),
        (
            len(after[1]) <= len(before[1]) + SPARE_GREENLETS,
            f"greenlets: {len(before[1])} before, {len(after[1])} after the end"
            + "".join(f"\n      {place}" for place in after[1]),
        ),
        (threads <= warm_threads, f"threads: {warm_threads} once warm, {threads} after the end"),
        (not traffic.wrong, f"answers: {traffic.requests:,}, {sum(traffic.wrong.values())} not as they should be"),
    )
    print("\nacts: " + ", ".join(f"{name} {count:,}" for name, count in sorted(traffic.done.items())))
    for is_right, text in checks:
        print(f"{'ok  ' if is_right else 'FAIL'}  {text}")
    for problem, count in traffic.wrong.most_common(20):
        print(f"      {count} x {problem}")
    return all(is_right for is_right, _ in checks)


def _warm_up(server: HermesServer) -> None:
    """A request and the admin routes, so that what is opened once is open; old connections are let go of meanwhile."""
    caller = Caller(server.port, "soak")
    caller.ask("stub:bytes=1000 Good day.")
    caller.hang_up()
    for path in ("/admin/usage?limit=1", "/metrics"):
        admin_get(server.port, path)


def _sample(server: HermesServer, traffic: Traffic, began: float) -> Sample:
    metrics = _metrics(server)
    return Sample(
        (time.monotonic() - began) / 60,
        traffic.requests,
        server.process.resident_bytes() / 1024 / 1024,
        server.process.descriptors(),
        server.process.threads(),
        len(server.process.greenlets()),
        metrics.get("hermes_spool_depth", 0.0),
        metrics.get("hermes_router_sessions_active", 0.0),
    )


def _metrics(server: HermesServer) -> dict[str, float]:
    """The values without labels."""
    lines = admin_get(server.port, "/metrics").decode().splitlines()
    pairs = [line.split(" ") for line in lines if not line.startswith("#") and "{" not in line]
    return {name: float(value) for name, value in pairs}


def _line(sample: Sample) -> str:
    return (
        f"{sample.minute:6.1f}  {sample.requests:8,}  {sample.resident_mb:9.1f}  {sample.descriptors:11}  "
        f"{sample.threads:7}  {sample.greenlets:9}  {sample.spool_rows:10.0f}  {sample.sessions:8.0f}"
    )


def _config(stub_port: int) -> dict[str, object]:
    def endpoint(model: str, path: str) -> dict[str, object]:
        url = f"http://127.0.0.1:{stub_port}{path}"
        return {"model": model, "base_url": url, "api_key_envs": list(KEYS), "price": PRICE, "timeout_seconds": 20}

    endpoints = [endpoint("small", "/v1"), endpoint("small-fallback", "/fallback/v1")]
    return {
        "models": {"simple": {"endpoints": endpoints}, "complex": {"endpoints": endpoints}},
        "circuit_breaker": {"recovery_timeout_sec": 1},
        "retry": {"backoff_503_sec": [0.05, 0.1]},
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two samples")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
