"""The spool keeps every row until the database has it, whatever the disk, the database and the process do."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import gevent
import orjson
import pytest

from hermes.accounting.drain import Drain
from hermes.accounting.spool import Spool
from hermes.accounting.spoolfile import MAX_LINE_BYTES, SLICE_ROWS, Batch, lock_if_dead
from hermes.settings import ROOT
from hermes.types import UsageRecord


def a_row(name: object, **values: Any) -> dict[str, Any]:
    return {"request_id": str(name), **values}


def names(rows: Sequence[Any]) -> list[str]:
    return [row["request_id"] for row in rows]


def names_in(batches: Sequence[Batch]) -> list[str]:
    return [name for batch in batches for rows in batch.slices() for name in names(rows)]


class Disk:
    """`os.write`, until it is told to fail."""

    def __init__(self) -> None:
        self.is_full = False
        self.cut_next_at: int | None = None

    def write(self, fd: int, line: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.cut_next_at is not None:
            line, self.cut_next_at = line[: self.cut_next_at], None
        return os.write(fd, line)


@dataclass
class Inserted:
    rejected: list[tuple[Any, str]]


@dataclass
class FakeTable:
    """A table with unique request ids, which can be out of order and refuse rows."""

    rows: dict[str, Any] = field(default_factory=dict)
    is_down: bool = False
    fails_after: int | None = None
    """Calls that are stored before one fails."""

    poison: frozenset[str] = frozenset()
    calls: int = 0

    def insert(self, rows: Sequence[Any], writer: str = "") -> Inserted:
        self.calls += 1
        if self.is_down or (self.fails_after is not None and self.calls > self.fails_after):
            raise ConnectionError("the database is away")
        gevent.sleep(0)
        for row in rows:
            if row["request_id"] not in self.poison:
                self.rows.setdefault(row["request_id"], row)
        return Inserted([(row, "poison") for row in rows if row["request_id"] in self.poison])


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def spool(tmp_path: Path, disk: Disk) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", write=disk.write)
    yield spool
    spool.close()


def waiting(spool: Spool) -> list[Path]:
    return sorted(spool.folder.glob("usage-*"))


def set_aside(spool: Spool) -> list[bytes]:
    path = spool.folder / "unreadable.jsonl"
    return path.read_bytes().splitlines() if path.exists() else []


def a_dead_process_appends(folder: Path, *rows: str) -> None:
    """A process that appends and is gone without any farewell."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom hermes.accounting.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]))\n"
        "for name in sys.argv[2:]:\n    spool.append({'request_id': name})\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(folder), *rows], cwd=ROOT, check=False, timeout=30)


# -- appending --------------------------------------------------------------------------------------------


def test_an_appended_row_is_in_the_file_at_once(spool: Spool) -> None:
    spool.append(a_row("r1", cost="0.1"))
    spool.append(a_row("r2"))

    [file] = waiting(spool)
    assert file.read_bytes() == b'{"request_id":"r1","cost":"0.1"}\n{"request_id":"r2"}\n'
    assert spool.depth() == 2


def test_the_record_of_a_request_is_a_row(spool: Spool) -> None:
    spool.append(UsageRecord("r1", "2026-05-10T12:00:00.000Z", "/v1/chat/completions"))

    [[row]] = [rows for batch in spool.take() for rows in batch.slices()]
    assert (row["request_id"], row["route"], row["details"]) == ("r1", "/v1/chat/completions", {})


@pytest.mark.parametrize(
    ("value", "read"),
    [
        pytest.param("half \ud83d pair", "half \ufffd pair", id="half a surrogate pair"),
        pytest.param("\ud83d\ude00", "😀", id="a pair in two halves"),
        pytest.param("a\nb\0c", "a\nb\0c", id="a newline and NUL inside a text"),
        pytest.param(2**70, str(2**70), id="a number over 64 bits"),
        pytest.param(float("nan"), None, id="not a number"),
        pytest.param(Decimal("0.00045"), "0.00045", id="a decimal"),
        pytest.param({1: (2, {3})}, {"1": [2, [3]]}, id="keys that are no text, tuples, sets"),
        pytest.param(b"bytes", "b'bytes'", id="bytes"),
    ],
)
def test_a_value_that_json_does_not_know_becomes_text(spool: Spool, value: Any, read: Any) -> None:
    spool.append(a_row("r1", value=value))

    [[row]] = [rows for batch in spool.take() for rows in batch.slices()]
    assert row == {"request_id": "r1", "value": read}


