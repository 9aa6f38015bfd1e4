"""Do reports stay fast on a million usage rows, and does the server stay quick for others meanwhile?

Fills the usage log of SQLite and of Postgres (if there is one) with rows of a busy quarter. A server with light traffic
first adds up their sums, as after an upgrade; then it is asked for pages of the log, deep ones, filtered ones, filters
that match nothing, the whole as CSV. Shown is the time to the first byte. The sums behind the dashboard are asked
directly. All the while another process asks for `/health` every few ms: what it waits for longest says how long the
event loop stood still.

    python benchmarks/reports.py                    about six minutes
    python benchmarks/reports.py --rows 100000      rough, a minute and a half
    python benchmarks/reports.py --only postgres
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lab import native
from lab.client import admin_get
from lab.ledgerrows import DAYS, a_database, fill_postgres, fill_sqlite
from lab.process import busy_share, clean_up_when_told_to_end, pinned
from lab.servers import ADMIN_KEY, HermesServer, hermes_config, start_stub
from lab.watch import Watch

from hermes.storage.backfill import Backfill
from hermes.storage.db import Database, migrate
from hermes.storage.reports import Reports

TIMES = 20
TARGET_MS, LOOP_TARGET_MS = 150.0, 50.0
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was asked again and again; milliseconds."""

    name: str
    times_ms: tuple[float, ...]
    waited_ms: float = 0.0
    """The longest that `/health` took meanwhile."""

    @property
    def is_slow(self) -> bool:
        return statistics.median(self.times_ms) > TARGET_MS

    def line(self) -> tuple[str, ...]:
        low, middle, high = min(self.times_ms), statistics.median(self.times_ms), max(self.times_ms)
        return (
            self.name,
            f"{low:.1f}",
            f"{middle:.1f}",
            f"{high:.1f}",
            f"{self.waited_ms:.0f}" if self.waited_ms else "–",
        )


# -- what is asked ----------------------------------------------------------------------------------------


