"""The sums of the usage log are those of its rows, on SQLite and on Postgres alike, whatever is retried or killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import gevent
import peewee
import pytest
from playhouse.migrations import Runner

from hermes.settings import ROOT
from hermes.storage import daysums, rollups
from hermes.storage.backfill import Backfill
from hermes.storage.db import Database, migrate
from hermes.storage.models.usage import UsageRow
from hermes.storage.reports import Flow, Minute, Reports, Sums, Totals
from hermes.storage.repositories import UsageRepository
from hermes.storage.retention import Retention
from tests.contract.conftest import MIGRATIONS, a_record

MAY = datetime(2026, 5, 1, tzinfo=UTC)
JUNE = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 4
DIMENSIONS = {"tier": "tier", "decision": "decision", "model": "model", "endpoint": "endpoint", "status": "status",
              "user": "user_id", "function": "function_name", "key": "key_id"}  # fmt: skip


def some_rows(number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of all kinds over four days in May."""
    rng = random.Random(seed)
    rows = []
    for position in range(number):
        is_answered = rng.random() < 0.8
        tokens = rng.randrange(1, 5000) if is_answered else None
        at = f"2026-05-{rng.randrange(1, DAYS + 1):02d}T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00.000Z"
        rows.append(
            a_record(
                f"{seed}-{position}",
                created_at=at,
                status="ok" if is_answered else rng.choice(["error", "refused", "interrupted"]),
                stream=rng.random() < 0.5,
                attempts=rng.randrange(3),
                fallback_level=rng.choice([None, 0, 1]),
                tier=rng.choice([None, "simple", "complex"]),
                decision=rng.choice([None, "teacher", "session"]),
                model=rng.choice([None, "m1", "m2"]),
                endpoint=rng.choice([None, "e1"]),
                user_id=rng.choice([None, "anna", "ben", "Ελένη"]),
                function_name=rng.choice([None, "f1", "f2"]),
                key_id=rng.choice(["k1", "k2"]),
                prompt_tokens=tokens,
                completion_tokens=tokens and tokens // 3,
                total_tokens=tokens and tokens + tokens // 3,
                cached_tokens=tokens and tokens // 2,
                estimated_cost_usd=f"{rng.randrange(10**10)}e-9" if is_answered and rng.random() < 0.9 else None,
                duration_ms=rng.lognormvariate(7, 1.5),
                ttft_ms=rng.lognormvariate(6, 1) if is_answered else None,
                overhead_ms=rng.lognormvariate(0, 1),
            )
        )
    return rows


def sums_of(rows: list[dict[str, Any]]) -> Sums:
    """What the rows come to, counted one by one."""
    costs = [Decimal(row["estimated_cost_usd"]) for row in rows if row["estimated_cost_usd"] is not None]
    counted = [row for row in rows if row["total_tokens"] is not None]
    return Sums(
        requests=len(rows),
        failed=sum(row["status"] in ("error", "interrupted") for row in rows),
        refused=sum(row["status"] == "refused" for row in rows),
        counted=len(counted),
        unpriced=sum(row["estimated_cost_usd"] is None for row in counted),
        total_tokens=sum(row["total_tokens"] for row in counted),
        nanousd=sum(int(cost.scaleb(9)) for cost in costs),
    )


def grouped(rows: list[dict[str, Any]], *names: str) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] or "" for name in names)].append(row)
    return groups


def is_exact(reports: Reports, rows: list[dict[str, Any]]) -> bool:
    """Whether every table says what the rows say."""
    wanted = sums_of(rows)
    tables = [reports.totals(MAY, JUNE).sums]
    for by in DIMENSIONS:
        total = Sums()
        for _, sums in reports.top(MAY, JUNE, by, 1000):  # type: ignore[arg-type]
            total = total.plus(sums)
        tables.append(total)
    minutes = sum(minute.requests for minute in reports.minutes(MAY, JUNE))
    durations = reports.latency(MAY, JUNE, "duration").requests
    return all(sums == wanted for sums in tables) and minutes == durations == len(rows)


@pytest.fixture
def reports(database: Database) -> Reports:
    return Reports(database)


# -- what is read -----------------------------------------------------------------------------------------


