"""`usage export`: the usage log as a file, straight from the database, of any length."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from hermes import private
from hermes.accounting.backlog import backlog
from hermes.errors import InvalidRequest
from hermes.settings import ROOT, Settings
from hermes.storage.usage_filter import CHOICES, UsageFilter

Rows = list[dict[str, Any]]

FILTERS = {"from": "from", "to": "to", "user": "user_id", "model": "model", "tier": "tier", "status": "status",
           "function": "function_name"}  # fmt: skip
"""The API's name of each option."""


@click.group()
def usage() -> None:
    """Export the log of requests: who, which model, tokens, cost."""


@usage.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    default="csv",
    show_default=True,
    help="A table, or objects.",
)
@click.option("--json", "json_wanted", is_flag=True, help="The same as --format jsonl.")
@click.option("--from", "from", metavar="TIME", help="Not before this date or time (ISO 8601; UTC without a zone).")
@click.option("--to", metavar="TIME", help="Not after it; a date means its whole day.")
@click.option("--user", help="Only this user.")
@click.option("--function", help="Only this function.")
@click.option("--model", help="Only this model.")
@click.option("--tier", type=click.Choice(CHOICES["tier"]), help="Only this tier.")
@click.option("--status", type=click.Choice(CHOICES["status"]), help="Only requests that ended so.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file; else to the standard output."
)
def export(form: str, json_wanted: bool, output: Path | None, **given: str | None) -> int:
    """Write the usage log as CSV or JSON lines.

    The newest row comes first. JSON lines are one object a line.

    The rows come from the database that HERMES_DATABASE_URL names. In CSV, a text that a spreadsheet would take for a
    formula has an apostrophe before it.
    """
    wanted = _filter(given)
    settings = Settings.from_env()
    as_bytes = _jsonl if json_wanted or form == "jsonl" else _csv
    place = None if output is None or str(output) == "-" else output
    with _pages(settings.database_url, wanted, is_shown=_may_draw(place)) as pages, _written(place) as stream:
        count = _write(pages, as_bytes, stream)
    where = f" to {place}" if place else ""
    waiting = backlog(settings.spool_path()).rows
    click.echo(f"Rows written{where}: {count:,}. Still in the spool, so not among them: {waiting or 'none'}.", err=True)
    return 0


def _filter(given: dict[str, str | None]) -> UsageFilter:
    try:
        return UsageFilter.parse({FILTERS[name]: value for name, value in given.items() if value is not None})
    except InvalidRequest as invalid:
        option = next((name for name, param in FILTERS.items() if param == invalid.param), "")
        raise click.BadParameter(invalid.message, param_hint=f"--{option}") from None


def _write(pages: Iterable[Rows], as_bytes: Callable[[Rows, bool], bytes], stream: BinaryIO) -> int:
    """Writes page by page; how many rows there were."""
    count = 0
    stream.write(as_bytes([], True))
    for page in pages:
        stream.write(as_bytes(page, False))
        count += len(page)
    stream.flush()
    return count


def _csv(rows: Rows, is_first: bool) -> bytes:
    from hermes.storage.export import csv_lines

    return "".join(csv_lines(rows, header=is_first)).encode()


def _jsonl(rows: Rows, _: bool) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


@contextmanager
def _pages(database_url: str, wanted: UsageFilter, *, is_shown: bool) -> Iterator[Iterator[Rows]]:
    """The pages of an open database, with a bar that tells how many are still to come."""
    # The database's library takes a tenth of a second to load; other commands shall not wait for it.
    from hermes.storage import export as rows_of
    from hermes.storage.db import Database
    from hermes.storage.look import readable

    readable(database_url, ROOT / "migrations")
    database = Database.open(database_url)
    try:
        pages = rows_of.pages(database, wanted)
        yield _counted(pages, rows_of.count(database, wanted)) if is_shown else pages
    finally:
        database.close()


def _counted(pages: Iterator[Rows], total: int) -> Iterator[Rows]:
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("Rows"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("rows", total=total)
        for page in pages:
            yield page
            progress.advance(task, len(page))


def _may_draw(place: Path | None) -> bool:
    """A bar needs a terminal, and one on which the rows do not come out as well."""
    return Console(stderr=True).is_terminal and (place is not None or not Console().is_terminal)


@contextmanager
def _written(place: Path | None) -> Iterator[BinaryIO]:
    """The standard output, or a file that gets its name when it is whole."""
    if place is None:
        yield sys.stdout.buffer
        return
    if place.exists() and not place.is_file():  # a pipe, a device: nothing to be replaced
        with place.open("wb") as stream:
            yield stream
        return
    unfinished = place.with_name(f"{place.name}.part")
    unfinished.unlink(missing_ok=True)
    try:
        new = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private.FILE_MODE)
        with os.fdopen(new, "wb") as stream:
            if place.exists():  # what replaces a file is as open to others as that was
                os.fchmod(new, stat.S_IMODE(place.stat().st_mode))
            yield stream
        os.replace(unfinished, place)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
