"""Requests in = rows out + in flight: a row that is nowhere is missed, and no other one is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes.accounting.drain import Drain
from hermes.accounting.ledger import Ledger
from hermes.accounting.spool import Spool
from hermes.types import UsageRecord


class Inserted(NamedTuple):
    rejected: Sequence[tuple[Any, str]]


class Table:
    """A database that counts each row once for the process that has appended it."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.stored: Counter[str] = Counter()
        self.is_down = False
        self.poison = ""

    def insert(self, rows: Sequence[Any], writer: str) -> Inserted:
        if self.is_down:
            raise ConnectionError("the database is away")
        good = [row["request_id"] for row in rows if row["request_id"] != self.poison]
        self.stored[writer] += len(set(good) - self.ids)
        self.ids.update(good)
        return Inserted([(row, "poison") for row in rows if row["request_id"] == self.poison])

    def stored_of(self, writer: str) -> int:
        if self.is_down:
            raise ConnectionError("the database is away")
        return self.stored[writer]


class Books:
    """A process's spool, drain and ledger."""

    def __init__(self, folder: Path, table: Table, started_s: float = 1.0) -> None:
        self.folder = folder
        self.spool = Spool(folder, clock=lambda: started_s)
        self.drain = Drain(self.spool, table.insert)
        self.ledger = Ledger(self.spool, self.drain, table.stored_of)

    def serve(self, *names: str) -> None:
        for name in names:
            self.ledger.begin()
            self.ledger.append(UsageRecord(name, "2026-05-10T12:00:00.000Z", "/v1/chat/completions"))

    def gap(self) -> int:
        self.ledger.check()
        return self.ledger.gap


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def books(tmp_path: Path, table: Table) -> Iterator[Books]:
    made = Books(tmp_path, table)
    yield made
    made.spool.close()


def test_nothing_is_missing_before_and_after_rows_are_moved(books: Books) -> None:
    books.ledger.begin()
    assert (books.ledger.in_flight, books.gap()) == (1, 0)

    books.serve("r1", "r2")
    assert (books.ledger.in_flight, books.gap()) == (1, 0)

    books.drain.run_once()
    books.serve("r3")
    assert (books.ledger.in_flight, books.gap()) == (1, 0)


def test_nothing_is_missing_while_the_database_is_away_and_when_it_is_back(books: Books, table: Table) -> None:
    books.serve("r1")
    table.is_down = True
    books.drain.run_once()
    books.serve("r2")
    assert books.gap() == 0

    table.is_down = False
    books.drain.run_once()
    assert books.gap() == 0


def test_a_rejected_row_is_not_missing(books: Books, table: Table) -> None:
    table.poison = "r2"
    books.serve("r1", "r2", "r3")
    books.drain.run_once()

    assert (books.gap(), books.drain.own_rejected) == (0, 1)


def test_a_row_that_vanished_from_the_spool_is_missed_and_stays_so(
    books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    books.serve("r1")
    books.drain.run_once()
    books.serve("r2")
    (file,) = books.folder.glob("usage-*.jsonl")
    file.write_bytes(b"")
    books.drain.run_once()

    assert [books.gap(), books.gap()] == [1, 1]
    assert [record.getMessage() for record in caplog.records if "missing" in record.getMessage()] == [
        "Usage rows are missing that were in the spool, and are not in the database: 1"
    ]
    books.serve("r3")
    books.drain.run_once()
    assert books.gap() == 1


def test_a_row_that_only_seems_to_be_stored_is_missed(books: Books, table: Table) -> None:
    """Another request with its id is in the database: the row was passed over."""
    table.ids.add("r1")
    books.serve("r1")
    books.drain.run_once()

    assert books.gap() == 1


def test_rows_of_a_dead_process_are_not_ones_own(tmp_path: Path, table: Table) -> None:
    dead = Books(tmp_path, table, started_s=1.0)
    dead.serve("r1", "r2")
    table.poison = "r2"
    dead.spool.close()
    heir = Books(tmp_path, table, started_s=2.0)
    heir.serve("r3")

    heir.drain.run_once()

    assert table.ids == {"r1", "r3"}
    assert (heir.gap(), heir.drain.rejected, heir.drain.own_rejected) == (0, 1, 0)
    heir.spool.close()
