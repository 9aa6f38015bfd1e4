"""Brings a database's tables up to the code, before anything else uses it.

Numbered files in `migrations/` are applied in order, each in one transaction, by playhouse's runner. The runner does
not lock, and several workers and machines may start at once; so a lock is held around it: a file beside SQLite's, an
advisory lock in Postgres. Both end with the process that holds them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from peewee import DatabaseError, InterfaceError, PeeweeException, SqliteDatabase
from playhouse.migrations import MigrationError, Runner

from hermes import private
from hermes.errors import DatabaseUnreachable, StartRefused
from hermes.storage.engine import (
    cause_of,
    check_encoding,
    disk_full,
    is_connection_lost,
    is_disk_full,
    is_postgres,
    postgres,
    refusal,
    sqlite_options,
    sqlite_path,
)

WAIT_S = 60.0
"""How long a process waits for another one that migrates."""

POLL_S = 0.05
ADVISORY_LOCK = 0x4865726D  # "Herm"
CHECKED_BYTES = 64 * 1024 * 1024
"""Files up to this size are read through once, in less than a second, to find damage before it spreads."""


def migrate(database_url: str, folder: Path) -> None:
    """Applies every migration of the folder that the database does not have yet.

    Any number of processes may call it at once, gevent patched or not; one does the work, the others wait. Blocks.

    Raises:
        DatabaseUnreachable: there is no database to be reached.
        StartRefused: the database is newer than the code, damaged, not writable or in an encoding that
            cannot hold every text, or a migration failed, in which case
            it has changed nothing.
    """
    if is_postgres(database_url):
        _migrate_postgres(database_url, folder)
    else:
        _migrate_sqlite(sqlite_path(database_url), folder)


def _migrate_sqlite(path: Path, folder: Path) -> None:
    real = SqliteDatabase(str(path), **sqlite_options())
    with _file_lock(path), closing(real):
        try:
            real.connect()
            _refuse_damage(real, path)
            _run(real, folder, str(path))
        except (DatabaseError, InterfaceError) as error:
            raise refusal(path, error) from None


def _migrate_postgres(url: str, folder: Path) -> None:
    real = postgres(url)
    try:
        real.connect()
    except (DatabaseError, InterfaceError) as error:
        reason = " ".join(str(error).split())
        raise DatabaseUnreachable(f"The database of HERMES_DATABASE_URL cannot be reached: {reason}") from None
    with closing(real):
        try:
            check_encoding(real)
            with _advisory_lock(real):
                _run(real, folder, "of HERMES_DATABASE_URL")
        except (DatabaseError, InterfaceError) as error:
            reason = " ".join(str(error).split())
            kind = DatabaseUnreachable if is_connection_lost(error) else StartRefused
            raise kind(f"The database of HERMES_DATABASE_URL cannot be used: {reason}") from None


def _refuse_damage(real: Any, path: Path) -> None:
    real.execute_sql("SELECT count(*) FROM sqlite_master").fetchone()
    if path.stat().st_size <= CHECKED_BYTES:
        finding = real.execute_sql("PRAGMA quick_check(1)").fetchone()[0]
        if finding != "ok":
            raise DatabaseError(f"malformed: {' '.join(finding.split())}")


def _run(real: Any, folder: Path, name: str) -> None:
    runner = Runner(real, str(folder))
    unknown = sorted(migration.name for migration in runner.status() if migration.path is None)
    if unknown:
        raise StartRefused(
            f"The database {name} was written by a newer Hermes: this version does not know {', '.join(unknown)}. "
            "Install that version again, or restore a backup from before the upgrade."
        )
    try:
        runner.up()
    except (PeeweeException, MigrationError) as error:
        cause = cause_of(error)
        if is_disk_full(cause):
            raise disk_full(name) from error
        reason = " ".join(str(cause).split())
        raise StartRefused(
            f"The database {name} could not be brought up to date: {reason}. It was left as it was."
        ) from error


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Keeps other processes from migrating the same file."""
    try:
        fd = os.open(
            path.with_name(path.name + ".migrate.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE_MODE
        )
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(path) from None
        raise StartRefused(
            f"The database's folder {path.parent} cannot be written to: {error.strerror}. "
            "Give this user the right, or set HERMES_DATABASE_URL to another place."
        ) from None

    def try_lock() -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        _wait_for(try_lock)
        yield
    finally:
        os.close(fd)  # releases the lock; the file stays, because deleting it would let a third process lock another


@contextmanager
def _advisory_lock(real: Any) -> Iterator[None]:
    _wait_for(lambda: bool(real.execute_sql("SELECT pg_try_advisory_lock(%s)", (ADVISORY_LOCK,)).fetchone()[0]))
    yield  # closing the connection releases it, whatever has happened


def _wait_for(try_lock: Callable[[], bool]) -> None:
    # Polling, because a blocking lock would stop the event loop of a process that gevent has patched.
    gives_up_at = time.monotonic() + WAIT_S
    while not try_lock():
        if time.monotonic() > gives_up_at:
            raise StartRefused(
                f"Another process has been migrating the database for {WAIT_S:.0f} s; end it or wait for it."
            )
        time.sleep(POLL_S)