def test_a_value_nested_without_end_is_cut(spool: Spool) -> None:
    endless: list[Any] = []
    endless.append(endless)

    spool.append(a_row("r1", value=endless))

    assert names_in(spool.take()) == ["r1"]


def test_a_row_longer_than_any_line_keeps_its_scalars(spool: Spool) -> None:
    spool.append(a_row("r1", prompt_preview="x" * (MAX_LINE_BYTES + 1), details={"a": 1}, attempts=3))

    [[row]] = [rows for batch in spool.take() for rows in batch.slices()]
    assert row == {"request_id": "r1", "prompt_preview": "x" * 1000, "attempts": 3}


# -- the disk ---------------------------------------------------------------------------------------------


def test_rows_that_a_full_disk_refuses_are_held_and_written_in_order_when_there_is_room(
    spool: Spool, disk: Disk
) -> None:
    spool.append(a_row("r1"))
    disk.is_full = True
    spool.append(a_row("r2"))
    spool.append(a_row("r3"))
    assert (spool.depth(), spool.held_in_memory, spool.last_error) == (3, 2, "No space left on device")

    disk.is_full = False
    spool.append(a_row("r4"))

    assert (spool.depth(), spool.held_in_memory, spool.last_error) == (4, 0, None)
    assert names_in(spool.take()) == ["r1", "r2", "r3", "r4"]


def test_held_rows_are_written_by_the_next_take_too(spool: Spool, disk: Disk) -> None:
    disk.is_full = True
    spool.append(a_row("r1"))
    assert names_in(spool.take()) == []
    disk.is_full = False

    assert names_in(spool.take()) == ["r1"]


def test_a_folder_that_cannot_be_made_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = Spool(tmp_path / "file" / "spool")

    spool.append(a_row("r1"))
    assert (spool.held_in_memory, spool.last_error) == (1, "Not a directory")

    (tmp_path / "file").unlink()
    spool.append(a_row("r2"))
    assert names_in(spool.take()) == ["r1", "r2"]
    spool.close()


def test_memory_holds_ten_thousand_rows_and_counts_what_it_had_to_drop(spool: Spool, disk: Disk) -> None:
    disk.is_full = True

    for number in range(10_003):
        spool.append(a_row(number))

    assert (spool.held_in_memory, spool.lost) == (10_000, 3)
    disk.is_full = False
    rows: list[str] = []
    while spool.held_in_memory:
        for batch in spool.take():
            rows += [name for part in batch.slices() for name in names(part)]
            batch.done()
    assert rows + names_in(spool.take()) == [str(number) for number in range(3, 10_003)]


def test_memory_is_bounded_in_bytes_too(tmp_path: Path, disk: Disk) -> None:
    spool = Spool(tmp_path, write=disk.write, held_bytes=1000)
    disk.is_full = True

    for number in range(10):
        spool.append(a_row(number, text="x" * 300))

    assert (spool.held_in_memory, spool.lost) == (3, 7)


@pytest.mark.parametrize("cut", [0, 1, 10, 18])
def test_a_row_written_in_part_is_written_again_and_spoils_no_other(spool: Spool, disk: Disk, cut: int) -> None:
    spool.append(a_row("r1"))
    disk.cut_next_at = cut
    spool.append(a_row("r2"))
    spool.append(a_row("r3"))

    batches = spool.take()

    assert names_in(batches) == ["r1", "r2", "r3"]
    assert len(set_aside(spool)) == (1 if cut else 0)


def test_a_row_of_which_only_the_newline_was_not_written_comes_twice_which_its_id_makes_harmless(
    spool: Spool, disk: Disk
) -> None:
    disk.cut_next_at = len('{"request_id":"r1"}')
    spool.append(a_row("r1"))
    table = FakeTable()

    Drain(spool, table.insert).run_once()

    assert list(table.rows) == ["r1"]
    assert set_aside(spool) == []


