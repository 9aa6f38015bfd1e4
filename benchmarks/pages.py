"""Does every page of the dashboard answer at once on a million usage rows, whatever is filtered and sorted by?

Fills the usage log of SQLite and of Postgres (if there is one) with rows of a busy quarter and adds up their sums. Then
a real server is started, an operator signs in, and each page is asked for, with what can be clicked on it: ranges,
filters, orders, the parts that load by themselves. Shown is the time to the last byte of an answer: cold, the first
time in a process that has just been started, and warm, while another process asks for `/health` every few ms. Where
others use the machine, the processor time that an answer costs is the figure that holds.

    python benchmarks/pages.py                    about ten minutes
    python benchmarks/pages.py --rows 100000      rough, a few minutes
    python benchmarks/pages.py --only postgres
    python benchmarks/pages.py --keep sqlite:////tmp/big.db     fills it the first time and leaves it there
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from lab import native
from lab.ledgerrows import DAYS, a_database, fill_postgres, fill_sqlite
from lab.process import busy_share, clean_up_when_told_to_end, pinned
from lab.servers import ADMIN_KEY, HermesServer, hermes_config, start_stub
from lab.watch import Watch

from hermes.storage.backfill import Backfill
from hermes.storage.daysums import DaySums
from hermes.storage.db import Database, migrate
from hermes.storage.reports import Reports

TIMES = 7
TARGET_MS, LOOP_TARGET_MS = 150.0, 50.0
PAUSE_S = 0.02
SETTLE_S = 4.0
SUMMED_ROWS = 20_000
BUDGETS = (
    {"scope": "global", "period": "day", "limit_usd": 50, "action": "warn"},
    {"scope": "global", "period": "month", "limit_usd": 1200},
    {"scope": "user", "id": "user-7", "period": "day", "limit_requests": 900},
    {"scope": "user", "id": "*", "period": "month", "limit_tokens": 9_000_000, "action": "downgrade"},
    {"scope": "function", "id": "function-3", "period": "week", "limit_usd": 30, "action": "warn"},
    {"scope": "key", "id": "*", "period": "month", "limit_usd": 500, "action": "warn"},
)


@dataclass(frozen=True, slots=True)
class Asked:
    """An address of the dashboard."""

    page: str
    what: str
    path: str


@dataclass(frozen=True, slots=True)
class Figure:
    """How long it took; milliseconds."""

    asked: Asked
    cold_ms: float
    warm_ms: tuple[float, ...]
    waited_ms: float
    """The longest that `/health` took meanwhile."""

    cpu_ms: float
    """What a cold answer costs the server, before anybody watches; the database, where it is a server, not counted."""

    @property
    def warm(self) -> float:
        """The middle one."""
        return statistics.median(self.warm_ms)

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        asked = self.asked
        warm = (f"{self.warm:.0f}", f"{min(self.warm_ms):.0f}")
        return (asked.page, asked.what, f"{self.cold_ms:.0f}", *warm, f"{self.cpu_ms:.0f}", f"{self.waited_ms:.0f}")


# -- what can be clicked ----------------------------------------------------------------------------------

FILTERS: dict[str, dict[str, str]] = {
    "nothing": {},
    "failed": {"status": "failed"},
    "fallback": {"fallback": "1"},
    "slower than 5 s": {"min_duration_ms": "5000"},
    "slower than a minute": {"min_duration_ms": "60000"},
    "status ok": {"status": "ok"},
    "status of no row": {"status": "client_disconnected"},
    "user": {"user_id": "user-7"},
    "function": {"function_name": "function-3"},
    "model": {"model": "sonnet"},
    "tier": {"tier": "complex"},
    "decision": {"decision": "teacher"},
    "decision of no row": {"decision": "role"},
    "key": {"key_id": "key_3"},
    "unknown user": {"user_id": "nobody"},
    "user, failed": {"user_id": "user-7", "status": "failed"},
    "user, decision": {"user_id": "user-7", "decision": "teacher"},
    "user, fallback": {"user_id": "user-7", "fallback": "1"},
    "user, key of others": {"user_id": "user-7", "key_id": "key_3"},
    "function, user": {"function_name": "function-3", "user_id": "user-7"},
    "function, failed": {"function_name": "function-3", "status": "failed"},
    "function, fallback": {"function_name": "function-3", "fallback": "1"},
    "function, key": {"function_name": "function-3", "key_id": "key_3"},
    "model, decision": {"model": "sonnet", "decision": "teacher"},
    "model, slow": {"model": "sonnet", "min_duration_ms": "5000"},
    "model of the other tier": {"model": "sonnet", "tier": "simple"},
    "model, failed, fallback": {"model": "sonnet", "status": "failed", "fallback": "1"},
    "tier, failed": {"tier": "complex", "status": "failed"},
    "tier, decision, fallback": {"tier": "complex", "decision": "teacher", "fallback": "1"},
    "key, failed": {"key_id": "key_3", "status": "failed"},
    "key, slow": {"key_id": "key_3", "min_duration_ms": "5000"},
    "decision, failed": {"decision": "teacher", "status": "failed"},
    "text: a user": {"q": "user-7"},
    "text: many users": {"q": "user-1"},
    "text: nothing": {"q": "nothing like this"},
}
SORTS = ("duration_ms", "estimated_cost_usd", "total_tokens")
SORTED = ("nothing", "failed", "user", "model", "tier", "decision", "fallback", "key", "function, failed", "key, slow")
RANGES = ("1h", "6h", "24h", "7d", "30d", "all")


def overview() -> Iterator[Asked]:
    """The first page that anybody sees."""
    for length in ("24h", "1h", "6h", "7d"):
        yield Asked("Overview", length, f"/dashboard/?range={length}")
    for part in ("attention", "kpis", "flow", "minutes", "circuits", "latest"):
        yield Asked("Overview", f"part: {part}, 7d", f"/dashboard/ui/overview/{part}?range=7d")


def budgets() -> Iterator[Asked]:
    """What was spent, and the limits."""
    yield Asked("Budgets", "14d by function", "/dashboard/budgets")
    for days in ("7d", "90d"):
        for by in ("function", "user", "model"):
            yield Asked("Budgets", f"{days} by {by}", f"/dashboard/budgets?range={days}&by={by}")
    yield Asked("Budgets", "a new one", "/dashboard/budgets?new=1")
    yield Asked("Budgets", "part: spend", "/dashboard/ui/budgets/spend?range=14d&by=user")
    yield Asked("Budgets", "part: limits", "/dashboard/ui/budgets/limits")
    yield Asked("Budgets", "CSV 90d by user", "/dashboard/budgets/spend.csv?range=90d&by=user")


def usage(rows: int) -> Iterator[Asked]:
    """The log with what narrows it."""
    page = "/dashboard/usage"
    for length in ("24h", *(one for one in RANGES if one != "24h")):
        yield Asked("Usage", f"range {length}", f"{page}?range={length}")
    for name, query in FILTERS.items():
        if query:
            yield Asked("Usage", f"all, {name}", f"{page}?{urlencode({'range': 'all', **query})}")
    for name in SORTED:
        for sort in SORTS:
            query = {"range": "all", "sort": sort, **FILTERS[name]}
            yield Asked("Usage", f"all, {name}, by {sort}", f"{page}?{urlencode(query)}")
    month = (datetime.now(UTC) - timedelta(days=30)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    yield Asked("Usage", "until a month ago", f"{page}?{urlencode({'to': month})}")
    more = {"range": "all", "before": f"{month}~{rows // 2}"}
    yield Asked("Usage", "part: further rows", f"/dashboard/ui/usage/rows?{urlencode(more)}")
    rare = {**more, "decision": "role"}
    yield Asked("Usage", "part: further rows, none", f"/dashboard/ui/usage/rows?{urlencode(rare)}")
    new = {"range": "all", "above": f"{month}~{rows // 2}"}
    yield Asked("Usage", "part: what is new", f"/dashboard/ui/usage/new?{urlencode(new)}")
    one = f"req_1_{rows // 2:09d}"
    yield Asked("Usage", "one request", f"{page}/{one}?range=all")
    yield Asked("Usage", "part: one request, decision", f"/dashboard/ui/request/{one}?range=all&decision=role")
    yield Asked("Usage", "CSV of all", f"{page}.csv?range=all")


def others() -> Iterator[Asked]:
    """Pages that ask the log for little or nothing."""
    yield Asked("Circuits", "", "/dashboard/circuits")
    yield Asked("Sessions", "", "/dashboard/sessions")
    yield Asked("Classifier", "", "/classifier/report")
    yield Asked("Traces", "", "/dashboard/traces")
    yield Asked("Settings", "", "/dashboard/settings")
    yield Asked("Config", "", "/dashboard/config")
    yield Asked("Config", "as a table", "/dashboard/config?view=table")


# -- who asks ---------------------------------------------------------------------------------------------


class Operator:
    """A browser that has signed in."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cookies: dict[str, str] = {}
        form = self._ask("GET", "/dashboard/sign-in")[1].decode()
        token = re.search(r'name="csrf" value="([^"]+)"', form)
        if token is None:
            raise SystemExit("The sign-in page has no token")
        body = urlencode({"key": ADMIN_KEY, "csrf": token[1], "next": "/dashboard/config"})
        status, _ = self._ask("POST", "/dashboard/sign-in", body)
        if status != 303:
            raise SystemExit(f"Signing in answered {status}")

    def took_ms(self, path: str) -> float:
        """The time to the last byte; of a file, to the first."""
        began = time.perf_counter()
        status, body = self._ask("GET", path, only_first=path.partition("?")[0].endswith(".csv"))
        took_ms = (time.perf_counter() - began) * 1000
        if status != 200 or b"cannot be read" in body:
            raise SystemExit(f"{path} answered {status}: {body[:300]!r}")
        return took_ms

    def _ask(self, method: str, path: str, body: str | None = None, *, only_first: bool = False) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            headers = {
                "Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()),
                "Origin": f"http://127.0.0.1:{self._port}",
                "Accept": "text/html",
            }
            if body is not None:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            for cookie in response.headers.get_all("Set-Cookie") or ():
                name, _, value = cookie.partition(";")[0].partition("=")
                self._cookies[name] = value
            return response.status, response.read(1 if only_first else None)
        finally:
            connection.close()


