"""CSV as one table: its first row says what the columns are."""

from __future__ import annotations

import csv
import io
from typing import Final

from hermes.knowledge.blocks import Block, Unreadable

SNIFFED_CHARS: Final = 8192
DELIMITERS: Final = ",;\t|"
MOST_CELL_CHARS: Final = 100_000


def read_csv(text: str) -> list[Block]:
    """The rows of a table, each with the names of its columns: `name: value; name: value`.

    A row says by itself what it means, wherever the table is cut.

    Raises:
        Unreadable: it is no CSV.
    """
    csv.field_size_limit(MOST_CELL_CHARS)
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(text[:SNIFFED_CHARS], DELIMITERS)
    except csv.Error:
        dialect = csv.excel
    try:
        rows = [[" ".join(cell.split()) for cell in row] for row in csv.reader(io.StringIO(text), dialect)]
    except csv.Error as error:
        raise Unreadable(f"it is no CSV ({error})") from None
    rows = [row for row in rows if any(row)]
    if not rows:
        return []
    names, *lines = rows
    return [Block("\n".join(_line(names, row) for row in lines) or ", ".join(names), (), "table")]


def _line(names: list[str], row: list[str]) -> str:
    named = [f"{name}: {cell}" if name else cell for name, cell in zip(names, row, strict=False) if cell]
    return "; ".join([*named, *row[len(names) :]])
