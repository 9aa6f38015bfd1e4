"""Looks at a database as it is, for `doctor` and for commands that only read: makes nothing, changes nothing.

Whether it can be written to is tried and not guessed: SQLite begins to write and takes it back; Postgres is asked.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from peewee import DatabaseError, InterfaceError, SqliteDatabase
from playhouse.migrations import Runner

from hermes.errors import StartRefused
from hermes.storage.engine import (
    LOCK_WAIT_S,
    SQLITE_PREFIX,
    check_encoding,
    is_postgres,
    postgres,
    refusal,
    sqlite_file,
)
from hermes.storage.models.usage import UsageRow


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen."""

    exists: bool = True
    """False: the SQLite file is made by the first start."""

    pending: tuple[str, ...] = ()
    """Migrations that it has not had yet."""

    unknown: tuple[str, ...] = ()
    """Migrations of a newer Hermes."""

    fault: str = ""
    """Why it cannot be written to; empty: it can."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What the usage log and its sums say of the same hours."""

    rows: int
    summed: int
    is_summed: bool
    """Whether all rows from before an upgrade are in the sums by now."""


# One statement, so that both are of the same moment.
COMPARE = (
    "SELECT (SELECT COUNT(*) FROM ai_usage_logs WHERE created_at >= {mark}),"
    " (SELECT COALESCE(SUM(requests), 0) FROM usage_hours WHERE hour >= {mark}),"
    " (SELECT done_id >= until_id FROM usage_backfill)"
)

TARGETS = "SELECT key, value FROM hermes_config WHERE key LIKE {mark} ORDER BY key"
TARGET_PIN = "model.%.target"
EMBEDDED_BY = (
    "SELECT embedder, embedder_sha, COUNT(*) FROM hermes_documents WHERE state = 'ready'"
    " GROUP BY embedder, embedder_sha ORDER BY embedder, embedder_sha"
)


def look_at(database_url: str, folder: Path, wait_s: float = LOCK_WAIT_S) -> Look:
    """What is to be known before the database is used.

    Args:
        folder: the migrations.
        wait_s: how long another process may hold SQLite's write lock.

    Blocks: for at most 5 s, where another process writes or the server does not answer.

    Raises:
        StartRefused: the URL names none, it is damaged, out of reach, or in an encoding that cannot hold every text.
    """
    if is_postgres(database_url):
        return _look_at_postgres(database_url, folder)
    return _look_at_sqlite(sqlite_file(database_url), folder, wait_s)


def readable(database_url: str, folder: Path) -> None:
    """
    Raises:
        StartRefused: this version cannot read the database's rows; the text says what to do.
    """
    seen = look_at(database_url, folder)
    if not seen.exists:
        raise StartRefused(
            f"There is no database {database_url.removeprefix(SQLITE_PREFIX)} yet. The first start of the server makes "
            "it; HERMES_DATABASE_URL names another one."
        )
    if seen.unknown:
        raise StartRefused("The database was written by a newer Hermes; use that version's command line.")
    if seen.pending:
        raise StartRefused("The database's tables are not up to date; start the server once, which does that.")


def compare(database_url: str, since: str) -> Compared:
    """Counts the rows of the last hours in the usage log and in its sums; the database must be up to date.

    Args:
        since: the first hour that counts, as `usage_hours` has it.

    Blocks: for counting as many rows.

    Raises:
        StartRefused: it is damaged, or out of reach.
    """
    return Compared(*_rows(database_url, COMPARE, since, since)[0])


def targets(database_url: str) -> dict[str, str]:
    """The models that are compared with pinned ones, by the pins that name them; the database must be up to date.

    Raises:
        StartRefused: it is damaged, or out of reach.
    """
    return dict(_rows(database_url, TARGETS, TARGET_PIN))


def embedded_by(database_url: str) -> dict[tuple[str, str], int]:
    """How many documents have vectors of which embedder: its name and the SHA-256 of its weights, which is empty where
    that is not known. Raises alike.
    """
    return {(name, sha): number for name, sha, number in _rows(database_url, EMBEDDED_BY)}


def _rows(database_url: str, question: str, *values: str) -> list[tuple[Any, ...]]:
    if is_postgres(database_url):
        real: Any = postgres(database_url)
    else:
        path = Path(database_url.removeprefix(SQLITE_PREFIX))
        real = SqliteDatabase(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=LOCK_WAIT_S)
    with closing(real):
        try:
            real.connect()
            found: list[tuple[Any, ...]] = real.execute_sql(question.format(mark=real.param), values).fetchall()
            return found
        except (DatabaseError, InterfaceError) as error:
            raise StartRefused(f"The database cannot be read: {' '.join(str(error).split())}") from None


def _look_at_sqlite(path: Path, folder: Path, wait_s: float) -> Look:
    if not path.exists():
        return Look(exists=False)
    # rw and not rwc: a file that is gone meanwhile must not be made anew.
    real = SqliteDatabase(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=wait_s)
    with closing(real):
        try:
            real.connect()
            pending, unknown = _migrations(real, folder)
        except (DatabaseError, InterfaceError) as error:
            raise refusal(path, error) from None
        return Look(pending=pending, unknown=unknown, fault=_sqlite_fault(real, wait_s))


def _sqlite_fault(real: Any, wait_s: float) -> str:
    connection = real.connection()
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA user_version = 1")  # a read-only file would let the transaction begin
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return f"another process has held its write lock for {wait_s:g} s"
        return str(error)
    return ""


def _look_at_postgres(url: str, folder: Path) -> Look:
    real = postgres(url)
    with closing(real):
        try:
            real.connect()
            check_encoding(real)
            pending, unknown = _migrations(real, folder)
            return Look(pending=pending, unknown=unknown, fault=_postgres_fault(real, bool(pending)))
        except (DatabaseError, InterfaceError) as error:
            raise StartRefused(f"The database cannot be reached: {' '.join(str(error).split())}") from None


def _postgres_fault(real: Any, has_pending: bool) -> str:
    def ask(question: str) -> Any:
        return real.execute_sql(question).fetchone()[0]

    if ask("SHOW transaction_read_only") == "on":
        return "it takes no writes: is it a replica?"
    if has_pending and not ask("SELECT has_schema_privilege(current_schema(), 'CREATE')"):
        return "its user may not make tables, which the next start must"
    table = UsageRow._meta.table_name
    is_there = ask(f"SELECT to_regclass('{table}') IS NOT NULL")
    if is_there and not ask(f"SELECT has_table_privilege('{table}', 'INSERT, SELECT')"):
        return f"its user may not read and write {table}"
    return ""


def _migrations(real: Any, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = Runner(real, str(folder)).status()
    pending = tuple(migration.name for migration in found if migration.applied is None)
    return pending, tuple(migration.name for migration in found if migration.path is None)