def of_pages(server: HermesServer, asked: Sequence[Asked]) -> Iterator[Figure]:
    """Starts the server anew, so that the first answers are cold ones; then asks again while others watch."""
    server.process.stop()
    server.restart()
    time.sleep(SETTLE_S)
    operator = Operator(server.port)
    cold = []
    for one in asked:
        before_ms = server.process.cpu_ns() / 1e6
        took_ms = operator.took_ms(one.path)
        cold.append((took_ms, server.process.cpu_ns() / 1e6 - before_ms))
    with Watch(server.port) as watch:
        for one, (took_ms, used_ms) in zip(asked, cold, strict=True):
            watch.take()
            warm = []
            for _ in range(TIMES):
                time.sleep(PAUSE_S)
                warm.append(operator.took_ms(one.path))
            yield Figure(one, took_ms, tuple(warm), watch.take(), used_ms)


# -- one database -----------------------------------------------------------------------------------------


def prepare(kind: str, url: str, rows: int) -> None:
    """Fills it, unless it is full already."""
    migrate(url, native.ROOT / "migrations")
    database = Database.open(url)
    try:
        began = datetime(2000, 1, 1, tzinfo=UTC)
        if Reports(database).totals(began, datetime.now(UTC) + timedelta(days=1)).sums.requests >= rows:
            return
        fill_postgres(url, rows) if kind == "postgres" else fill_sqlite(Path(url.removeprefix("sqlite:///")), rows)
        backfill = Backfill(database, batch_rows=SUMMED_ROWS)
        while not backfill.is_complete():
            backfill.run()
        days = DaySums(database, backfill.is_complete)
        while days.run():
            pass
    finally:
        database.close()


