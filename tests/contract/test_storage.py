"""What storage promises on SQLite and on Postgres alike."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes.errors import DatabaseUnavailable, StartRefused
from hermes.settings import ROOT
from hermes.storage.db import Database, migrate
from hermes.storage.models.catalog import MODELS
from hermes.storage.models.operators import ConfigRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.repositories import UsageFilter, UsageRepository
from tests.contract.conftest import MIGRATIONS, a_record


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["request_id"] for row in rows]


# -- migrations -------------------------------------------------------------------------------------------


def test_the_migrations_make_the_tables_that_the_models_describe(database: Database) -> None:
    """Otherwise a column that only one of them has fails at the first request in production."""

    def found() -> list[tuple[str, list[tuple[str, bool]], tuple[str, ...], set[tuple[tuple[str, ...], bool]]]]:
        connection = UsageRow._meta.database
        return [
            (
                name,
                [(column.name, column.null) for column in connection.get_columns(name)],
                key := tuple(connection.get_primary_keys(name)),
                # The key's own index is the table itself where SQLite stores rows by it.
                {(tuple(index.columns), index.unique) for index in connection.get_indexes(name)} - {(key, True)},
            )
            for name in sorted(connection.get_tables())
        ]

    migrated = database.read(found)
    database.write(lambda: UsageRow._meta.database.drop_tables(MODELS))
    database.write(lambda: UsageRow._meta.database.create_tables(MODELS))

    assert migrated == database.read(found)


def test_migrating_again_changes_nothing(database_url: str) -> None:
    migrate(database_url, MIGRATIONS)
    database = Database.open(database_url)
    UsageRepository(database).insert([a_record("r1")])
    database.close()

    migrate(database_url, MIGRATIONS)

    database = Database.open(database_url)
    assert ids(UsageRepository(database).find(UsageFilter())) == ["r1"]
    database.close()


@pytest.mark.parametrize(
    "first_line",
    [
        pytest.param("", id="plain processes"),
        pytest.param("from gevent import monkey; monkey.patch_all()", id="processes that gevent has patched"),
    ],
)
def test_several_processes_may_migrate_at_once(database_url: str, first_line: str, tmp_path: Path) -> None:
    """With a migration that takes so long that all of them meet in it."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "0001_usage.py").write_text(
        (MIGRATIONS / "0001_usage.py")
        .read_text()
        .replace("db.create_tables(", "__import__('time').sleep(0.1)\n    db.create_tables(")
    )
    program = (
        f"{first_line}\n"
        "import sys\n"
        "from pathlib import Path\n"
        "from hermes.storage.db import migrate\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "migrate(sys.argv[1], Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, database_url, str(slow)]
    workers = [
        subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"

    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=30)

    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    database = Database.open(database_url)
    assert UsageRepository(database).find(UsageFilter()) == []
    database.close()


def test_a_database_that_is_newer_than_the_code_is_refused(database_url: str, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    for file in MIGRATIONS.glob("*.py"):
        (newer / file.name).write_text(file.read_text())
    (newer / "0999_from_the_future.py").write_text("def up(migrator, db):\n    pass\n")
    migrate(database_url, newer)

    with pytest.raises(StartRefused, match=r"newer Hermes.*0999_from_the_future.*restore a backup"):
        migrate(database_url, MIGRATIONS)


def test_a_process_that_is_killed_while_it_migrates_leaves_what_the_next_one_completes(
    database_url: str, tmp_path: Path
) -> None:
    newer = tmp_path / "newer"
    shutil.copytree(MIGRATIONS, newer)
    (newer / "0999_halves.py").write_text(
        "import os\n"
        "def up(migrator, db):\n"
        "    db.execute_sql('CREATE TABLE half (id integer)')\n"
        "    if 'DIES_HERE' in os.environ:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    db.execute_sql('CREATE TABLE other_half (id integer)')\n"
    )
    program = "import sys, pathlib, hermes.storage.db as db; db.migrate(sys.argv[1], pathlib.Path(sys.argv[2]))"
    command = [sys.executable, "-c", program, database_url, str(newer)]

    victim = subprocess.run(command, cwd=ROOT, env={**os.environ, "DIES_HERE": "1"}, check=False)
    migrate(database_url, newer)

    assert victim.returncode == -signal.SIGKILL
    database = Database.open(database_url)
    assert {"half", "other_half"} <= set(database.read(lambda: UsageRow._meta.database.get_tables()))
    assert UsageRepository(database).find(UsageFilter()) == []
    database.close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(database_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "0001_half.py").write_text(
        "def up(migrator, db):\n"
        "    db.execute_sql('CREATE TABLE half (id integer)')\n"
        "    db.execute_sql('SELECT nonsense()')\n"
    )

    with pytest.raises(StartRefused, match=r"could not be brought up to date.*nonsense.*left as it was"):
        migrate(database_url, broken)

    migrate(database_url, MIGRATIONS)
    database = Database.open(database_url)
    assert "half" not in database.read(lambda: UsageRow._meta.database.get_tables())
    database.close()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """SQLite rolls back by itself then; that there is nothing left to roll back says nothing to anybody."""
    (tmp_path / "0001_large.py").write_text(
        "def up(migrator, db):\n"
        "    db.execute_sql('PRAGMA max_page_count = 20')\n"
        "    db.execute_sql('CREATE TABLE large (a blob)')\n"
        "    db.execute_sql('INSERT INTO large VALUES (zeroblob(1000000))')\n"
    )

    with pytest.raises(StartRefused, match=r"The disk of the database .*h\.db is full\. Make room") as refused:
        migrate(f"sqlite:///{tmp_path / 'h.db'}", tmp_path)

    assert "rollback" not in str(refused.value)
    migrate(f"sqlite:///{tmp_path / 'h.db'}", MIGRATIONS)


def test_a_write_that_fills_the_disk_says_so(tmp_path: Path) -> None:
    migrate(f"sqlite:///{tmp_path / 'h.db'}", MIGRATIONS)
    database = Database.open(f"sqlite:///{tmp_path / 'h.db'}")
    connection = UsageRow._meta.database
    database.write(lambda: connection.execute_sql("CREATE TABLE large (a blob)"))

    def fill() -> None:
        connection.execute_sql("PRAGMA max_page_count = 60")
        connection.execute_sql("INSERT INTO large VALUES (zeroblob(1000000))")

    with pytest.raises(DatabaseUnavailable, match="disk is full"):
        database.write(fill)
    assert database.read(lambda: connection.execute_sql("SELECT count(*) FROM large").fetchone()) == (0,)
    database.close()


def test_who_goes_on_asking_while_it_is_closed_is_refused(tmp_path: Path) -> None:
    """In a process of its own: what goes wrong here ends it."""
    program = """
import sys, gevent
from hermes.errors import DatabaseUnavailable
from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow

database = Database.open(sys.argv[1])
connection = UsageRow._meta.database
database.write(lambda: connection.execute_sql("CREATE TABLE numbers (n integer)"))
refused = []

def count():
    connection.execute_sql("INSERT INTO numbers VALUES (1)")
    connection.execute_sql("SELECT sum(a.n) FROM numbers a, numbers b").fetchone()

def ask(verb):
    try:
        while True:
            verb(count if verb == database.write else (lambda: connection.execute_sql("SELECT 1").fetchone()))
    except DatabaseUnavailable:
        refused.append(verb)

jobs = [gevent.spawn(ask, verb) for verb in (database.write, database.read) * 3]
gevent.sleep(0.05)
database.close()
gevent.joinall(jobs, timeout=5)
print(len(refused))
"""
    command = [sys.executable, "-c", program, f"sqlite:///{tmp_path / 'h.db'}"]

    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)

    assert (ended.returncode, ended.stdout.strip()) == (0, "6"), ended.stderr[-2000:]


def test_the_migration_can_be_taken_back(database_url: str) -> None:
    from playhouse.migrations import Runner

    migrate(database_url, MIGRATIONS)
    database = Database.open(database_url)
    database.write(lambda: Runner(UsageRow._meta.database.obj, str(MIGRATIONS)).down("0001_usage"))

    assert database.read(lambda: UsageRow._meta.database.get_tables()) == ["schema_migration"]
    database.close()


def a_folder_that_is_a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "hermes.db"


def a_text_file(folder: Path) -> Path:
    path = folder / "hermes.db"
    path.write_text("This is no database at all. " * 100)
    return path


def a_file_with_a_torn_page(folder: Path) -> Path:
    path = folder / "hermes.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
    connection.close()
    with path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xff" * 4096)
    return path


def a_file_cut_short(folder: Path) -> Path:
    path = a_file_with_a_torn_page(folder)
    with path.open("r+b") as file:
        file.truncate(4096 * 3 + 100)
    return path


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        pytest.param(a_folder_that_is_a_file, "cannot be made: .*HERMES_DATABASE_URL", id="a folder that cannot be"),
        pytest.param(a_text_file, "no SQLite file.*restore a backup", id="another kind of file"),
        pytest.param(a_file_with_a_torn_page, "damaged.*restore a backup", id="a damaged page"),
        pytest.param(a_file_cut_short, "damaged.*restore a backup", id="a file cut short"),
    ],
)
def test_a_sqlite_file_that_cannot_be_used_is_refused_with_a_sentence(
    tmp_path: Path, prepare: Callable[[Path], Path], sentence: str
) -> None:
    path = prepare(tmp_path)

    with pytest.raises(StartRefused, match=sentence) as refused:
        migrate(f"sqlite:///{path}", MIGRATIONS)

    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("mode", [0o500, 0o700], ids=["a folder without the right to write", "a file without it"])
