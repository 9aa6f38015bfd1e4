"""What Hermes makes nobody else may read; what is there already stays as it was."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes import private
from hermes.cli.main import main
from hermes.observe.trace import TraceLog
from hermes.settings import ROOT
from hermes.storage.engine import sqlite_path
from hermes.storage.migrate import migrate

SERVER = """
import os
from hermes import bootstrap
from hermes.settings import Settings
from hermes.types import UsageRecord

os.umask(0o022)
hermes = bootstrap.build(Settings(demo=True, database_url="sqlite:///new/data/hermes.db", trace_log_dir="new/traces"))
hermes.trail.note("somebody", "config.reload", "a file", None, None)
hermes.traces.emit("classify", {"request_id": "r-1"})
hermes.spool.append(UsageRecord("r-1", "2026-01-01T00:00:00.000Z", "chat"))
for folder, folders, files in os.walk("new"):
    for path in (folder, *(os.path.join(folder, name) for name in files)):
        print(oct(os.stat(path).st_mode & 0o777), path)
hermes.close()
"""


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_server_opens_nothing_that_it_makes_to_others(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    ended = subprocess.run([sys.executable, "-c", SERVER], cwd=tmp_path, env=env, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    modes = dict(reversed(line.split()) for line in ended.stdout.splitlines() if line.startswith("0o"))
    made = {Path(path).name for path in modes}
    assert {"new", "data", "spool", "traces", "secret", "hermes.db", "hermes.db-wal", "hermes.db-shm"} <= made
    assert {Path(path).suffix for path in modes if "traces/" in path or "spool/" in path} >= {".jsonl"}
    assert {path: bits for path, bits in modes.items() if bits not in ("0o600", "0o700")} == {}


def test_folders_above_the_one_that_is_made_are_private_too(tmp_path: Path) -> None:
    private.make_folder(tmp_path / "a" / "b")
    private.make_folder(tmp_path / "a" / "b")

    assert [mode(tmp_path / name) for name in ("a", "a/b")] == [0o700, 0o700]


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    folder, database = tmp_path / "data", tmp_path / "data" / "hermes.db"
    folder.mkdir(0o755)
    database.touch(0o644)

    sqlite_path(f"sqlite:///{database}")
    TraceLog(folder).close()

    assert (mode(folder), mode(database)) == (0o755, 0o644)


def test_a_database_behind_a_link_is_private_too(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")

    sqlite_path(f"sqlite:///{tmp_path / 'link.db'}")

    assert mode(tmp_path / "real.db") == 0o600


def test_a_file_where_a_folder_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").touch()

    with pytest.raises(FileExistsError):
        private.make_folder(tmp_path / "data")
    with pytest.raises(NotADirectoryError):
        private.make_folder(tmp_path / "data" / "spool")


@pytest.mark.parametrize(("before", "after"), [(None, 0o600), (0o640, 0o640)])
def test_an_export_is_private_unless_it_replaces_a_file_that_was_not(
    before: int | None, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'hermes.db'}"
    monkeypatch.setenv("HERMES_DATABASE_URL", url)
    migrate(url, ROOT / "migrations")
    place = tmp_path / "out.csv"
    if before is not None:
        place.touch()
        place.chmod(before)

    assert main(["usage", "export", "-o", "out.csv"]) == 0

    assert mode(place) == after