def measure(kind: str, url: str, rows: int, stub_port: int, match: str) -> list[Figure]:
    """All pages, each kind of them with a server of its own."""
    prepare(kind, url, rows)
    say(f"{kind}: {rows:,} rows are there")
    server = HermesServer.start(hermes_config(stub_port, logging={"retention_days": 2 * DAYS}), HERMES_DATABASE_URL=url)
    try:
        for budget in BUDGETS:
            put(server.port, budget)
        figures = []
        for asked in (overview(), budgets(), usage(rows), others()):
            wanted = [one for one in asked if match.lower() in f"{one.page} {one.what}".lower()]
            for figure in of_pages(server, wanted) if wanted else ():
                figures.append(figure)
                say(f"{kind}: {'  '.join(figure.cells())}")
        return figures
    finally:
        server.stop()


def put(port: int, budget: dict[str, object]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    connection.request("PUT", "/admin/budgets", json.dumps(budget), headers)
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"A budget was answered {response.status}: {response.read()[:300]!r}")
    connection.close()


# -- what is shown ----------------------------------------------------------------------------------------

HEAD = ("page", "what", "cold, ms", "warm, ms", "warm, best, ms", "CPU cold, ms", "/health worst, ms")


def table(figures: Sequence[Figure]) -> str:
    lines = [HEAD, *(figure.cells() for figure in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    texts = 2
    shown = [
        [cell.ljust(width) if place < texts else cell.rjust(width) for place, (cell, width) in enumerate(pairs)]
        for pairs in ([*zip(line, widths, strict=True)] for line in lines)
    ]
    rule = ["-" * width if place < texts else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (shown[0], rule, *shown[1:]))


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many rows (default: a million)")
    parser.add_argument("--only", choices=("sqlite", "postgres"), help="one of the two databases")
    parser.add_argument("--keep", metavar="URL", help="this database, which is filled if it is not, and left there")
    parser.add_argument("--match", default="", help="only what has this in its page or name")
    arguments = parser.parse_args()
    clean_up_when_told_to_end()
    native.build()
    busy = busy_share()
    found: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-stub-") as folder:
        stub = start_stub(Path(folder))
        try:
            with pinned(native.TOOLS_CPU):
                if arguments.keep:
                    kind = "postgres" if arguments.keep.startswith("postgres") else "sqlite"
                    found[kind] = measure(kind, arguments.keep, arguments.rows, stub.port, arguments.match)
                else:
                    for kind in (arguments.only,) if arguments.only else ("sqlite", "postgres"):
                        with a_database(kind) as url:
                            if url is not None:
                                found[kind] = measure(kind, url, arguments.rows, stub.port, arguments.match)
        finally:
            stub.process.stop()
    for kind, figures in found.items():
        say(f"\n{kind}, {arguments.rows:,} rows; warm is the median of {TIMES}\n\n{table(figures)}")
    slow = [
        f"{kind}: {figure.asked.page} {figure.asked.what}"
        for kind, figures in found.items()
        for figure in figures
        if max(figure.cold_ms, figure.warm) > TARGET_MS
    ]
    stood = [
        f"{kind}: {figure.asked.page} {figure.asked.what}"
        for kind, figures in found.items()
        for figure in figures
        if figure.waited_ms > LOOP_TARGET_MS
    ]
    say(f"\nOver {TARGET_MS:.0f} ms: {', '.join(slow) or 'nothing'}.")
    say(f"/health over {LOOP_TARGET_MS:.0f} ms beside: {', '.join(stood) or 'nothing'}.")
    say(f"Other programs took {busy:.0%} of the machine before it began.")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