def test_a_place_that_may_not_be_written_to_is_refused_with_a_sentence(mode: int) -> None:
    """Tried in a process of an ordinary user, since root may write anywhere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "kept"
        folder.mkdir()
        path = folder / "hermes.db"
        path.touch()
        path.chmod(0o400)
        user = 65534 if os.geteuid() == 0 else os.geteuid()
        for place in (Path(name), folder, path):
            os.chown(place, user, -1)
        folder.chmod(mode)

        raised = in_a_process_of(user, lambda: migrate(f"sqlite:///{path}", MIGRATIONS))

        folder.chmod(0o700)
    assert raised.startswith("StartRefused: The database")
    assert "cannot be" in raised


def in_a_process_of(user: int, act: Callable[[], None]) -> str:
    """What `act` raises in a forked process of this user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setuid(user)
            act()
        except StartRefused as error:
            os.write(writing, f"StartRefused: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        raised = pipe.read().decode()
    os.waitpid(child, 0)
    return raised


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:///:memory:", "mysql://h/d", "hermes.db"])
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(StartRefused, match="sqlite:///PATH"):
        Database.open(url)


def test_a_postgres_out_of_reach_is_refused_with_a_sentence_that_holds_no_password() -> None:
    with pytest.raises(StartRefused, match=r"cannot be reached: .*refused") as refused:
        migrate("postgresql://anna:geheim@127.0.0.1:1/hermes", MIGRATIONS)

    assert "\n" not in str(refused.value)
    assert "geheim" not in str(refused.value)


# -- where work runs --------------------------------------------------------------------------------------


def test_a_write_that_fails_is_rolled_back_and_its_exception_raised(
    database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    def half() -> None:
        ConfigRow.create(key="k", value="v", updated_at="t", updated_by="me")
        raise KeyError("the other half")

    with pytest.raises(KeyError, match="the other half"):
        database.write(half)

    assert database.read(lambda: ConfigRow.select().count()) == 0
    assert capfd.readouterr().err == ""


def test_a_write_inside_a_write_is_a_part_of_it(database: Database, usage: UsageRepository) -> None:
    def both() -> None:
        usage.insert([a_record("inner")])
        raise KeyError("outer")

    with pytest.raises(KeyError, match="outer"):
        database.write(both)

    assert usage.find(UsageFilter()) == []
    assert database.write(usage.insert, [a_record("inner")]).rows == 1
    assert ids(database.read(usage.find, UsageFilter())) == ["inner"]


def test_sqlite_never_runs_in_the_thread_of_its_caller_and_reads_cannot_write(tmp_path: Path) -> None:
    migrate(f"sqlite:///{tmp_path}/hermes.db", MIGRATIONS)
    database = Database.open(f"sqlite:///{tmp_path}/hermes.db")
    here = threading.get_ident()

    assert database.write(threading.get_ident) != here
    assert database.read(threading.get_ident) not in (here, database.write(threading.get_ident))
    assert database.read(lambda: UsageRow._meta.database.pragma("journal_mode")) == "wal"
    with pytest.raises(DatabaseUnavailable, match="readonly"):
        database.read(lambda: ConfigRow.create(key="k", value="v", updated_at="t", updated_by="me"))
    database.close()


def test_closing_lets_go_of_every_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hermes.db"
    migrate(url, MIGRATIONS)
    database = Database.open(url)
    UsageRepository(database).insert([a_record("r1")])
    UsageRepository(database).find(UsageFilter())

    database.close()
    database.close()

    opened = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [path for path in opened if path.startswith(str(tmp_path))]
    assert not (tmp_path / "hermes.db-wal").exists()


def test_databases_may_be_opened_one_after_the_other(tmp_path: Path) -> None:
    for number in range(3):
        url = f"sqlite:///{tmp_path}/{number}/hermes.db"
        migrate(url, MIGRATIONS)
        database = Database.open(url)
        UsageRepository(database).insert([a_record(f"r{number}")])
        assert ids(UsageRepository(database).find(UsageFilter())) == [f"r{number}"]
        database.close()


def test_postgres_is_spoken_to_in_utf_8_whatever_the_environment_says(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    migrate(postgres_url, MIGRATIONS)
    database = Database.open(postgres_url)

    inserted = UsageRepository(database).insert([a_record("req_1", user_id="日本")])

    assert (inserted.rows, inserted.rejected) == (1, ())
    database.close()


def test_a_postgres_that_has_dropped_its_connections_is_connected_to_again(postgres_url: str) -> None:
    migrate(postgres_url, MIGRATIONS)
    database = Database.open(postgres_url)
    usage = UsageRepository(database)
    usage.insert([a_record("before")])
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    usage.insert([a_record("after")])

    assert sorted(ids(usage.find(UsageFilter()))) == ["after", "before"]
    database.close()


GREENLETS_PROGRAM = """
from gevent import monkey; monkey.patch_all()
import sys, time, sqlite3, logging
import gevent
from pathlib import Path
from hermes.errors import DatabaseUnavailable, Overloaded
from hermes.native import make_logging_native, native_lock
make_logging_native()
from hermes.storage.db import Database, migrate
from hermes.storage.repositories import UsageFilter, UsageRepository

url, folder = sys.argv[1], Path(sys.argv[2])
sys.setswitchinterval(1e-5)
migrate(url, folder)
database = Database.open(url)
assert not url.startswith("sqlite") or type(database._real._lock) is type(native_lock())
usage = UsageRepository(database)
record = {"created_at": "2026-05-10T12:00:00Z", "route": "/", "status": "ok"}
gaps = []

def asked(question, *arguments):
    # So many reports at once are too many for a busy machine, and where it is busy enough the database is silent for
    # so long that it is taken for away: ask again then.
    while True:
        try:
            return question(*arguments)
        except (DatabaseUnavailable, Overloaded):
            gevent.sleep(0.1)

def watch():
    last = time.perf_counter()
    while True:
        gevent.sleep(0.002)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now

watching = gevent.spawn(watch)
jobs = [gevent.spawn(asked, usage.insert, [{**record, "request_id": f"r{n}"}]) for n in range(100)]
jobs += [gevent.spawn(asked, usage.find, UsageFilter()) for _ in range(300)]
gevent.joinall(jobs, timeout=40)
assert all(job.successful() for job in jobs), [job.exception for job in jobs if not job.successful()][:1] or "stuck"
assert len(asked(usage.find, UsageFilter(limit=1000))) == 100

if url.startswith("sqlite"):
    gaps.clear()
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    blocked = gevent.spawn(usage.insert, [{**record, "request_id": "late"}])
    gevent.sleep(0.3)
    assert not blocked.ready()
    assert len(usage.find(UsageFilter(limit=1000))) == 100
    other.execute("COMMIT")
    assert blocked.get(timeout=10).rows == 1
    assert max(gaps) < 0.15, max(gaps)
database.close()
print("done")
"""


def test_four_hundred_greenlets_share_a_database_and_a_locked_one_does_not_stop_the_loop(database_url: str) -> None:
    """In a process that gevent has patched, with threads that switch as often as they can."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", GREENLETS_PROGRAM, database_url, str(MIGRATIONS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("done\n", "")
