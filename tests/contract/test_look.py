"""A database can be looked at without being changed, and what is wrong with it is found."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from hermes.documents import NewDocument
from hermes.errors import StartRefused
from hermes.storage.db import Database, migrate
from hermes.storage.directory import DirectoryRepository
from hermes.storage.knowledge import KnowledgeRepository
from hermes.storage.look import Look, embedded_by, look_at, readable, targets

from .conftest import MIGRATIONS

NAMES = tuple(sorted(path.stem for path in MIGRATIONS.glob("[0-9]*.py")))


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The migrations of an older version: the first one alone."""
    folder = tmp_path / "older"
    folder.mkdir()
    shutil.copy(MIGRATIONS / f"{NAMES[0]}.py", folder)
    return folder


def test_a_good_database_is_good(database_url: str) -> None:
    migrate(database_url, MIGRATIONS)

    assert look_at(database_url, MIGRATIONS) == Look()
    readable(database_url, MIGRATIONS)


def test_what_is_still_to_be_done_is_named_and_not_done(database_url: str, older: Path) -> None:
    migrate(database_url, older)

    for _ in range(2):
        assert look_at(database_url, MIGRATIONS) == Look(pending=NAMES[1:])
    with pytest.raises(StartRefused, match="start the server once"):
        readable(database_url, MIGRATIONS)


def test_a_newer_database_is_known_as_one(database_url: str, older: Path) -> None:
    migrate(database_url, MIGRATIONS)

    assert look_at(database_url, older) == Look(unknown=NAMES[1:])
    with pytest.raises(StartRefused, match="newer Hermes"):
        readable(database_url, older)


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///"])
def test_a_file_that_no_server_would_take_is_none(url: str) -> None:
    with pytest.raises(StartRefused, match="with the path of a file"):
        look_at(url, MIGRATIONS)


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/some/hermes.db"

    assert look_at(url, MIGRATIONS) == Look(exists=False)
    with pytest.raises(StartRefused, match="There is no database"):
        readable(url, MIGRATIONS)
    assert list(tmp_path.iterdir()) == []


def test_a_name_may_hold_what_urls_hide(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a?b#c %41.db"
    migrate(url, MIGRATIONS)

    assert look_at(url, MIGRATIONS) == Look()


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "hermes.db"
    path.write_bytes(b"no database" * 1000)

    with pytest.raises(StartRefused, match="damaged"):
        look_at(f"sqlite:///{path}", MIGRATIONS)


def test_a_database_that_takes_no_writes_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hermes.db"
        migrate(f"sqlite:///{path}", MIGRATIONS)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = delete")
        path.chmod(0o444)
        Path(folder).chmod(0o755)

        with nobody_special():
            seen = look_at(f"sqlite:///{path}", MIGRATIONS)

    assert "readonly" in seen.fault


@contextmanager
def nobody_special() -> Iterator[None]:
    """As a user to whom the rights of files mean something: root may write everywhere."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_a_lock_that_is_held_is_told(tmp_path: Path) -> None:
    path = tmp_path / "hermes.db"
    migrate(f"sqlite:///{path}", MIGRATIONS)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        seen = look_at(f"sqlite:///{path}", MIGRATIONS, wait_s=0.01)

    assert seen.fault == "another process has held its write lock for 0.01 s"


def test_a_postgres_that_only_reads_is_told(postgres_url: str) -> None:
    migrate(postgres_url, MIGRATIONS)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        name = server.info.dbname
        server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")  # type: ignore[arg-type]

    assert "replica" in look_at(postgres_url, MIGRATIONS).fault


def test_a_postgres_that_cannot_hold_every_name_is_refused_with_a_sentence(postgres_url: str) -> None:
    """One caller's name would otherwise keep the rows of all others in the spool."""
    with psycopg.connect(postgres_url, autocommit=True) as server:
        name = f"{server.info.dbname}_latin"
        server.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")  # type: ignore[arg-type]
    before, _, query = postgres_url.partition("?")
    latin = f"{before.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")

    try:
        for refused in (lambda: migrate(latin, MIGRATIONS), lambda: look_at(latin, MIGRATIONS)):
            with pytest.raises(StartRefused, match="has the encoding LATIN1, which cannot hold every caller's name"):
                refused()
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as server:
            server.execute(f"DROP DATABASE {name}")  # type: ignore[arg-type]


def test_a_postgres_that_is_not_there_is_told_without_its_password() -> None:
    with pytest.raises(StartRefused) as caught:
        look_at("postgresql://me:canary-word@127.0.0.1:1/hermes", MIGRATIONS)

    assert "refused" in str(caught.value)
    assert "canary-word" not in str(caught.value)


def test_targets_and_embedders_are_read_as_they_are(database_url: str) -> None:
    migrate(database_url, MIGRATIONS)
    database = Database.open(database_url)
    directory, knowledge = DirectoryRepository(database), KnowledgeRepository(database)
    for name, value in (("model.chat.target", "b"), ("model.chat.target.sample_rate", "1"), ("model.chat", "a")):
        directory.set_pin(name, value, "kit")
    for source in ("a.md", "b.md"):
        number = knowledge.begin(NewDocument("shop", "", source, "md", "digest"), 0, "kit")
    knowledge.finish(number, [], ("e", "0f"), "kit")
    database.close()

    assert targets(database_url) == {"model.chat.target": "b"}
    assert embedded_by(database_url) == {("e", "0f"): 1}, "one that is still being read has no vectors"


def test_a_database_without_tables_tells_no_targets(database_url: str) -> None:
    with pytest.raises(StartRefused, match="cannot be read"):
        targets(database_url)
