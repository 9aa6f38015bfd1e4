"""`usage export`: every row that is meant, whole or not at all, and a word about those that are still on their way."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes.accounting.spool import Spool
from hermes.cli.main import main
from hermes.settings import ROOT
from hermes.storage.db import Database, migrate
from hermes.storage.repositories import UsageRepository


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rows(folder: Path) -> list[dict[str, Any]]:
    """250 rows, which are more than two pages, in the database of the working directory; newest first."""
    url = "sqlite:///data/hermes.db"
    (folder / "data").mkdir()
    migrate(url, ROOT / "migrations")
    database = Database.open(url)
    made = [
        {
            "request_id": f"r{number:03d}",
            "created_at": f"2026-05-{1 + number // 25:02d}T12:00:{number % 25:02d}.000Z",
            "route": "/v1/chat/completions",
            "status": "error" if number % 10 == 0 else "ok",
            "user_id": f"user-{number % 3}",
            "function_name": "f" if number % 2 else "=g()",
            "model": "m1" if number % 5 else "m2",
            "tier": "simple" if number % 4 else "complex",
        }
        for number in range(250)
    ]
    UsageRepository(database).insert(made)
    database.close()
    return made[::-1]


def exported(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The ids of what is written as JSON lines."""
    assert main(["usage", "export", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line)["request_id"] for line in capsys.readouterr().out.splitlines()]


def test_all_rows_as_a_table(rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "export"]) == 0

    captured = capsys.readouterr()
    table = list(csv.DictReader(io.StringIO(captured.out, newline="")))
    assert [line["request_id"] for line in table] == [row["request_id"] for row in rows]
    assert {line["function_name"] for line in table} == {"f", "'=g()"}
    assert captured.err == "Rows written: 250. Still in the spool, so not among them: none.\n"


@pytest.mark.parametrize(
    ("arguments", "is_meant"),
    [
        pytest.param([], lambda row: True, id="all"),
        pytest.param(["--user", "user-1"], lambda row: row["user_id"] == "user-1", id="a user"),
        pytest.param(["--function", "=g()"], lambda row: row["function_name"] == "=g()", id="a function"),
        pytest.param(["--model", "m2"], lambda row: row["model"] == "m2", id="a model"),
        pytest.param(["--tier", "complex"], lambda row: row["tier"] == "complex", id="a tier"),
        pytest.param(["--status", "error"], lambda row: row["status"] == "error", id="a status"),
        pytest.param(
            ["--from", "2026-05-03", "--to", "2026-05-04"],
            lambda row: "2026-05-03" <= row["created_at"] < "2026-05-05",
            id="two days",
        ),
        pytest.param(
            ["--tier", "simple", "--model", "m2", "--user", "user-0"],
            lambda row: (row["tier"], row["model"], row["user_id"]) == ("simple", "m2", "user-0"),
            id="several",
        ),
        pytest.param(["--user", "nobody"], lambda row: False, id="nothing"),
    ],
)
def test_filters(
    rows: list[dict[str, Any]], arguments: list[str], is_meant: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(capsys, *arguments) == [row["request_id"] for row in rows if is_meant(row)]


def test_a_file_is_written_whole_and_replaces_the_old_one(rows: list[dict[str, Any]], folder: Path) -> None:
    (folder / "out.csv").write_text("old")

    assert main(["usage", "export", "-o", "out.csv"]) == 0

    assert len((folder / "out.csv").read_text().splitlines()) == 251
    assert sorted(path.name for path in folder.iterdir()) == ["data", "out.csv"]


def test_json_is_short_for_lines_of_it(rows: list[dict[str, Any]], folder: Path) -> None:
    assert main(["usage", "export", "--json", "-o", "out.jsonl", "--status", "error"]) == 0

    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert {line["status"] for line in lines} == {"error"}
    assert lines[0]["stream"] is False


def test_what_waits_in_the_spool_is_told_and_stays_there(
    rows: list[dict[str, Any]], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool(folder / "data" / "spool")
    for number in range(3):
        spool.append({**rows[0], "request_id": f"late-{number}"})

    assert main(["usage", "export", "-o", "out.csv"]) == 0

    assert "Rows written to out.csv: 250. Still in the spool, so not among them: 3." in capsys.readouterr().err
    assert spool.depth() == 3
    spool.close()


def test_a_pipe_is_written_to_and_not_replaced(rows: list[dict[str, Any]], folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    assert main(["usage", "export", "-o", "pipe", "--user", "nobody"]) == 0

    assert os.read(reader, 100_000).startswith(b"id,created_at,")
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_disk_that_is_full_leaves_no_half_a_file(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "export", "-o", "/dev/full"]) == 1
    assert "No space left" in capsys.readouterr().err


def test_a_failure_keeps_the_old_file(rows: list[dict[str, Any]], folder: Path) -> None:
    (folder / "out.csv").write_text("old")
    (folder / "out.csv.part").mkdir()

    assert main(["usage", "export", "-o", "out.csv"]) == 1

    assert (folder / "out.csv").read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--from", "yesterday"], "--from", id="a time that is none"),
        pytest.param(["--tier", "medium"], "--tier", id="a tier that is none"),
        pytest.param(["--user", "a\0b"], "--user", id="a user that no database takes"),
        pytest.param(["--format", "xml"], "--format", id="a format that is none"),
    ],
)
def test_wrong_words_are_refused_by_the_name_of_the_option(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "export", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_a_database_there_is_a_sentence_and_none_is_made(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "export", "-o", "out.csv"]) != 0

    assert "There is no database data/hermes.db yet" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
