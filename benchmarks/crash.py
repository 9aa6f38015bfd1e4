"""Is a row lost or counted twice when the server is killed? Kills it under load, again and again, and counts.

Callers take note of the id of every answer that has reached them whole. At a random moment the server is killed with a
signal that nobody can catch, the whole of it and its worker alone by turns. When it is back, each of these ids must
have exactly one row in the usage log. Requests without an answer may have a row or none.

    python benchmarks/crash.py              twenty crashes
    python benchmarks/crash.py --times 100 --seed 7
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from lab import native
from lab.client import LOST, Caller, admin_get
from lab.process import clean_up_when_told_to_end, pinned
from lab.servers import HermesServer, hermes_config, start_stub

CALLERS = 16
EARLIEST_S, LATEST_S = 0.2, 2.0
"""When it is killed after the load has begun."""

BACK_LIMIT_S = 30.0
ROWS_LIMIT_S = 20.0
PAGE_ROWS = 1000
TEXTS = ("stub:bytes=1000 Good day.", "stub:chunks=5,every=5 Good day.", "stub:delay=30 Good day.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One crash."""

    what: str
    answered: int
    rows: int
    lost: int
    doubled: int
    back_after_s: float


class Callers:
    """Ask without a pause until they are stopped; `answered` holds the ids of what has come back whole."""

    def __init__(self, port: int) -> None:
        self.answered: list[str] = []
        self._port = port
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CALLERS)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        caller = Caller(self._port, f"crash-{number}")
        text = TEXTS[number % len(TEXTS)]
        is_stream = "chunks" in text
        while not self._over.is_set():
            try:
                answer = caller.ask(text, stream=is_stream)
            except LOST:
                time.sleep(0.02)
                continue
            if answer.status == 200 and (answer.is_done or not is_stream):
                self.answered.append(answer.request_id)
        caller.hang_up()


def main() -> int:
    """The exit status: 1 where a row was lost or doubled."""
    options = _options()
    clean_up_when_told_to_end()
    native.build()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, pinned(native.TOOLS_CPU):
        stub = start_stub(Path(folder))
        try:
            server = HermesServer.start(hermes_config(stub.port))
            try:
                outcomes = [_crash(server, number, chance) for number in range(1, options.times + 1)]
            finally:
                server.stop()
        finally:
            stub.process.stop()
    lost, doubled = sum(each.lost for each in outcomes), sum(each.doubled for each in outcomes)
    answered = sum(each.answered for each in outcomes)
    print(
        f"\n{len(outcomes)} crashes (seed {options.seed}), {answered:,} answers: {lost} lost, {doubled} counted twice"
    )
    return int(lost + doubled > 0)


def _crash(server: HermesServer, number: int, chance: random.Random) -> Outcome:
    """Load, a kill, a restart; then the books are compared."""
    since = datetime.now(UTC) - timedelta(seconds=1)
    with_master = number % 2 == 1
    with Callers(server.port) as callers:
        time.sleep(chance.uniform(EARLIEST_S, LATEST_S))
        killed = time.monotonic()
        if with_master:
            server.process.kill()
            server.restart()
        else:
            server.process.kill_workers()
        _wait_until_back(server)
        back_after_s = time.monotonic() - killed
    outcome = _compare(server, "all" if with_master else "worker", callers.answered, since, back_after_s)
    print(
        f"crash {number:3}, {outcome.what:6}: {outcome.answered:6,} answers, {outcome.rows:6,} rows, "
        f"{outcome.lost} lost, {outcome.doubled} twice, back after {outcome.back_after_s:.1f} s",
        flush=True,
    )
    return outcome


def _wait_until_back(server: HermesServer) -> None:
    until, caller = time.monotonic() + BACK_LIMIT_S, Caller(server.port, "crash")
    while True:
        with suppress(*LOST):
            if caller.ask(TEXTS[0]).status == 200:
                caller.hang_up()
                return
        if time.monotonic() > until:
            raise RuntimeError(f"Hermes did not come back:\n{server.process.printed()[-2000:]}")
        time.sleep(0.02)


def _compare(server: HermesServer, what: str, answered: list[str], since: datetime, back_after_s: float) -> Outcome:
    """Rows against answers; waits a while, since rows of a dead process are moved by the living one."""
    until = time.monotonic() + ROWS_LIMIT_S
    while True:
        rows = _rows(server, since)
        lost = sum(request_id not in rows for request_id in answered)
        if not lost or time.monotonic() > until:
            doubled = sum(rows[request_id] > 1 for request_id in answered) + len(answered) - len(set(answered))
            return Outcome(what, len(answered), rows.total(), lost, doubled, back_after_s)
        time.sleep(0.2)


def _rows(server: HermesServer, since: datetime) -> Counter[str]:
    """How many rows each request has."""
    found: Counter[str] = Counter()
    for page in range(1, 1000):
        query = urlencode({"from": since.isoformat(), "limit": PAGE_ROWS, "page": page})
        rows = json.loads(admin_get(server.port, f"/admin/usage?{query}"))["rows"]
        found.update(row["request_id"] for row in rows)
        if len(rows) < PAGE_ROWS:
            break
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="for the moments of the kills")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
