"""Sums of whole days are those of the rows, whatever comes when, on SQLite and on Postgres alike."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermes.storage import daysums
from hermes.storage.backfill import Backfill
from hermes.storage.db import Database
from hermes.storage.models.sums import DayRow, HourRow, LateRow
from hermes.storage.reports import Reports
from hermes.storage.repositories import UsageRepository
from tests.contract.conftest import a_record
from tests.contract.test_rollups import (
    JUNE,
    MAY,
    a_writer,
    finished,
    grouped,
    is_exact,
    some_rows,
    start,
    sums_of,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


class World:
    """A log at a moment that a test sets, and what sums its days."""

    def __init__(self, database: Database, now: str) -> None:
        self.database, self.now = database, at(now)
        self.usage = UsageRepository(database, clock=lambda: self.now)
        self.reports = Reports(database)

    def sum_days(self) -> None:
        """Everything that there is to do; time stands still meanwhile."""
        daysums.DaySums(self.database, lambda: True, clock=lambda: self.now, sleep=lambda _: None).run()

    def days(self) -> list[str]:
        """The days that have sums."""
        return sorted(self.database.read(lambda: {day for (day,) in DayRow.select(DayRow.day).tuples()}))

    def late(self) -> list[str]:
        return sorted(self.database.read(lambda: [day for (day,) in LateRow.select(LateRow.day).tuples()]))


@pytest.fixture
def world(database: Database) -> World:
    return World(database, "2026-05-03T12:00")


def test_days_that_are_over_are_summed_and_the_others_wait(world: World) -> None:
    rows = some_rows(300)
    world.usage.insert(rows)

    world.sum_days()
    assert world.days() == ["2026-05-01", "2026-05-02"]
    assert is_exact(world.reports, rows)

    world.now = at("2026-05-04T01:59")
    world.sum_days()
    assert len(world.days()) == 2, "clocks differ: a day is settled two hours after its end"

    world.now = at("2026-05-04T02:00")
    world.sum_days()
    assert world.days() == ["2026-05-01", "2026-05-02", "2026-05-03"]
    assert is_exact(world.reports, rows)


def test_a_row_that_comes_late_counts_at_once_and_its_day_is_summed_again(world: World) -> None:
    rows, late = some_rows(200), some_rows(40, seed=2)
    world.usage.insert(rows)
    world.sum_days()

    world.usage.insert(late)
    assert world.late() == ["2026-05-01", "2026-05-02"]
    assert is_exact(world.reports, [*rows, *late])

    world.sum_days()
    assert world.late() == []
    assert is_exact(world.reports, [*rows, *late])
    world.database.write(lambda: HourRow.delete().where(HourRow.hour < "2026-05-03").execute())
    found = world.reports.totals(MAY, datetime(2026, 5, 3, tzinfo=UTC)).sums
    assert found == sums_of([row for row in [*rows, *late] if row["created_at"] < "2026-05-03"]), "read of the days"


def test_whatever_comes_in_whatever_order_every_report_says_what_the_rows_say(world: World) -> None:
    """Rows, late ones and repeated ones, days summed or not, ranges from any hour to any other."""
    rng, rows = random.Random(7), some_rows(500, seed=3)
    stored: dict[str, dict[str, Any]] = {}
    moments = sorted(rng.uniform(at("2026-05-01T00:00"), at("2026-05-07T00:00")) for _ in range(25))
    for world.now in moments:
        batch = rng.sample(rows, rng.randrange(1, 60))
        world.usage.insert(batch)
        stored |= {row["request_id"]: row for row in batch}
        if rng.random() < 0.6:
            world.sum_days()
        begin = MAY + timedelta(hours=rng.randrange(100))
        end = begin + timedelta(hours=rng.randrange(1, 100))
        texts = (begin.strftime("%Y-%m-%dT%H"), end.strftime("%Y-%m-%dT%H"))
        within = [row for row in stored.values() if texts[0] <= row["created_at"] < texts[1]]
        assert world.reports.totals(begin, end).sums == sums_of(within)
        assert dict(world.reports.top(begin, end, "model", 9)) == {
            name: sums_of(group) for (name,), group in grouped(within, "model").items()
        }
        ways = {names: len(group) for names, group in grouped(within, "decision", "tier", "model").items()}
        assert {(way.decision, way.tier, way.model): way.requests for way in world.reports.flow(begin, end)} == ways
        dated = [{**row, "at": row["created_at"][:10]} for row in stored.values()]
        points = {(point.at, point.name): point.sums for point in world.reports.series(MAY, JUNE, "day", "decision")}
        assert points == {names: sums_of(group) for names, group in grouped(dated, "at", "decision").items()}
        bars = world.reports.bars(MAY, JUNE, 10, model="m1")
        assert sum(bar.requests for bar in bars) == sum(row["model"] == "m1" for row in stored.values())


def test_a_row_of_a_day_long_before_all_others_is_found(world: World) -> None:
    world.usage.insert([a_record("new", created_at="2026-05-02T12:00:00.000Z")])
    world.sum_days()

    world.usage.insert([a_record("old", created_at="2024-02-29T12:00:00.000Z")])

    assert world.reports.totals(datetime(2020, 1, 1, tzinfo=UTC), JUNE).sums.requests == 2
    world.sum_days()
    assert world.days() == ["2024-02-29", "2026-05-02"]
    assert world.reports.totals(datetime(2020, 1, 1, tzinfo=UTC), JUNE).sums.requests == 2


def test_rows_from_before_an_upgrade_are_in_their_hours_before_a_day_is_summed(world: World) -> None:
    world.usage.insert(some_rows(50))

    daysums.DaySums(world.database, lambda: False, clock=lambda: world.now).run()

    assert world.days() == []
    assert Backfill(world.database).is_complete()


def test_rows_that_other_processes_store_while_their_days_are_summed_are_not_missed(
    database_url: str, world: World
) -> None:
    """All days are over, so each batch of theirs makes days late that are being summed."""
    rows = some_rows(1200)
    world.usage.insert(rows[:100])
    world.now = at("2026-05-30T12:00")
    writers = [a_writer(database_url, *span) for span in [(0, 700), (500, 1200)]]
    for writer in writers:
        start(writer)

    while any(writer.poll() is None for writer in writers):
        world.sum_days()
    assert [finished(writer) for writer in writers] == [0, 0]
    assert is_exact(world.reports, rows), "whichever of them are late at the moment"

    world.sum_days()
    assert world.late() == []
    assert is_exact(world.reports, rows)
