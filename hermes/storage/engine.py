"""The two databases: how a URL names one, how each is configured, and what is said of one that cannot be used."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from peewee import InterfaceError, OperationalError, PostgresqlDatabase
from playhouse.pool import PooledPostgresqlDatabase

from hermes import private
from hermes.errors import StartRefused

SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")
LOCK_WAIT_S = 5
"""How long SQLite's writer waits for another process's transaction before the write fails."""

SQLITE_PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "normal",  # a killed process loses nothing; only a power cut may take the last transactions
    "foreign_keys": 1,
    "busy_timeout": LOCK_WAIT_S * 1000,
    "cache_size": -20_000,
    "temp_store": "memory",
    "journal_size_limit": 64 << 20,
}

POSTGRES_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,
    "application_name": "hermes",
    # Whatever PGCLIENTENCODING says: what the database cannot hold is then its refusal of one row, not an error here.
    "client_encoding": "UTF8",
    # A server that has vanished without a word is given up after half a minute instead of a quarter of an hour.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


ENCODINGS = ("UTF8", "SQL_ASCII")
"""In which Postgres takes any text; the second keeps the bytes as they are."""

LOST_STATES = ("08", "57P", "53300")
"""What Postgres says, in SQLSTATE's beginnings, when it has no (further) connection for us: lost, ending or starting,
too many. Source: PostgreSQL's documentation, appendix A."""


def is_postgres(url: str) -> bool:
    """Whether the URL names a Postgres database; else it must name a SQLite file."""
    return url.startswith(POSTGRES_PREFIXES)


def sqlite_options() -> dict[str, Any]:
    """The arguments of a `SqliteDatabase`. IMMEDIATE: a transaction takes the lock when it begins, not in its midst."""
    return {"pragmas": SQLITE_PRAGMAS, "lock_type": "IMMEDIATE", "timeout": LOCK_WAIT_S}


def postgres(url: str) -> Any:
    """One connection to Postgres, not yet made."""
    return PostgresqlDatabase(_whole(url), prefer_psycopg3=True, **POSTGRES_OPTIONS)


def pooled_postgres(url: str) -> Any:
    """Up to ten connections to Postgres, made when they are needed; who finds none waits for 5 s at most."""
    return PooledPostgresqlDatabase(
        _whole(url), prefer_psycopg3=True, max_connections=10, timeout=5, stale_timeout=300, **POSTGRES_OPTIONS
    )


def check_encoding(real: Any) -> None:
    """
    Raises:
        StartRefused: the connected Postgres database cannot hold every text that callers send.
    """
    encoding = real.execute_sql("SHOW server_encoding").fetchone()[0]
    if encoding not in ENCODINGS:
        raise StartRefused(
            f"The database of HERMES_DATABASE_URL has the encoding {encoding}, which cannot hold every caller's name "
            "and text. Make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and name that one."
        )


def _whole(url: str) -> str:
    """The URL with the one scheme that peewee hands on to psycopg as it is, with its query."""
    return "postgresql://" + url.partition("://")[2]


def sqlite_file(url: str) -> Path:
    """The file that a `sqlite:///PATH` names.

    Raises:
        StartRefused: the URL names none.
    """
    path = Path(url.removeprefix(SQLITE_PREFIX))
    if not url.startswith(SQLITE_PREFIX) or path.name in ("", ":memory:"):
        raise StartRefused("HERMES_DATABASE_URL must be sqlite:///PATH, with the path of a file, or postgresql://…")
    return path


def sqlite_path(url: str) -> Path:
    """The file that a `sqlite:///PATH` names, in a folder that is there; a new one is its owner's alone.

    Raises:
        StartRefused: the URL is none, or the folder cannot be made.
    """
    path = sqlite_file(url)
    try:
        private.make_folder(path.parent)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(path) from None
        raise StartRefused(
            f"The folder of the database {path} cannot be made: {error.strerror}. "
            "Make it, or set HERMES_DATABASE_URL to a place that this user may write to."
        ) from None
    # SQLite itself would make it as the umask says. Its -wal and -shm get the mode of this one.
    with suppress(OSError):  # SQLite meets the same, and `refusal` has the sentence for it
        private.make_file(Path(os.path.realpath(path)))
    return path


def refusal(path: Path, error: Exception) -> StartRefused:
    """The sentence for a SQLite file that cannot be used."""
    text = str(error)
    if is_disk_full(error):
        return disk_full(path)
    if is_damaged(error):
        return StartRefused(
            f"The database {path} is damaged or no SQLite file ({text}). Put it aside and restore a backup, "
            "or set HERMES_DATABASE_URL to another file."
        )
    return StartRefused(
        f"The database {path} cannot be used: {text}. See that this user may write to the file and to its folder, "
        "and that the disk has room."
    )


def disk_full(database: Path | str) -> StartRefused:
    """The sentence for a database whose disk has no room."""
    return StartRefused(
        f"The disk of the database {database} is full. Make room there, or set HERMES_DATABASE_URL to another place."
    )


def is_damaged(error: BaseException) -> bool:
    """Whether SQLite finds its file to be none, or not whole."""
    return any(words in str(error) for words in ("not a database", "malformed"))


def is_disk_full(error: BaseException) -> bool:
    """Whether a database says that its disk is full: SQLite, Postgres, the system."""
    return any(words in str(error) for words in ("disk is full", "No space left on device"))


def is_connection_lost(error: Exception) -> bool:
    """Whether an error of Postgres means that there is no connection, and not that one has refused something."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state: str | None = getattr(getattr(error, "orig", None), "sqlstate", None)  # `orig` is the driver's own error
    return state is None or state.startswith(LOST_STATES)


def cause_of(error: BaseException) -> BaseException:
    """The error that began it. SQLite ends a transaction by itself where the disk fails; that there is none to roll
    back any more would be the last error, and hide why.
    """
    while "cannot rollback" in str(error) and error.__context__ is not None:
        error = error.__context__
    return error