def test_a_disk_that_refuses_every_write_leaves_no_heap_of_empty_files(spool: Spool, disk: Disk) -> None:
    disk.is_full = True

    for number in range(50):
        spool.append(a_row(number))
        spool.take()

    assert len(waiting(spool)) == 1


# -- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "aside"),
    [
        pytest.param(b'{"request_id":"r', 1, id="a torn line"),
        pytest.param(b"\0" * 300, 1, id="zeros, as a power cut leaves them"),
        pytest.param(b"[1, 2]", 1, id="JSON that is no row"),
        pytest.param(b"\xff\xfe", 1, id="no UTF-8"),
        pytest.param(b"", 0, id="an empty line"),
    ],
)
@pytest.mark.parametrize("ends", [b"\n", b""], ids=["in the midst", "at the end"])
def test_a_line_that_is_no_row_is_set_aside_and_stops_nothing(
    spool: Spool, tmp_path: Path, line: bytes, aside: int, ends: bytes
) -> None:
    spool.folder.mkdir()
    after = b'{"request_id":"r2"}\n' if ends else b""
    (spool.folder / "usage-1-1-000001.jsonl").write_bytes(b'{"request_id":"r1"}\n' + line + ends + after)

    found = names_in(spool.take())

    assert found == (["r1", "r2"] if ends else ["r1"])
    assert set_aside(spool) == [line] * aside
    assert spool.unreadable == aside


def test_the_last_line_counts_even_without_its_newline(spool: Spool) -> None:
    spool.folder.mkdir()
    (spool.folder / "usage-1-1-000001.jsonl").write_bytes(b'{"request_id":"r1"}')

    assert names_in(spool.take()) == ["r1"]


def test_a_file_is_read_in_slices_and_not_whole(spool: Spool) -> None:
    for number in range(2 * SLICE_ROWS + 1):
        spool.append(a_row(number))

    [batch] = spool.take()

    assert [len(rows) for rows in batch.slices()] == [SLICE_ROWS, SLICE_ROWS, 1]


def test_long_rows_make_short_slices(spool: Spool) -> None:
    for number in range(5):
        spool.append(a_row(number, text="x" * 600_000))

    [batch] = spool.take()

    assert [len(rows) for rows in batch.slices()] == [2, 2, 1]


def test_a_slice_that_was_not_stored_comes_again_and_a_stored_one_does_not(spool: Spool) -> None:
    for number in range(2 * SLICE_ROWS):
        spool.append(a_row(number))
    [batch] = spool.take()

    slices = batch.slices()
    next(slices)
    second = names(next(slices))  # asking for it says that the first is stored
    slices.close()  # type: ignore[attr-defined]

    assert spool.depth() == SLICE_ROWS
    assert [names(rows) for rows in batch.slices()] == [second]


def test_a_done_file_is_gone_and_done_twice_is_harmless(spool: Spool) -> None:
    spool.append(a_row("r1"))
    [batch] = spool.take()
    names_in([batch])

    batch.done()
    batch.done()

    assert (waiting(spool), spool.depth(), spool.take()) == ([], 0, [])


def test_one_own_file_waits_and_one_grows_while_the_database_is_away(spool: Spool) -> None:
    """A file an attempt would end at the limit of open files after an hour."""
    for number in range(100):
        spool.append(a_row(number))
        spool.take()

    assert len(waiting(spool)) == 2
    assert spool.depth() == 100


# -- other processes --------------------------------------------------------------------------------------


def test_the_file_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    mine, theirs = Spool(tmp_path), Spool(tmp_path)
    theirs.append(a_row("theirs"))
    mine.append(a_row("mine"))

    assert names_in(mine.take()) == ["mine"]
    assert names_in(theirs.take()) == ["theirs"]
    mine.close()
    theirs.close()


def test_own_rows_come_before_those_of_dead_processes(spool: Spool) -> None:
    a_dead_process_appends(spool.folder, "d1", "d2")
    spool.append(a_row("own"))

    batches = spool.take()

    assert names_in(batches) == ["own", "d1", "d2"]
    assert len(batches) == 2


