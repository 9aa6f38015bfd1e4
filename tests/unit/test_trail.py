"""What operators do outside the database is done and told, whatever the database does."""

from __future__ import annotations

import gevent
import pytest
from gevent.event import Event

from hermes.configfile.changes import MAX_CHANGES, changes
from hermes.storage.trail import Trail


def test_a_row_that_cannot_be_written_is_a_line_with_all_that_it_says(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*row: object) -> None:
        raise OSError("no space")

    Trail(fail).note("admin", "config.reload", "r.yaml", {"a.b": 1}, {"a.b": 2})

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        'No audit row could be written (no space): {"actor": "admin", "action": "config.reload", "target": "r.yaml", '
        '"before": {"a.b": 1}, "after": {"a.b": 2}}'
    )


def test_a_database_that_does_not_answer_keeps_nobody_waiting() -> None:
    answers = Event()
    rows: list[tuple[object, ...]] = []

    def write(*row: object) -> None:
        answers.wait()
        rows.append(row)

    Trail(write, wait_s=0.01).note("admin", "session.evict", "k")
    assert rows == []

    answers.set()
    gevent.sleep(0.001)
    assert rows == [("admin", "session.evict", "k", None, None)]


def test_only_what_differs_is_told_by_its_path() -> None:
    before = {"models": {"simple": {"endpoints": [{"model": "a"}, {"model": "b"}]}}, "on": [1, 2], "same": {"x": 1}}
    after = {"models": {"simple": {"endpoints": [{"model": "c"}]}}, "on": [1], "same": {"x": 1}, "new": "y" * 999}

    old, new = changes(before, after)

    assert old == {"models.simple.endpoints[0].model": "a", "models.simple.endpoints[1].model": "b", "on": [1, 2]}
    assert new == {"models.simple.endpoints[0].model": "c", "on": [1], "new": f"{'y' * 200}…"}


def test_very_many_changes_are_not_all_told() -> None:
    old, new = changes({"x": 0}, {"x": 0, **{str(number): number for number in range(5 * MAX_CHANGES)}})

    assert (old, len(new)) == ({}, MAX_CHANGES)
