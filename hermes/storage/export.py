"""The usage log as a stream of any length: rows page by page, and the lines of a CSV file.

A page begins behind the last row of the one before (by time and id), not after a number of rows: so each costs the
same however far the reading has come, nothing is read twice while new rows arrive above, and the reader may pause for
as long as it likes, for no connection is held between two pages.

Users write into this file, and a spreadsheet takes a cell that begins like a formula for one. Such a text gets an
apostrophe before it, which spreadsheets take for "this is text". Numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow
from hermes.storage.repositories import SHOWN_NAMES, UsageFilter, matching, shown_rows

__all__ = ["SHOWN_NAMES", "UsageFilter", "count", "csv_lines", "pages"]

PAGE_ROWS: Final = 100
"""On Postgres reading a page, and everywhere writing it down, is the event loop's work: 2 ms a hundred rows."""

FORMULA_STARTS: Final = frozenset("=+-@\t\r\n＝＋－＠")
"""What begins a formula, or is taken away before one."""

Row = Mapping[str, Any]


def pages(database: Database, wanted: UsageFilter, page_rows: int = PAGE_ROWS) -> Iterator[list[dict[str, Any]]]:
    """All rows that the filter means (its `limit` and `page` do not count), newest first, a page at a time.

    Blocks: for the database, once a page.
    """
    behind: Row | None = None
    while True:
        page = database.read(_page, wanted, behind, page_rows)
        if page:
            yield page
        if len(page) < page_rows:
            return
        behind = page[-1]


def count(database: Database, wanted: UsageFilter) -> int:
    """How many rows the filter means."""
    return database.read(lambda: int(matching(wanted).count()))


def csv_lines(rows: Iterable[Row], *, header: bool = True) -> Iterator[str]:
    """A line for each row, after one with the names of the columns; as RFC 4180 wants them, with CR and LF at the end.

    >>> row = dict.fromkeys(SHOWN_NAMES) | {"id": 7, "user_id": "=1+1", "stream": True, "estimated_cost_usd": 4.5e-07}
    >>> [line.strip(",") for line in csv_lines([row], header=False)]
    ["7,,,,,'=1+1,,,,,,,,,,true,,,,,,,0.00000045,,,,,,,,\\r\\n"]
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    if header:
        yield _line(buffer, writer, SHOWN_NAMES)
    for row in rows:
        yield _line(buffer, writer, [_cell(row[name]) for name in SHOWN_NAMES])


def _line(buffer: io.StringIO, writer: Any, cells: Iterable[str]) -> str:
    buffer.seek(0)
    buffer.truncate()
    writer.writerow(cells)
    return buffer.getvalue()


def _cell(value: object) -> str:
    """A value as its cell; unknown is an empty one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value[:1] in FORMULA_STARTS else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")  # never with an exponent
    return str(value)


def _page(wanted: UsageFilter, behind: Row | None, rows: int) -> list[dict[str, Any]]:
    """Runs inside `Database.read`."""
    query = matching(wanted)
    if behind is not None:
        # The first condition alone is what an index serves, in SQLite and in Postgres.
        at, number = behind["created_at"], behind["id"]
        is_older = (UsageRow.created_at < at) | (UsageRow.id < number)
        query = query.where(UsageRow.created_at <= at, is_older)
    return shown_rows(query.limit(rows))
