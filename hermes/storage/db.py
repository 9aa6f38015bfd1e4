"""Where database work runs, so that it never stops the event loop.

SQLite blocks whoever calls it, for as long as another process holds its lock. So it is only called in native threads:
one writer, which makes "database is locked" impossible within the process, and two readers, which WAL lets read beside
it. Each thread keeps a connection of its own. Postgres is called where the caller is: psycopg 3 waits cooperatively,
and a server that does not answer is not waited for (see `patience.py`). Reports leave one of SQLite's readers, or most
connections to Postgres, to everybody else (see `behind.py`).

A function that is given to `write`, `read` or `report` runs in such a thread. It must take no lock that gevent has
patched, so it neither logs nor counts metrics (see `hermes.native`), and it does no other I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gevent
from gevent.threadpool import ThreadPool
from peewee import DatabaseError, InterfaceError, OperationalError, SqliteDatabase
from playhouse.pool import MaxConnectionsExceeded

from hermes.errors import DatabaseUnavailable
from hermes.native import native_ident, native_lock
from hermes.storage.behind import Turns
from hermes.storage.engine import (
    cause_of,
    is_connection_lost,
    is_damaged,
    is_postgres,
    pooled_postgres,
    refusal,
    sqlite_options,
    sqlite_path,
)
from hermes.storage.migrate import migrate
from hermes.storage.models.binding import proxy
from hermes.storage.patience import Patience

__all__ = ["Database", "migrate"]

Result = TypeVar("Result")

READERS = 2
REPORTS_FROM_SQLITE = 1
REPORTS_FROM_POSTGRES = 4
"""Of its ten connections. Exports that are being written have one more."""

CLOSING_LOOK_S = 0.002


class Database:
    """An open database: runs functions that use the models, each in the right place."""

    @staticmethod
    def open(url: str) -> Database:
        """Opens `sqlite:///PATH` (its folder is made) or `postgresql://…`, and binds the models to it.

        Call it after the worker process was forked. Postgres is not connected to before it is used.

        Raises:
            StartRefused: the file or its folder cannot be used.
        """
        if is_postgres(url):
            return _Postgres(url)
        return _Sqlite(sqlite_path(url))

    def write(self, fn: Callable[..., Result], *args: Any) -> Result:
        """Runs `fn(*args)` in one transaction and returns what it returns; an exception rolls back and is raised.

        Waits cooperatively. A greenlet that is killed while it waits does not stop the work, which is still committed.
        A call from within `write` or `read` runs at once, in the same transaction.

        Raises:
            DatabaseUnavailable: the database does not answer, or cannot do it now (its disk is full, its file damaged,
                another process holds its lock). Where it was lost during the commit, nobody knows whether it was done.
        """
        raise NotImplementedError

    def read(self, fn: Callable[..., Result], *args: Any) -> Result:
        """Runs `fn(*args)`, which only reads, without a transaction around it. Raises alike."""
        raise NotImplementedError

    def report(self, fn: Callable[..., Result], *args: Any) -> Result:
        """The same for what an operator wants to see and no caller waits for: a few at a time.

        Raises:
            Overloaded: the others have taken too long.
        """
        raise NotImplementedError

    def check(self) -> None:
        """For callers who would have to prepare something first. Costs nothing.

        Raises:
            DatabaseUnavailable: the database is known to be away.
        """

    def close(self) -> None:
        """Waits for what runs, then closes every connection; whoever still asks is refused. Safe to call twice."""
        raise NotImplementedError


class _Sqlite(Database):
    def __init__(self, path: Path) -> None:
        self._real = _TrackedSqlite(path)
        self._threads: set[int] = set()
        self._writer = ThreadPool(1)
        self._readers = ThreadPool(READERS)
        self._reports = Turns(REPORTS_FROM_SQLITE)
        self._is_closed = False
        self._asking = 0
        try:
            # The first connection switches a new file to WAL, for which it must be alone.
            self._in(self._writer, self._real.connection)
        except (DatabaseError, InterfaceError) as error:
            self.close()
            raise refusal(path, error) from None
        proxy.initialize(self._real)

    def write(self, fn: Callable[..., Result], *args: Any) -> Result:
        return self._tried(self._writer, self._transaction, fn, *args)

    def read(self, fn: Callable[..., Result], *args: Any) -> Result:
        return self._tried(self._readers, self._reading, fn, *args)

    def report(self, fn: Callable[..., Result], *args: Any) -> Result:
        if self._is_within():
            return fn(*args)
        with self._reports.taken():
            return self.read(fn, *args)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            while self._asking:  # also those who wait for a pool's turn: it would never come
                gevent.sleep(CLOSING_LOOK_S)
            for pool in (self._writer, self._readers):
                pool.join()
                pool.kill()
            self._real.close_all()

    def _tried(self, pool: ThreadPool, fn: Callable[..., Result], *args: Any) -> Result:
        try:
            return self._in(pool, fn, *args)
        except (OperationalError, InterfaceError) as error:
            raise _unavailable(error) from error
        except DatabaseError as error:
            if not is_damaged(error):  # then it is the statement's or the row's fault
                raise
            raise _unavailable(error) from error

    def _in(self, pool: ThreadPool, fn: Callable[..., Result], *args: Any) -> Result:
        if self._is_within():
            return fn(*args)
        if self._is_closed:  # a pool that was waited for would begin anew, with a connection that is being closed
            raise DatabaseUnavailable("The database has been closed.")
        self._asking += 1
        try:
            # The outcome travels as a value: gevent prints the traceback of an exception that leaves a pool's thread.
            result, error = pool.apply(self._outcome, (fn, args))
        finally:
            self._asking -= 1
        if error is not None:
            raise error
        return result

    def _is_within(self) -> bool:
        """Whether this is called from within another question, in that one's thread."""
        return native_ident() in self._threads

    def _outcome(self, fn: Callable[..., Result], args: tuple[Any, ...]) -> tuple[Result | None, BaseException | None]:
        self._threads.add(native_ident())
        try:
            return fn(*args), None
        except BaseException as error:  # noqa: BLE001  (raised again by the caller)
            return None, error

    def _transaction(self, fn: Callable[..., Result], *args: Any) -> Result:
        try:
            with self._real.atomic():
                return fn(*args)
        except DatabaseError as error:
            cause = cause_of(error)
            if cause is error:
                raise
            raise cause from None

    def _reading(self, fn: Callable[..., Result], *args: Any) -> Result:
        if self._real.connect(reuse_if_open=True):
            self._real.execute_sql("PRAGMA query_only = 1")
        return fn(*args)