def test_every_report_says_what_the_rows_say(usage: UsageRepository, reports: Reports) -> None:
    rows = some_rows(1200)
    usage.insert(rows)

    # All together, and narrowed.
    assert reports.totals(MAY, JUNE).sums == sums_of(rows)
    simple = [row for row in rows if row["tier"] == "simple" and row["stream"]]
    assert reports.totals(MAY, JUNE, tier="simple", stream=True).sums == sums_of(simple)
    assert reports.totals(MAY, JUNE) == Totals(
        sums_of(rows),
        fallbacks=sum(bool(row["fallback_level"]) for row in rows),
        attempts=sum(row["attempts"] for row in rows),
        prompt_tokens=sum(row["prompt_tokens"] or 0 for row in rows),
        completion_tokens=sum(row["completion_tokens"] or 0 for row in rows),
        cached_tokens=sum(row["cached_tokens"] or 0 for row in rows),
        reasoning_tokens=0,
    )

    # By each dimension: who comes to most, and the course over time.
    for by, column in DIMENSIONS.items():
        groups = {name: sums_of(group) for (name,), group in grouped(rows, column).items()}
        found = reports.top(MAY, JUNE, by, 2)  # type: ignore[arg-type]
        assert found == sorted(groups.items(), key=lambda item: (-item[1].nanousd, item[0]))[:2], by
        for step, chars in (("hour", 13), ("day", 10)):
            dated = [{**row, "at": row["created_at"][:chars]} for row in rows]
            points = {(point.at, point.name): point.sums for point in reports.series(MAY, JUNE, step, by)}  # type: ignore[arg-type]
            assert points == {names: sums_of(group) for names, group in grouped(dated, "at", column).items()}, (
                by,
                step,
            )

    # What decided, for which tier, who answered.
    flows = {names: len(group) for names, group in grouped(rows, "decision", "tier", "model").items()}
    assert {(flow.decision, flow.tier, flow.model): flow.requests for flow in reports.flow(MAY, JUNE)} == flows


def test_streams_are_a_dimension_too(usage: UsageRepository, reports: Reports) -> None:
    usage.insert([a_record("r1", stream=True), a_record("r2"), a_record("r3")])

    found = reports.top(MAY, JUNE, "stream", 10, "requests")

    assert [(name, sums.requests) for name, sums in found] == [("false", 2), ("true", 1)]
    assert reports.flow(MAY, JUNE) == [Flow("", "", "", 3)]


@pytest.mark.parametrize(
    ("start", "end", "requests"),
    [
        pytest.param("2026-05-01T00:00", "2026-05-05T00:00", 4 * 24, id="whole days"),
        pytest.param("2026-05-01T22:00", "2026-05-03T02:00", 2 + 24 + 2, id="a day and the hours around it"),
        pytest.param("2026-05-01T05:00", "2026-05-01T07:00", 2, id="hours of a day"),
        pytest.param("2026-05-01T05:59", "2026-05-01T07:01", 3, id="hours count whole"),
        pytest.param("2026-05-01T23:00", "2026-05-02T01:00", 2, id="across midnight"),
        pytest.param("2026-05-02T00:00", "2026-05-02T00:00", 0, id="nothing"),
        pytest.param("2026-05-01T07:30+02:00", "2026-05-01T08:30+02:00", 2, id="another zone"),
    ],
)
def test_a_range_goes_from_an_hour_to_an_hour_in_every_report(
    usage: UsageRepository, reports: Reports, start: str, end: str, requests: int
) -> None:
    hours = [f"2026-05-{day:02d}T{hour:02d}" for day in range(1, 5) for hour in range(24)]
    usage.insert([a_record(hour, created_at=f"{hour}:30:00Z", user_id="anna", duration_ms=1.0) for hour in hours])
    span = datetime.fromisoformat(start), datetime.fromisoformat(end)

    found = dict(reports.top(*span, "user", 1))

    assert found.get("anna", Sums()).requests == requests
    assert reports.totals(*span).sums.requests == requests
    assert reports.latency(*span, "duration").requests == requests
    assert sum(point.sums.requests for point in reports.series(*span, "hour", "user")) == requests
    assert sum(flow.requests for flow in reports.flow(*span)) == requests


def test_a_course_may_be_that_of_some_names_alone(usage: UsageRepository, reports: Reports) -> None:
    usage.insert([a_record(name, user_id=name) for name in ("anna", "ben", "carl")])

    assert [point.name for point in reports.series(MAY, JUNE, "day", "user", ["carl", "anna", "nobody"])] == [
        "anna",
        "carl",
    ]
    assert reports.series(MAY, JUNE, "day", "user", []) == []


