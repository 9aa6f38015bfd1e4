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
    name = f"hermes_test_{os.getpid()}_{next(numbers)}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
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


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/hermes.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with its tables."""
    migrate(database_url, MIGRATIONS)
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
