"""What is too old leaves the usage log, a little at a time; what it came to stays. On SQLite and on Postgres alike."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import gevent
import pytest

from hermes.storage.backfill import Backfill
from hermes.storage.db import Database
from hermes.storage.models.sums import BackfillRow, MinuteRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.reports import Reports
from hermes.storage.repositories import UsageFilter, UsageRepository
from hermes.storage.retention import Retention
from hermes.storage.usage_filter import utc_text
from tests.contract.conftest import a_record

NOW = datetime(2026, 5, 31, 12, tzinfo=UTC)


@pytest.fixture
def retention(database: Database) -> Retention:
    return a_retention(database)


def a_retention(database: Database, batch_rows: int = 200, now: datetime = NOW) -> Retention:
    return Retention(database, Backfill(database), clock=now.timestamp, batch_rows=batch_rows)


def rows_of_days(*ages: float) -> list[dict[str, object]]:
    """A row for each age in days."""
    return [
        a_record(f"{age}-{number}", created_at=utc_text(NOW - timedelta(days=age)), prompt_preview="a text")
        for number, age in enumerate(ages)
    ]


def test_rows_older_than_the_days_go_and_their_sums_stay(
    database: Database, usage: UsageRepository, retention: Retention
) -> None:
    usage.insert([*rows_of_days(29.99, 0.0), a_record("exact", created_at=utc_text(NOW - timedelta(days=30)))])
    usage.insert(rows_of_days(30.001, 45, 400))

    dropped = retention.run(30)

    assert dropped == 3
    kept = [row["created_at"] for row in usage.find(UsageFilter())]
    assert min(kept) == utc_text(NOW - timedelta(days=30))
    assert len(kept) == 3
    everything = Reports(database).totals(NOW - timedelta(days=500), NOW + timedelta(days=1))
    assert everything.sums.requests == 6
    assert retention.run(30) == 0


def test_of_many_rows_none_is_left_and_none_too_many_gone(database: Database, usage: UsageRepository) -> None:
    usage.insert(rows_of_days(*[100 + number / 1000 for number in range(500)], *[1.0] * 50))

    assert a_retention(database, batch_rows=70).run(90) == 500
    assert database.read(lambda: UsageRow.select().count()) == 50


def test_two_processes_that_forget_at_once_forget_the_same(database: Database, usage: UsageRepository) -> None:
    usage.insert(rows_of_days(*[100.0] * 300, *[1.0] * 20))

    both = [gevent.spawn(a_retention(database, batch_rows=30).run, 90) for _ in range(2)]
    gevent.joinall(both, raise_error=True)

    assert sum(one.value for one in both) == 300
    assert database.read(lambda: UsageRow.select().count()) == 20


def test_what_is_not_in_the_sums_yet_stays_until_it_is(
    database: Database, usage: UsageRepository, retention: Retention
) -> None:
    usage.insert(rows_of_days(100, 100))
    database.write(lambda: BackfillRow.update(done_id=0, until_id=2).execute())

    assert retention.run(90) == 0

    Backfill(database).run()
    assert retention.run(90) == 2


def test_it_ends_between_two_batches_when_it_is_told_to(database: Database, usage: UsageRepository) -> None:
    usage.insert(rows_of_days(*[100.0] * 100))

    def is_full() -> bool:
        return database.read(lambda: UsageRow.select().count()) > 75

    assert a_retention(database, batch_rows=10).run(90, is_full) == 30
    assert a_retention(database, batch_rows=10).run(90) == 70


def test_minutes_are_kept_for_eight_days(database: Database, usage: UsageRepository, retention: Retention) -> None:
    usage.insert(rows_of_days(8.1, 9, 9.02, 7.9, 200, 0))

    retention.run(90)

    kept = database.read(lambda: [row.minute for row in MinuteRow.select().order_by(MinuteRow.minute)])
    assert kept == [utc_text(NOW - timedelta(days=age))[:16] for age in (7.9, 0)]


def test_nobody_waits_long_for_a_write_meanwhile(database: Database, usage: UsageRepository) -> None:
    """The bound is generous, for machines that do other things at the same time: without batches it is a second."""
    usage.insert(rows_of_days(*[100.0] * 4000))
    forgetting = gevent.spawn(a_retention(database).run, 90)
    waits = []

    while not forgetting.ready():
        began = time.perf_counter()
        usage.insert([a_record(f"new-{len(waits)}", created_at=utc_text(NOW))])
        waits.append(time.perf_counter() - began)
        gevent.sleep(0.005)

    assert forgetting.get() == 4000
    assert len(waits) > 5
    assert sorted(waits)[len(waits) // 2] < 0.05
    assert max(waits) < 0.5