def test_minutes_tell_tiers_and_ends_apart(usage: UsageRepository, reports: Reports) -> None:
    at = "2026-05-10T13:33:59.999Z"
    usage.insert(
        [
            a_record("r1", created_at=at, tier="simple"),
            a_record("r2", created_at=at, tier="simple"),
            a_record("r3", created_at=at, status="refused"),
        ]
    )

    found = reports.minutes(datetime(2026, 5, 10, 13, 33, tzinfo=UTC), datetime(2026, 5, 10, 13, 34, tzinfo=UTC))

    assert found == [Minute("2026-05-10T13:33", "", "refused", 1), Minute("2026-05-10T13:33", "simple", "ok", 2)]


@pytest.mark.parametrize("metric", ["duration", "ttft", "overhead"])
def test_percentiles_are_right_to_a_few_percent(usage: UsageRepository, reports: Reports, metric: Any) -> None:
    rows = some_rows(3000)
    usage.insert(rows)
    values = sorted(row[f"{metric}_ms"] for row in rows if row[f"{metric}_ms"] is not None)

    found = reports.latency(MAY, JUNE, metric)

    assert found.requests == len(values)
    for share in (0.5, 0.95, 0.99):
        assert found.percentile_ms(share) == pytest.approx(values[int(share * len(values))], rel=0.1)
    by_hour = reports.latencies(MAY, JUNE, metric)
    assert [sum(counts) for counts in zip(*(latency.counts for _, latency in by_hour), strict=True)] == found.counts


@pytest.mark.parametrize(
    ("ms", "bucket"),
    [
        pytest.param(0.0, 0, id="nothing"),
        pytest.param(5.0, 0, id="a bound belongs to the bucket that it ends"),
        pytest.param(5.0001, 1, id="just above"),
        pytest.param(1e9, 32, id="beyond all bounds"),
        pytest.param(-1.0, 0, id="less than nothing"),
    ],
)
def test_every_value_has_its_bucket(usage: UsageRepository, reports: Reports, ms: float, bucket: int) -> None:
    usage.insert([a_record("r1", duration_ms=ms)])

    counts = reports.latency(MAY, JUNE, "duration").counts

    assert [number for number, count in enumerate(counts) if count] == [bucket]


def test_a_row_with_absurd_figures_stops_nothing(usage: UsageRepository, reports: Reports) -> None:
    absurd = {"total_tokens": 2**63 - 1, "prompt_tokens": -5, "estimated_cost_usd": "99999999999", "model": "m" * 5000}
    usage.insert([a_record("r1", **absurd), a_record("r2", **absurd), a_record("r3", total_tokens=7)])

    assert reports.totals(MAY, JUNE).sums == Sums(requests=3, counted=3, unpriced=1, total_tokens=7)


# -- once, whatever happens -------------------------------------------------------------------------------


def test_rows_that_are_moved_again_are_counted_once(usage: UsageRepository, reports: Reports) -> None:
    rows = some_rows(400)
    usage.insert(rows[:150])

    for batch in (rows[:150], rows[100:300], [*rows, *rows], rows):
        usage.insert(batch)

    assert is_exact(reports, rows)


def test_a_row_that_cannot_be_stored_is_not_counted(usage: UsageRepository, reports: Reports) -> None:
    rows = some_rows(10)

    inserted = usage.insert([*rows, a_record("bad", created_at="never")])

    assert (inserted.rows, len(inserted.rejected)) == (10, 1)
    assert is_exact(reports, rows)


WRITER = f"""
from gevent import monkey; monkey.patch_all()
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from hermes.errors import DatabaseUnavailable
from hermes.storage.db import Database
from hermes.storage.repositories import UsageRepository
from hermes.storage.retention import Retention
from tests.contract.test_rollups import some_rows
url, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
usage = UsageRepository(Database.open(url))
print("ready", flush=True)
sys.stdin.readline()
rows = some_rows(last)[first:]
for start in range(0, len(rows), 70):
    while True:
        try:
            usage.insert(rows[start : start + 70])
            break
        except DatabaseUnavailable:  # it was too busy; the spool tries again, too
            time.sleep(0.2)
"""