def test_a_file_that_somebody_moves_is_not_moved_by_a_third(tmp_path: Path) -> None:
    a_dead_process_appends(tmp_path, "d1")
    first, second = Spool(tmp_path), Spool(tmp_path)
    [batch] = first.take()

    assert second.take() == []
    first.close()
    assert names_in(second.take()) == ["d1"]
    assert batch.is_done
    second.close()


def test_a_file_that_another_process_has_just_moved_is_not_moved_again(tmp_path: Path) -> None:
    """Its rows would be passed over by the database, but counted twice."""
    path = tmp_path / "usage-1-1-000001.jsonl"
    path.touch()

    def flock(fd: int, operation: int) -> None:
        path.unlink()
        fcntl.flock(fd, operation)

    assert lock_if_dead(path, flock) is None


def test_a_closed_spool_leaves_its_rows_to_the_next(tmp_path: Path) -> None:
    first, second = Spool(tmp_path), Spool(tmp_path)
    first.append(a_row("r1"))
    first.close()

    assert names_in(second.take()) == ["r1"]
    second.close()


def test_a_forked_child_does_not_touch_its_parents_rows(spool: Spool, disk: Disk) -> None:
    spool.append(a_row("parent"))
    disk.is_full = True
    spool.append(a_row("held by the parent"))
    disk.is_full = False

    child = os.fork()
    if child == 0:
        try:
            spool.append(a_row("child"))
            os._exit(0 if spool.depth() == 1 else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert names_in(spool.take()) == ["parent", "held by the parent", "child"]


def test_a_file_whose_creator_died_before_naming_it_is_swept_away(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    spool = Spool(tmp_path, clock=lambda: now)
    for age, name in ((61, "old"), (1, "new")):
        path = tmp_path / f"usage-{name}.tmp"
        path.touch()
        os.utime(path, (now - age, now - age))

    spool.take()

    assert [path.name for path in tmp_path.iterdir()] == ["usage-new.tmp"]


def test_the_size_of_what_waits_is_known(spool: Spool) -> None:
    assert spool.waiting_bytes() == 0
    spool.append({"a": 1})

    assert spool.waiting_bytes() == len(orjson.dumps({"a": 1})) + 1


# -- the drain --------------------------------------------------------------------------------------------


def test_a_run_moves_everything_and_deletes_the_files(spool: Spool) -> None:
    a_dead_process_appends(spool.folder, "d1")
    for number in range(1200):
        spool.append(a_row(number))
    table = FakeTable()
    drain = Drain(spool, table.insert)

    moved = drain.run_once()

    assert (moved, len(table.rows), spool.depth(), waiting(spool)) == (1201, 1201, 0, [])
    assert (drain.moved, drain.last_error) == (1201, None)


def test_it_is_known_from_when_on_a_row_was_in_the_database(spool: Spool) -> None:
    began = time.time()
    spool.append(a_row("r1"))
    appended = time.time()
    table = FakeTable(is_down=True)
    drain = Drain(spool, table.insert)

    drain.run_once()
    assert not drain.was_moved(appended, time.time() + 60), "it is still here"
    table.is_down = False
    drain.run_once()

    assert drain.was_moved(appended, time.time())
    assert not drain.was_moved(appended, began), "not before it was moved"
    assert not drain.was_moved(time.time(), time.time() + 60), "one that came afterwards"


def test_a_database_that_is_away_keeps_the_rows_and_raises_nothing(spool: Spool) -> None:
    spool.append(a_row("r1"))
    table = FakeTable(is_down=True)
    drain = Drain(spool, table.insert)

    assert [drain.run_once() for _ in range(3)] == [0, 0, 0]
    assert drain.last_error == "ConnectionError: the database is away"
    spool.append(a_row("r2"))
    table.is_down = False

    assert drain.run_once() == 2
    assert (list(table.rows), waiting(spool)) == (["r1", "r2"], [])
    assert not drain.last_error


@pytest.mark.parametrize("stored", [1, 2, 3, 4])
def test_a_database_that_goes_away_in_the_midst_gets_the_rest_later(spool: Spool, stored: int) -> None:
    for number in range(4 * SLICE_ROWS + 1):
        spool.append(a_row(number))
    table = FakeTable(fails_after=stored)
    drain = Drain(spool, table.insert)

    assert drain.run_once() == stored * SLICE_ROWS
    assert spool.depth() == 4 * SLICE_ROWS + 1 - stored * SLICE_ROWS
    table.fails_after = None
    drain.run_once()

    assert (len(table.rows), spool.depth(), drain.moved) == (4 * SLICE_ROWS + 1, 0, 4 * SLICE_ROWS + 1)


def test_a_poison_row_is_set_aside_with_the_reason_and_the_others_are_moved(spool: Spool) -> None:
    for name in ("r1", "bad", "r2"):
        spool.append(a_row(name))
    table = FakeTable(poison=frozenset({"bad"}))
    drain = Drain(spool, table.insert)

    assert drain.run_once() == 2

    assert (list(table.rows), drain.rejected, waiting(spool)) == (["r1", "r2"], 1, [])
    assert [orjson.loads(line) for line in set_aside(spool)] == [{"rejected": "poison", "row": a_row("bad")}]


def test_a_poison_row_that_cannot_be_set_aside_keeps_its_file(spool: Spool, disk: Disk) -> None:
    spool.append(a_row("bad"))
    table = FakeTable(poison=frozenset({"bad"}))
    drain = Drain(spool, table.insert)

    disk.is_full = True
    drain.run_once()
    assert len(waiting(spool)) == 1
    disk.is_full = False
    drain.run_once()

    assert (waiting(spool), len(set_aside(spool))) == ([], 1)


def test_unreadable_lines_are_set_aside_once_however_often_the_database_fails(spool: Spool) -> None:
    spool.folder.mkdir()
    (spool.folder / "usage-1-1-000001.jsonl").write_bytes(b'{"request_id":"r1"}\ntorn\n')
    table = FakeTable(is_down=True)
    drain = Drain(spool, table.insert)
    for _ in range(5):
        drain.run_once()
    table.is_down = False

    drain.run_once()

    assert set_aside(spool) == [b"torn"]


def test_a_flush_makes_rows_visible_that_were_appended_before_it(spool: Spool) -> None:
    table = FakeTable()
    drain = Drain(spool, table.insert)
    spool.append(a_row("r1"))
    running = gevent.spawn(drain.run_once)
    gevent.sleep(0)
    spool.append(a_row("r2"))

    assert drain.flush(5)

    assert list(table.rows) == ["r1", "r2"]
    running.join()


def test_a_flush_waits_no_longer_than_it_is_told_and_many_wait_together(spool: Spool) -> None:
    answers = gevent.event.Event()
    calls = []

    def hanging(rows: Sequence[Any], writer: str = "") -> Inserted:
        calls.append(len(rows))
        answers.wait()
        return Inserted([])

    drain = Drain(spool, hanging)
    spool.append(a_row("r1"))
    first = gevent.spawn(drain.run_once)
    gevent.sleep(0)

    flushes = [gevent.spawn(drain.flush, 0.05) for _ in range(20)]
    gevent.joinall(flushes)
    assert [flush.get() for flush in flushes] == [False] * 20
    answers.set()
    first.join()

    assert drain.flush(5)
    assert calls == [1]


def test_a_killed_run_leaves_its_rows_to_the_next(spool: Spool) -> None:
    calls: list[list[str]] = []

    def insert(rows: Sequence[Any], writer: str = "") -> Inserted:
        calls.append(names(rows))
        if len(calls) == 1:
            gevent.event.Event().wait()
        return Inserted([])

    drain = Drain(spool, insert)
    spool.append(a_row("r1"))
    run = gevent.spawn(drain.run_once)
    gevent.sleep(0)

    run.kill()

    assert drain.run_once() == 1
    assert calls == [["r1"], ["r1"]]


@pytest.mark.parametrize("fault", [lambda batch: None, lambda batch: batch.path.unlink()], ids=["there", "deleted"])
def test_a_file_that_was_deleted_under_the_drain_is_still_moved(spool: Spool, fault: Callable[[Batch], None]) -> None:
    spool.append(a_row("r1"))
    table = FakeTable()
    fault(spool.take()[0])

    Drain(spool, table.insert).run_once()

    assert list(table.rows) == ["r1"]
