"""Trace files are read as one story: the end of it at once, and what is added, whatever becomes of the files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.observe import tracefiles
from hermes.observe.trace import TraceLog
from hermes.observe.tracefiles import TraceFiles

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC).timestamp()
DAY_S = 86_400.0


class Writer:
    """A server that writes numbered events at a time of its own."""

    def __init__(self, folder: Path, max_bytes: int = 10_000_000, backups: int = 50) -> None:
        self.now = NOON
        self.log = TraceLog(folder, max_bytes, backups, clock=lambda: self.now)
        self._count = 0

    def write(self, count: int = 1, **fields: Any) -> list[int]:
        """Their numbers."""
        numbers = list(range(self._count, self._count + count))
        for number in numbers:
            self.now += 0.001
            self.log.emit("route", {"request_id": f"req_{number}", "n": number, **fields})
        self._count += count
        return numbers


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path)
    yield writer
    writer.log.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[TraceFiles]:
    with TraceFiles(tmp_path) as files:
        yield files


def numbers_of(events: Any) -> list[int]:
    return [event["n"] for event in events]


@pytest.mark.parametrize("wanted", [0, 1, 7, 30, 31])
def test_the_last_events_oldest_first_across_rotations_and_days(tmp_path: Path, files: TraceFiles, wanted: int) -> None:
    writer = Writer(tmp_path, max_bytes=250)
    for _ in range(3):
        writer.write(10)
        writer.now += DAY_S
    writer.log.close()
    assert len(list(tmp_path.glob("router-trace-*"))) > 6

    assert numbers_of(files.last(wanted)) == list(range(30))[max(0, 30 - wanted) :]


def test_lines_longer_than_what_is_read_at_once(writer: Writer, files: TraceFiles) -> None:
    size = tracefiles.BLOCK_BYTES
    for length in (10, size - 1, size, 3 * size, 10):
        writer.write(pad="x" * length)

    assert numbers_of(files.last(4)) == [1, 2, 3, 4]


def test_only_what_is_wanted_counts(writer: Writer, files: TraceFiles) -> None:
    writer.write(20)

    assert numbers_of(files.last(3, lambda event: event["n"] % 5 == 0)) == [5, 10, 15]


def test_nothing_is_there_yet_and_then_it_comes(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    with TraceFiles(folder) as files:
        assert files.last(10) == []
        assert list(files.more()) == []

        writer = Writer(folder)
        writer.write(2)
        writer.log.close()

        assert numbers_of(files.more()) == [0, 1]
        assert list(files.more()) == []


@pytest.mark.parametrize("backups", [50, 1, 0])
def test_what_is_added_is_read_once_through_rotations(tmp_path: Path, files: TraceFiles, backups: int) -> None:
    """Also where a file is rotated away and deleted between two looks, as long as it had been seen."""
    writer = Writer(tmp_path, max_bytes=400, backups=backups)
    writer.write(3)
    assert numbers_of(files.last(1)) == [2]

    seen: list[int] = []
    for _ in range(40):
        writer.write()
        seen += numbers_of(files.more())
    writer.log.close()

    assert seen == list(range(3, 43))


def test_many_rotations_between_two_looks(writer: Writer, tmp_path: Path, files: TraceFiles) -> None:
    writer.write(2)
    files.last(1)
    small = Writer(tmp_path, max_bytes=300)

    written = small.write(30)
    small.log.close()

    assert numbers_of(files.more()) == written


def test_a_new_day_goes_on_in_another_file(writer: Writer, files: TraceFiles) -> None:
    writer.write(2)
    files.last(1)

    today = writer.write()
    writer.now += DAY_S
    tomorrow = writer.write(2)

    assert numbers_of(files.more()) == today + tomorrow


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path, files: TraceFiles) -> None:
    path = tmp_path / "router-trace-20260510.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":')

    assert numbers_of(files.last(5)) == [1]
    assert list(files.more()) == []
    with path.open("ab") as opened:
        opened.write(b"2}\n{")
    assert numbers_of(files.more()) == [2]


def test_lines_that_are_no_event_are_passed_over_and_counted(tmp_path: Path, files: TraceFiles) -> None:
    path = tmp_path / "router-trace-20260510.jsonl"
    path.write_bytes(b'\n{"n":1}\n{"n":1\n[1]\n\xff\n{"n":2}\n')
    (tmp_path / "notes.txt").write_text("not a trace")

    assert numbers_of(files.last(9)) == [1, 2]
    assert files.unreadable == 3


def test_what_comes_between_the_last_events_and_the_first_look_is_not_lost(writer: Writer, files: TraceFiles) -> None:
    writer.write(2)
    late: list[int] = []

    def wanted(event: dict[str, Any]) -> bool:
        if not late:
            late.extend(writer.write())
        return True

    assert numbers_of(files.last(9, wanted)) == [0, 1]
    assert numbers_of(files.more()) == late