class _TrackedSqlite(SqliteDatabase):
    """peewee's SQLite database for native threads: with a native lock, and connections that another one may close."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), check_same_thread=False, **sqlite_options())
        self._lock = native_lock()
        self._opened: list[Any] = []

    def _connect(self) -> Any:
        connection = super()._connect()  # type: ignore[misc]
        self._opened.append(connection)
        return connection

    def close_all(self) -> None:
        """Closes the connections of all threads; none may be in use any more."""
        for connection in self._opened:
            connection.close()
        self._opened.clear()


class _Postgres(Database):
    def __init__(self, url: str) -> None:
        # peewee's own lock stays as gevent has patched it: it is held while a connection is made, which switches
        # greenlets, so a native one would stop the event loop for good. No native thread ever comes here.
        self._real = pooled_postgres(url)
        self._reports = Turns(REPORTS_FROM_POSTGRES)
        self._patience = Patience(lambda: self._connected(self._real.execute_sql, "SELECT 1"), _loss)
        proxy.initialize(self._real)

    def write(self, fn: Callable[..., Result], *args: Any) -> Result:
        return self._ask(self._transaction, fn, *args)

    def read(self, fn: Callable[..., Result], *args: Any) -> Result:
        return self._ask(fn, *args)

    def report(self, fn: Callable[..., Result], *args: Any) -> Result:
        if self._is_within():
            return fn(*args)
        self._patience.check()  # there is no turn to wait for at a database that is away
        with self._reports.taken():
            return self._ask(fn, *args)

    def check(self) -> None:
        self._patience.check()

    def close(self) -> None:
        self._patience.stop()
        self._real.close_all()

    def _ask(self, fn: Callable[..., Result], *args: Any) -> Result:
        if self._is_within():
            return fn(*args)
        try:
            return self._patience.ask(lambda: self._connected(fn, *args))
        except (OperationalError, InterfaceError, MaxConnectionsExceeded) as error:
            raise _unavailable(error) from error

    def _is_within(self) -> bool:
        """Whether this is called from within another question, which is waited for already."""
        return not self._real.is_closed()

    def _connected(self, fn: Callable[..., Result], *args: Any) -> Result:
        """A connection on which an answer is outstanding at the end is closed by the pool, which sees its state."""
        try:
            with self._real.connection_context():
                return fn(*args)
        finally:
            if not self._real.is_closed():  # it was cut short while it gave its connection back
                self._real.close()

    def _transaction(self, fn: Callable[..., Result], *args: Any) -> Result:
        with self._real.atomic():
            return fn(*args)


def _loss(error: Exception) -> str | None:
    return " ".join(str(error).split()) if is_connection_lost(error) else None


def _unavailable(error: Exception) -> DatabaseUnavailable:
    return DatabaseUnavailable(" ".join(str(error).split()))
