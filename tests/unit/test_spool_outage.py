"""A disk that takes no rows: it is told, the rows go to the database instead, and no row is stored twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gevent
import orjson
import pytest

from hermes.accounting.drain import Drain
from hermes.accounting.held import HELD_ROWS
from hermes.accounting.outage import CALM_S, Outage
from hermes.accounting.spool import Spool
from hermes.accounting.spoolfile import SLICE_ROWS
from hermes.errors import StartRefused
from tests.unit.test_spool import Disk, FakeTable, Inserted, a_row, names, set_aside, waiting


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lost() -> list[int]:
    return []


@pytest.fixture
def spool(tmp_path: Path, disk: Disk, clock: Clock, lost: list[int]) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", write=disk.write, monotonic=clock, on_lost=lost.append)
    yield spool
    spool.close()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "hermes-router")
    return caplog


def told(lines: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage().partition(" spool ")[2]) for record in lines.records]


# -- where the rows go ------------------------------------------------------------------------------------


def test_rows_that_no_disk_takes_go_to_the_database(spool: Spool, disk: Disk) -> None:
    disk.is_full = True
    for number in range(SLICE_ROWS + 1):
        spool.append(a_row(number))
    table = FakeTable()
    drain = Drain(spool, table.insert)

    assert drain.flush(5)

    assert list(table.rows) == [str(number) for number in range(SLICE_ROWS + 1)]
    assert (drain.moved, spool.depth(), spool.held_in_memory, table.calls) == (SLICE_ROWS + 1, 0, 0, 2)


def test_a_folder_that_never_comes_back_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = Spool(tmp_path / "file" / "spool")
    table = FakeTable()
    spool.append(a_row("r1"))

    Drain(spool, table.insert).run_once()

    assert (list(table.rows), spool.depth()) == (["r1"], 0)
    spool.close()


def test_rows_that_neither_takes_are_held_in_their_order(spool: Spool, disk: Disk) -> None:
    disk.is_full = True
    for name in ("r1", "r2", "r3"):
        spool.append(a_row(name))
    table = FakeTable(is_down=True)
    drain = Drain(spool, table.insert)
    drain.run_once()
    assert (spool.depth(), spool.held_in_memory) == (3, 3)

    disk.is_full = False

    [batch] = spool.take()
    assert [names(rows) for rows in batch.slices()] == [["r1", "r2", "r3"]]


def test_a_row_on_its_way_to_the_database_is_not_written_to_the_disk_too(spool: Spool, disk: Disk) -> None:
    disk.is_full = True
    spool.append(a_row("r1"))
    stored: list[str] = []

    def insert(rows: Sequence[Any], writer: str = "") -> Inserted:
        if not stored:
            disk.is_full = False
            spool.append(a_row("r2"))
            assert spool.depth() == 2
        stored.extend(names(rows))
        return Inserted([])

    Drain(spool, insert).run_once()

    assert stored == ["r1", "r2"]
    assert (spool.depth(), waiting(spool)) == (0, [])


def test_a_killed_run_gives_back_what_it_was_lent(spool: Spool, disk: Disk) -> None:
    disk.is_full = True
    spool.append(a_row("r1"))

    def hanging(rows: Sequence[Any], writer: str = "") -> Inserted:
        gevent.event.Event().wait()
        return Inserted([])

    run = gevent.spawn(Drain(spool, hanging).run_once)
    gevent.sleep(0)
    run.kill()

    table = FakeTable()
    assert Drain(spool, table.insert).run_once() == 1
    assert list(table.rows) == ["r1"]


def test_memory_is_bounded_while_rows_are_on_their_way(spool: Spool, disk: Disk, lost: list[int]) -> None:
    disk.is_full = True
    for number in range(HELD_ROWS):
        spool.append(a_row(number))

    with spool.lend() as rows:
        spool.append(a_row("new"))
        assert spool.held_in_memory == HELD_ROWS

    assert (len(rows), sum(lost), spool.lost) == (SLICE_ROWS, 1, 1)
    assert spool.held_in_memory == HELD_ROWS - SLICE_ROWS


def test_a_held_row_that_can_never_be_stored_keeps_no_other_back(spool: Spool, disk: Disk) -> None:
    disk.is_full = True
    for name in ("bad", "r1"):
        spool.append(a_row(name))
    table = FakeTable(poison=frozenset({"bad"}))
    drain = Drain(spool, table.insert)
    drain.run_once()
    spool.append(a_row("r2"))
    drain.run_once()
    assert (list(table.rows), spool.held_in_memory, drain.rejected) == (["r1", "r2"], 1, 0)

    disk.is_full = False
    drain.run_once()

    assert (spool.depth(), drain.rejected) == (0, 1)
    assert [orjson.loads(line) for line in set_aside(spool)] == [{"rejected": "poison", "row": a_row("bad")}]


def test_a_line_that_cannot_be_set_aside_keeps_its_file_but_no_row(spool: Spool, disk: Disk) -> None:
    spool.folder.mkdir()
    rows = b"".join(b'{"request_id":"%d"}\n' % number for number in range(2 * SLICE_ROWS))
    (spool.folder / "usage-1-1-000001.jsonl").write_bytes(b"torn\n" + rows)
    table = FakeTable()
    drain = Drain(spool, table.insert)
    disk.is_full = True

    assert drain.flush(5)
    assert (len(table.rows), len(waiting(spool)), table.calls) == (2 * SLICE_ROWS, 1, 2)
    disk.is_full = False
    drain.run_once()

    assert (set_aside(spool), waiting(spool), table.calls, drain.moved) == ([b"torn"], [], 2, 2 * SLICE_ROWS)


def test_a_file_that_the_disk_does_not_let_go_is_moved_once_and_holds_nothing_up(spool: Spool) -> None:
    spool.append(a_row("r1"))
    [batch] = spool.take()
    batch.path.unlink()
    batch.path.mkdir()  # what cannot be unlinked
    table = FakeTable()
    drain = Drain(spool, table.insert)

    assert drain.flush(5)
    spool.append(a_row("r2"))
    assert drain.flush(5)

    assert (list(table.rows), table.calls, drain.moved, spool.depth()) == (["r1", "r2"], 2, 2, 0)


# -- what is told -----------------------------------------------------------------------------------------


def test_an_outage_is_told_once_at_its_beginning_and_once_at_its_end(
    spool: Spool, disk: Disk, clock: Clock, lines: pytest.LogCaptureFixture
) -> None:
    assert spool.trouble is None
    disk.is_full = True
    for number in range(3):
        spool.append(a_row(number))
        spool.take()
    cannot = f"{spool.folder} cannot be written, rows are held in memory until the database takes them"
    assert told(lines) == [("WARNING", f"{cannot}: No space left on device")]
    assert spool.trouble == (
        "the usage spool cannot be written (No space left on device); rows held in memory: 3, lost: 0"
    )

    disk.is_full = False
    clock.now += CALM_S
    spool.append(a_row("r4"))
    spool.tend()

    assert told(lines)[1:] == [("INFO", f"{spool.folder} can be written again")]
    assert spool.trouble is None


def test_the_end_is_seen_without_any_request(
    spool: Spool, disk: Disk, clock: Clock, lines: pytest.LogCaptureFixture
) -> None:
    disk.is_full = True
    spool.append(a_row("r1"))
    drain = Drain(spool, FakeTable().insert)
    drain.run_once()
    assert spool.trouble is not None

    disk.is_full = False
    clock.now += CALM_S
    drain.run_once()

    assert spool.trouble is None
    assert (drain.run_once(), spool.depth(), set_aside(spool)) == (0, 0, [])


def test_lost_rows_are_counted_and_told_once(
    tmp_path: Path, disk: Disk, lost: list[int], lines: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path, write=disk.write, held_bytes=1000, on_lost=lost.append)
    disk.is_full = True

    for number in range(10):
        spool.append(a_row(number, text="x" * 300))

    assert (sum(lost), spool.lost, spool.depth()) == (7, 7, 3)
    assert spool.trouble is not None
    assert spool.trouble.endswith("rows held in memory: 3, lost: 7")
    assert [record.getMessage() for record in lines.records if record.levelname == "ERROR"] == [
        "The memory for usage rows is full too: from now on the oldest are lost."
    ]


def test_what_is_lost_at_the_end_of_the_process_is_told(
    tmp_path: Path, disk: Disk, lines: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path, write=disk.write)
    disk.is_full = True
    spool.append(a_row("r1"))

    spool.close()

    assert lines.records[-1].getMessage() == (
        "Usage rows are lost, which neither the disk nor the database has taken: 1"
    )


def test_a_database_that_is_away_is_told_once(spool: Spool, lines: pytest.LogCaptureFixture) -> None:
    table = FakeTable(is_down=True)
    drain = Drain(spool, table.insert)
    spool.append(a_row("r1"))

    for _ in range(3):
        drain.run_once()

    assert [record.getMessage() for record in lines.records] == [
        "Usage rows wait, since they cannot be moved to the database: ConnectionError: the database is away"
    ]


def test_what_fails_now_and_then_is_one_outage(lines: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("broken", "mended", clock)

    for _ in range(10):
        outage.failed("full")
        clock.now += CALM_S / 2
        outage.worked()
    assert outage.reason == "full"
    clock.now += CALM_S
    outage.worked()
    outage.worked()
    outage.failed("again")

    assert [record.getMessage() for record in lines.records] == ["broken: full", "mended", "broken: again"]


# -- the start --------------------------------------------------------------------------------------------


def test_a_folder_that_can_be_made_is_made_and_left_empty(spool: Spool) -> None:
    spool.check()

    assert list(spool.folder.iterdir()) == []


@pytest.mark.parametrize(
    "folder", [pytest.param("file", id="a file"), pytest.param("file/spool", id="a folder within a file")]
)
def test_a_start_without_a_place_for_rows_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StartRefused, match=r"usage spool .*file.* cannot be written: .*HERMES_SPOOL_DIR"):
        Spool(tmp_path / folder).check()


def test_a_start_says_why_the_place_for_rows_cannot_be() -> None:
    with pytest.raises(StartRefused, match="usage spool /proc/x cannot be written: No such file or directory"):
        Spool(Path("/proc/x")).check()