def a_writer(url: str, first: int, last: int) -> subprocess.Popen[str]:
    """Another process that will store some of the rows."""
    command = [sys.executable, "-c", WRITER, url, str(first), str(last)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def start(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("\n")
    writer.stdin.flush()


def test_processes_that_write_at_once_count_each_row_once(
    database_url: str, database: Database, reports: Reports
) -> None:
    """Their rows overlap, and all of them add to the same hours."""
    rows = some_rows(1200)
    spans = [(0, 700), (300, 1000), (500, 1200), (0, 1200)]
    writers = [a_writer(database_url, *span) for span in spans]

    for writer in writers:
        start(writer)

    assert [finished(writer) for writer in writers] == [0] * len(writers)
    assert is_exact(reports, rows)


def test_a_process_that_is_killed_in_the_midst_leaves_sums_that_fit_its_rows(
    database_url: str, database: Database, usage: UsageRepository, reports: Reports
) -> None:
    rows = some_rows(1200)
    writer = a_writer(database_url, 0, 1200)
    start(writer)
    while not stored(database):
        time.sleep(0.005)
    os.kill(writer.pid, signal.SIGKILL)
    finished(writer)

    ids = set(stored(database))
    assert ids
    assert is_exact(reports, [row for row in rows if row["request_id"] in ids])

    usage.insert(rows)
    assert is_exact(reports, rows)


def finished(writer: subprocess.Popen[str]) -> int:
    with writer:
        writer.communicate(timeout=40)
    return writer.returncode


def stored(database: Database) -> list[str]:
    return database.read(lambda: [row for (row,) in UsageRow.select(UsageRow.request_id).tuples()])  # type: ignore[misc]


# -- what was there before --------------------------------------------------------------------------------


@pytest.fixture
def upgraded(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, list[dict[str, Any]]]]:
    """A database that had rows before there were sums, and those rows."""
    rows = some_rows(900)
    migrate(database_url, MIGRATIONS)
    database = Database.open(database_url)
    database.write(lambda: Runner(UsageRow._meta.database.obj, str(MIGRATIONS)).down("0005_reports"))
    with monkeypatch.context() as patch:
        patch.setattr(rollups, "ADDITIONS", ())
        patch.setattr(daysums, "note_late", lambda *_: None)
        UsageRepository(database).insert(rows)
    migrate(database_url, MIGRATIONS)
    yield database, rows
    database.close()


def test_rows_that_were_there_before_are_counted_in_the_background_while_others_come(
    upgraded: tuple[Database, list[dict[str, Any]]],
) -> None:
    database, old = upgraded
    new = some_rows(600, seed=2)
    usage, reports, backfill = UsageRepository(database), Reports(database), Backfill(database, batch_rows=70)
    assert reports.totals(MAY, JUNE).sums == Sums()
    assert not backfill.is_complete()

    usage.insert(new[:100])
    loops = [gevent.spawn(Backfill(database, batch_rows=70).run) for _ in range(3)]
    usage.insert([*old[:50], *new])
    gevent.joinall(loops, raise_error=True)
    backfill.run()

    assert backfill.is_complete()
    assert is_exact(reports, [*old, *new])
    backfill.run()
    assert is_exact(reports, [*old, *new])


def test_counting_goes_on_where_a_process_has_stopped(upgraded: tuple[Database, list[dict[str, Any]]]) -> None:
    database, old = upgraded
    ends = iter([0.0, 0.0, 10.0])
    Backfill(database, clock=lambda: next(ends), sleep=lambda _: None, batch_rows=100).run()
    half = Backfill(database, batch_rows=100)
    assert 0 < half.progress().done < half.progress().all

    half.run()

    assert is_exact(Reports(database), old)


def test_a_database_without_rows_has_nothing_to_catch_up_with(database: Database) -> None:
    assert Backfill(database).is_complete()


# -- what stands ------------------------------------------------------------------------------------------


def test_no_row_is_ever_changed(tmp_path: Path) -> None:
    """A correction would be a row of its own. The database refuses here whatever tries."""
    url = f"sqlite:///{tmp_path}/hermes.db"
    migrate(url, MIGRATIONS)
    database = Database.open(url)
    refusal = "CREATE TRIGGER refuse BEFORE UPDATE ON ai_usage_logs BEGIN SELECT RAISE(ABORT, 'changed'); END"
    database.write(lambda: UsageRow._meta.database.execute_sql(refusal))
    usage, rows = UsageRepository(database), some_rows(100)

    usage.insert(rows[:50])
    usage.insert(rows)
    backfill = Backfill(database)
    backfill.run()
    now = datetime(2026, 5, 3, tzinfo=UTC).timestamp()
    assert Retention(database, backfill, clock=lambda: now).run(1) > 0

    with pytest.raises(peewee.IntegrityError, match="changed"):
        database.write(lambda: UsageRow.update(status="ok").execute())
    database.close()