def questions(rows: int) -> dict[str, dict[str, Any]]:
    """Queries of `/admin/usage` by what they are."""
    now = datetime.now(UTC)
    hour, month = timedelta(hours=1), timedelta(days=30)
    deep = max(1, rows // 200)
    return {
        "first page": {},
        "first page of 1000": {"limit": 1000},
        f"page {deep}": {"page": deep, "limit": 100},
        f"page {2 * deep - 1}, the last": {"page": 2 * deep - 1, "limit": 100},
        f"page {100 * deep}, behind the last": {"page": 100 * deep, "limit": 100},
        "request_id": {"request_id": f"req_1_{rows // 2:09d}"},
        "user_id": {"user_id": "user-7"},
        "user_id, page 10": {"user_id": "user-7", "page": 10},
        "function_name": {"function_name": "function-3"},
        "model": {"model": "sonnet"},
        "model, page 500": {"model": "sonnet", "page": min(500, deep // 10 or 1)},
        "tier": {"tier": "complex"},
        "status=interrupted": {"status": "interrupted"},
        "user_id, model, status": {"user_id": "user-7", "model": "sonnet", "status": "error"},
        "function_name, tier, status": {"function_name": "function-3", "tier": "complex", "status": "interrupted"},
        "model, status of no row": {"model": "sonnet", "status": "client_disconnected"},
        "model of the other tier: no row": {"model": "sonnet", "tier": "simple"},
        "model, tier, function of no row": {"model": "sonnet", "tier": "simple", "function_name": "function-0"},
        "unknown user": {"user_id": "nobody"},
        "unknown model": {"model": "nothing"},
        "an hour a month ago": {"from": (now - month).isoformat(), "to": (now - month + hour).isoformat()},
        "a month, status=refused": {"from": (now - month).isoformat(), "status": "refused"},
        "before all rows": {"to": (now - timedelta(days=DAYS + 5)).isoformat()},
        "after all rows": {"from": (now + hour).isoformat()},
        "user_id, the oldest week": {"user_id": "user-7", "to": (now - timedelta(days=DAYS - 7)).isoformat()},
    }


def first_byte_ms(port: int, path: str) -> float:
    """The time until the answer's first byte; the rest is not waited for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        response = connection.getresponse()
        response.read(1)
        took_ms = (time.perf_counter() - began) * 1000
        if response.status != 200:
            raise SystemExit(f"{path} answered {response.status}: {response.read()[:300]!r}")
        return took_ms
    finally:
        connection.close()


def of_pages(port: int, watch: Watch, rows: int) -> Iterator[Figure]:
    paths = {name: f"/admin/usage?{urlencode(query)}" for name, query in questions(rows).items()}
    paths["CSV of all, first byte"] = "/admin/usage.csv"
    paths["CSV of no row, first byte"] = "/admin/usage.csv?user_id=nobody"
    for name, path in paths.items():
        yield repeated(name, watch, lambda path=path: first_byte_ms(port, path))  # type: ignore[misc]


def of_sums(url: str) -> Iterator[Figure]:
    """What the dashboard asks, from this process: the server's loop has no part in it."""
    database = Database.open(url)
    reports, now = Reports(database), datetime.now(UTC)
    day, week, quarter = now - timedelta(days=1), now - timedelta(days=7), now - timedelta(days=DAYS)
    users = [name for name, _ in reports.top(quarter, now, "user", 8)]
    asked: dict[str, Callable[[], Any]] = {
        "sums: totals of 24 hours": lambda: reports.totals(day, now),
        "sums: totals of 90 days": lambda: reports.totals(quarter, now),
        "sums: flow of 24 hours": lambda: reports.flow(day, now),
        "sums: flow of 90 days": lambda: reports.flow(quarter, now),
        "sums: p95 of 24 hours": lambda: reports.latency(day, now, "duration").percentile_ms(0.95),
        "sums: p95 of 90 days": lambda: reports.latency(quarter, now, "duration").percentile_ms(0.95),
        "sums: p95 by the hour, 7 days": lambda: reports.latencies(week, now, "duration"),
        "sums: minutes of 24 hours": lambda: reports.minutes(day, now),
        "sums: 90 days by model": lambda: reports.series(quarter, now, "day", "model"),
        "sums: 90 days of 8 users": lambda: reports.series(quarter, now, "day", "user", users),
        "sums: 7 days by hour and function": lambda: reports.series(week, now, "hour", "function"),
        "sums: top 10 users of 90 days": lambda: reports.top(quarter, now, "user", 10),
        "sums: top 10 functions of 24 hours": lambda: reports.top(day, now, "function", 10),
    }
    for name, ask in asked.items():
        yield repeated(name, None, lambda ask=ask: timed_ms(ask))  # type: ignore[misc]
    database.close()


def timed_ms(ask: Callable[[], Any]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def repeated(name: str, watch: Watch | None, ask: Callable[[], float]) -> Figure:
    if watch is not None:
        watch.take()
    times = []
    for _ in range(TIMES):
        times.append(ask())
        time.sleep(PAUSE_S)
    return Figure(name, tuple(times), watch.take() if watch is not None else 0.0)


# -- one database -----------------------------------------------------------------------------------------


def measure(kind: str, url: str, rows: int, stub_port: int) -> list[Figure]:
    """Fills a database, lets a server add up its sums, asks."""
    migrate(url, native.ROOT / "migrations")
    began = time.monotonic()
    fill_postgres(url, rows) if kind == "postgres" else fill_sqlite(Path(url.removeprefix("sqlite:///")), rows)
    say(f"{kind}: {rows:,} rows filled in {time.monotonic() - began:.0f} s")
    server = HermesServer.start(hermes_config(stub_port, logging={"retention_days": 2 * DAYS}), HERMES_DATABASE_URL=url)
    try:
        with Watch(server.port) as watch:
            catch_up(kind, url, rows, watch)
            figures = []
            for figure in of_pages(server.port, watch, rows):
                figures.append(figure)
                say(f"{kind}: {'  '.join(figure.line())}")
            whole_csv(kind, server.port, watch)
        figures += of_sums(url)
        is_right(url, rows)
        say(f"{kind}: {ledger_of(server.port)}")
        return figures
    finally:
        server.stop()


def catch_up(kind: str, url: str, rows: int, watch: Watch) -> None:
    """Waits until the server has added up the rows from before the upgrade."""
    database = Database.open(url)
    began = time.monotonic()
    while not Backfill(database).progress().is_complete:
        time.sleep(0.5)
    took_s = time.monotonic() - began
    database.close()
    say(
        f"{kind}: sums of old rows added at {rows / took_s:,.0f} a second; /health waited {watch.take():.0f} ms at most"
    )


def whole_csv(kind: str, port: int, watch: Watch) -> None:
    began = time.monotonic()
    size = lines = 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/admin/usage.csv", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
    response = connection.getresponse()
    while block := response.read(1 << 20):
        size += len(block)
        lines += block.count(b"\n")
    connection.close()
    took_s = time.monotonic() - began
    say(
        f"{kind}: the whole CSV: {lines - 1:,} rows, {size / 2**20:.0f} MiB in {took_s:.0f} s "
        f"({lines / took_s:,.0f} rows a second); /health waited {watch.take():.0f} ms at most"
    )


def is_right(url: str, rows: int) -> None:
    database = Database.open(url)
    found = Reports(database).totals(datetime(2000, 1, 1), datetime(2100, 1, 1)).sums.requests  # noqa: DTZ001
    database.close()
    if found < rows:
        raise SystemExit(f"The sums have {found} requests of {rows}")


def ledger_of(port: int) -> str:
    text = admin_get(port, "/metrics").decode()
    return next(line for line in text.splitlines() if line.startswith("hermes_ledger_gap "))


# -- what is shown ----------------------------------------------------------------------------------------

HEAD = ("what is asked", "min", "p50", "max", "/health waited, max")


def table(figures: list[Figure]) -> str:
    lines = [HEAD, *(figure.line() for figure in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    shown = [" | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
    rule = " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(f"| {line} |" for line in (shown[0], rule, *shown[1:]))


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many rows (default: a million)")
    parser.add_argument("--only", choices=("sqlite", "postgres"), help="one of the two databases")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    clean_up_when_told_to_end()
    native.build()
    busy = busy_share()
    found: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-stub-") as folder:
        stub = start_stub(Path(folder))
        try:
            with pinned(native.TOOLS_CPU):
                for kind in (arguments.only,) if arguments.only else ("sqlite", "postgres"):
                    with a_database(kind) as url:
                        if url is not None:
                            found[kind] = measure(kind, url, arguments.rows, stub.port)
        finally:
            stub.process.stop()
    for kind, figures in found.items():
        say(f"\n{kind}, {arguments.rows:,} rows, ms to the first byte, {TIMES} times each\n\n{table(figures)}")
    slow = [f"{kind}: {figure.name}" for kind, figures in found.items() for figure in figures if figure.is_slow]
    stood = [
        f"{kind}: {figure.name}" for kind, figures in found.items() for figure in figures
        if figure.waited_ms > LOOP_TARGET_MS
    ]  # fmt: skip
    say(f"\nOver {TARGET_MS:.0f} ms: {', '.join(slow) or 'nothing'}.")
    say(f"/health over {LOOP_TARGET_MS:.0f} ms beside: {', '.join(stood) or 'nothing'}.")
    say(f"Other programs took {busy:.0%} of the machine before it began.")
    if arguments.json:
        whole = {kind: {figure.name: figure.times_ms for figure in figures} for kind, figures in found.items()}
        arguments.json.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
