"""A page deep in the usage log is the one that counting row by row finds, on SQLite and on Postgres alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hermes.storage import deep
from hermes.storage.backfill import Backfill
from hermes.storage.daysums import DaySums
from hermes.storage.db import Database
from hermes.storage.models.sums import BackfillRow
from hermes.storage.repositories import UsageRepository
from hermes.storage.retention import Retention
from hermes.storage.usage_filter import UsageFilter
from tests.contract.test_rollups import some_rows

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()
FILTERS = [
    UsageFilter(),
    UsageFilter(user_id="anna"),
    UsageFilter(function_name="f1"),
    UsageFilter(key_id="k2"),
    UsageFilter(tier="simple"),
    UsageFilter(model="m1", decision="teacher"),
    UsageFilter(status="failed"),
    UsageFilter(status="ok", model="m2", tier="complex"),
    UsageFilter(user_id="anna", tier="simple"),
    UsageFilter(fallback=True),
    UsageFilter(model="m" * 200),
    UsageFilter(since="2026-05-02T07:30:00.000Z"),
    UsageFilter(until="2026-05-03T07:30:00.000Z"),
    UsageFilter(since="2026-05-02T07:30:00.000Z", until="2026-05-02T09:45:00.000Z", status="ok"),
    UsageFilter(until="2026-05-03T07:30:00.000Z", user_id="ben"),
    UsageFilter(until="2026-05-01T00:30:00.000Z"),
]


def pages(usage: UsageRepository, wanted: UsageFilter, limit: int) -> list[list[str]]:
    """All pages up to the first empty one, and one far behind it."""
    found: list[list[str]] = []
    while not found or found[-1]:
        page = usage.find(replace(wanted, limit=limit, page=len(found) + 1))
        found.append([row["request_id"] for row in page])
    assert usage.find(replace(wanted, limit=limit, page=10_000)) == []
    return found


@pytest.fixture
def usage(database: Database) -> UsageRepository:
    usage = UsageRepository(database, clock=lambda: NOW)
    usage.insert(some_rows(500))
    DaySums(database, lambda: True, clock=lambda: NOW, sleep=lambda _: None).run()
    usage.insert(some_rows(80, seed=2))  # some days are late ones
    return usage


def test_every_page_is_the_one_that_counting_finds(
    database: Database, usage: UsageRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted in FILTERS:
        counted = pages(usage, wanted, 41)
        with monkeypatch.context() as patch:
            patch.setattr(deep, "DEEP", 0)
            assert pages(usage, wanted, 41) == counted, wanted

    # The oldest rows are gone, their sums are not.
    Retention(database, Backfill(database), clock=lambda: NOW, sleep=lambda _: None).run(2)
    for wanted in FILTERS:
        counted = pages(usage, wanted, 41)
        with monkeypatch.context() as patch:
            patch.setattr(deep, "DEEP", 0)
            assert pages(usage, wanted, 41) == counted, wanted


def test_while_old_rows_are_not_in_the_sums_pages_are_counted(
    database: Database, usage: UsageRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = UsageFilter(limit=10, page=20)
    counted = usage.find(wanted)
    database.write(lambda: BackfillRow.update(done_id=0, until_id=10**6).execute())
    monkeypatch.setattr(deep, "_days", lambda *_: pytest.fail("the sums were asked"))
    monkeypatch.setattr(deep, "DEEP", 0)

    assert usage.find(wanted) == counted
