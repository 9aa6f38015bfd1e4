"""Real databases for the contract tests: a SQLite file, and a throw-away Postgres cluster where its programs are found.

`HERMES_TEST_POSTGRES_URL` names a server to use instead; its user must be allowed to create databases.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from hermes.settings import ROOT
from hermes.storage.db import Database, migrate
from hermes.storage.repositories import UsageRepository
from tests.postgres_server import HOW_TO_GET_POSTGRES, as_postgres, postgres_programs

MIGRATIONS = ROOT / "migrations"

numbers = count(1)


@contextmanager
def a_cluster(programs: Path) -> Iterator[str]:
    """The URL of a throw-away server of these programs."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    cluster = folder / "cluster"
    try:
        as_postgres(programs / "initdb", "-D", cluster, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        # A socket in its own folder instead of a port: nothing to collide with.
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=40"
        as_postgres(programs / "pg_ctl", "-D", cluster, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        finally:
            as_postgres(programs / "pg_ctl", "-D", cluster, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def an_empty_database(server_url: str) -> Iterator[str]:
    """The URL of a new database there, which is gone afterwards."""
    with a_copy_of("template1", server_url) as url:
        yield url


@contextmanager
def a_copy_of(database: str, server_url: str) -> Iterator[str]:
    """The URL of a new database like one that is there, and that nobody uses; it is gone afterwards."""
    name = f"hermes_test_{os.getpid()}_{next(numbers)}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE {database}")
        yield _named(server_url, name)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a Postgres server on which databases may be created."""
    if os.environ.get("HERMES_TEST_POSTGRES_URL"):
        yield os.environ["HERMES_TEST_POSTGRES_URL"]
        return
    programs = postgres_programs()
    if programs is None:
        pytest.skip(HOW_TO_GET_POSTGRES)
    with a_cluster(programs) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty Postgres database."""
    with an_empty_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_with_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with all its tables and no rows, to be copied: a hundredth of the time of the migrations."""
    file = tmp_path_factory.mktemp("tables") / "hermes.db"
    migrate(f"sqlite:///{file}", MIGRATIONS)
    return file


@pytest.fixture(scope="session")
def postgres_with_tables(postgres_server: str) -> Iterator[str]:
    """The name of a Postgres database with all its tables and no rows, to be copied."""
    with an_empty_database(postgres_server) as url:
        migrate(url, MIGRATIONS)
        yield url.partition("?")[0].rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database, of each kind in turn: empty, or with its tables where the test opens it as `database`."""
    has_tables = "database" in request.fixturenames
    if request.param == "sqlite":
        if has_tables:
            shutil.copy(request.getfixturevalue("sqlite_with_tables"), tmp_path / "hermes.db")
        yield f"sqlite:///{tmp_path}/hermes.db"
    elif has_tables:
        server_url = request.getfixturevalue("postgres_server")
        with a_copy_of(request.getfixturevalue("postgres_with_tables"), server_url) as url:
            yield url
    else:
        yield request.getfixturevalue("postgres_url")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with its tables."""
    migrate(database_url, MIGRATIONS)  # nothing, where they are there
    database = Database.open(database_url)
    yield database
    database.close()


@pytest.fixture
def usage(database: Database) -> UsageRepository:
    """The usage log of that database."""
    return UsageRepository(database)


def a_record(request_id: str, **values: Any) -> dict[str, Any]:
    """A row as the spool has it."""
    return {
        "request_id": request_id,
        "created_at": "2026-05-10T12:00:00.000Z",
        "route": "/v1/chat/completions",
        "status": "ok",
        "stream": False,
        "usage_estimated": False,
        "attempts": 1,
        "details": {},
        **values,
    }


def _named(url: str, name: str) -> str:
    """The URL with another database's name."""
    address, mark, query = url.partition("?")
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{name}{mark}{query}"
