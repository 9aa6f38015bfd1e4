"""The usage log as a stream: all of it, once, newest first, in either database; and as a CSV file that opens safely."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from hermes.storage.db import Database
from hermes.storage.export import SHOWN_NAMES, UsageFilter, count, csv_lines, pages
from hermes.storage.repositories import UsageRepository

from .conftest import a_record


def at(second: int) -> str:
    return f"2026-05-10T12:00:{second:02d}.000Z"


def ids_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["request_id"] for row in rows]


@pytest.mark.parametrize("page_rows", [1, 2, 3, 5, 6, 100])
def test_pages_hold_every_row_once_in_the_order_of_the_log(
    database: Database, usage: UsageRepository, page_rows: int
) -> None:
    """Rows of one moment are the hard part: a page may end among them."""
    usage.insert([a_record(f"r{n}", created_at=at(second)) for n, second in enumerate((3, 1, 1, 1, 2, 1))])

    found = list(pages(database, UsageFilter(), page_rows))

    assert [row for page in found for row in page] == usage.find(UsageFilter())
    assert ids_of([row for page in found for row in page]) == ["r0", "r4", "r5", "r3", "r2", "r1"]
    assert {len(page) for page in found[:-1]} <= {page_rows}


def test_filters_hold_and_the_limit_of_a_page_does_not(database: Database, usage: UsageRepository) -> None:
    usage.insert([a_record(f"r{n}", user_id="ann" if n % 2 else "bob", created_at=at(n)) for n in range(9)])
    wanted = UsageFilter(user_id="ann", since=at(2), limit=1, page=7)

    found = list(pages(database, wanted, 2))

    assert [ids_of(page) for page in found] == [["r7", "r5"], ["r3"]]
    assert count(database, wanted) == 3


def test_rows_that_arrive_meanwhile_disturb_nothing(database: Database, usage: UsageRepository) -> None:
    usage.insert([a_record(f"r{n}", created_at=at(n)) for n in range(4)])
    reading = pages(database, UsageFilter(), 2)
    first = next(reading)

    usage.insert([a_record("new", created_at=at(9)), a_record("same moment", created_at=at(2))])

    assert ids_of(first) + [name for page in reading for name in ids_of(page)] == ["r3", "r2", "r1", "r0"]


def test_nothing_is_no_page(database: Database) -> None:
    assert list(pages(database, UsageFilter())) == []
    assert count(database, UsageFilter()) == 0


def test_a_reader_that_stops_holds_nothing(database: Database, usage: UsageRepository) -> None:
    usage.insert([a_record(f"r{n}", created_at=at(n)) for n in range(4)])
    reading = pages(database, UsageFilter(), 1)
    next(reading)

    usage.insert([a_record("written while it pauses")])
    reading.close()

    assert count(database, UsageFilter()) == 5


def test_what_the_database_holds_is_what_the_table_says(database: Database, usage: UsageRepository) -> None:
    usage.insert(
        [
            a_record(
                "r1",
                stream=True,
                prompt_tokens=10,
                estimated_cost_usd="0.000000450",
                confidence=0.5,
                duration_ms=-1.5,
                prompt_preview='=HYPERLINK("http://x.test","open")',
            )
        ]
    )

    (line,) = csv.DictReader(
        io.StringIO("".join(csv_lines(row for page in pages(database, UsageFilter()) for row in page)))
    )

    assert tuple(line) == SHOWN_NAMES
    assert line["prompt_preview"] == '\'=HYPERLINK("http://x.test","open")'
    assert {name: line[name] for name in ("stream", "prompt_tokens", "estimated_cost_usd", "duration_ms")} == {
        "stream": "true",
        "prompt_tokens": "10",
        "estimated_cost_usd": "0.00000045",
        "duration_ms": "-1.5",
    }
    assert line["user_id"] == line["cached_tokens"] == ""
