"""`knowledge` on the command line: it needs no running server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes.knowledge import reader, vectors
from hermes.knowledge.reader import MOST_BYTES
from hermes.storage.db import Database
from hermes.storage.directory import DirectoryRepository

from .test_cli_directory import Terminal
from .test_cli_directory import folder as folder  # every test runs in an empty working directory
from .test_cli_directory import run as run


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """A folder of documents, one of which cannot be read."""
    book = tmp_path / "book"
    (book / "part" / ".git").mkdir(parents=True)
    (book / "refunds.md").write_text("# Refunds\n\nRefunds are paid in 14 days.", encoding="utf-8")
    (book / "part" / "prices.csv").write_text("item,price\nhat,3\n", encoding="utf-8")
    (book / "part" / ".git" / "hidden.md").write_text("hidden", encoding="utf-8")
    (book / "picture.png").write_bytes(b"x")
    return book


def test_a_folder_is_taken_in_once(run: Terminal, handbook: Path) -> None:
    done = run.json("knowledge", "ingest", str(handbook), "--use-case", "shop")
    assert [(one["source"], one["result"]) for one in done["documents"]] == [
        ("part/prices.csv", "taken"),
        ("refunds.md", "taken"),
    ]

    assert run("knowledge", "ingest", str(handbook), "--use-case", "shop") == 0
    assert run.out.split() == ["unchanged", "part/prices.csv", "unchanged", "refunds.md"]
    again = run.json("knowledge", "ingest", str(handbook), "--use-case", "shop", "--again")
    assert {one["result"] for one in again["documents"]} == {"taken"}
    assert len(run.json("knowledge", "list")["documents"]) == 2
    database = Database.open("sqlite:///data/hermes.db")
    (row,) = DirectoryRepository(database).audit(1)
    database.close()
    assert row["actor"].startswith("cli:")


def test_a_question_in_another_language_finds_it(run: Terminal, handbook: Path) -> None:
    run("knowledge", "ingest", str(handbook / "refunds.md"), "--use-case", "shop", "--entity", "blue")

    (hit,) = run.json("knowledge", "search", "متى يتم رد المبلغ؟", "--min-score", "0.1")["hits"]
    assert (hit["source"], hit["entity"], hit["heading"]) == ("refunds.md", "blue", "Refunds")
    assert run("knowledge", "search", "refunds", "--use-case", "office") == 0
    assert run.err == "Nothing is near enough.\n"
    assert run("knowledge", "search", "when are refunds paid") == 0
    assert "shop/blue: refunds.md #1 (Refunds)" in run.out


def test_what_cannot_be_read_is_told_and_the_rest_is_taken(run: Terminal, handbook: Path) -> None:
    (handbook / "broken.pdf").write_bytes(b"%PDF-1.4")

    assert run("knowledge", "ingest", str(handbook), "--use-case", "shop") == 1
    assert "broken.pdf cannot be read: the PDF is damaged" in run.err
    assert "1 of 3 documents could not be taken in." in run.err
    assert len(run.json("knowledge", "list")["documents"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        pytest.param(("ingest", "nowhere.md", "--use-case", "x"), 2, "does not exist", id="no file"),
        pytest.param(("ingest", "."), 2, "--use-case", id="no use case"),
        pytest.param(("ingest", ".", "--use-case", "x"), 2, "no document in these folders", id="an empty folder"),
        pytest.param(("delete", "--use-case", "x"), 1, "There is no such document", id="nothing to remove"),
    ],
)
def test_wrong_words_are_told(run: Terminal, words: tuple[str, ...], code: int, told: str) -> None:
    assert run("knowledge", *words) == code
    assert told in run.err


@pytest.mark.parametrize("kind", ["a device", "a pipe", "a link to a device", "a long file"])
def test_what_has_no_end_is_refused_before_anything_is_done(run: Terminal, handbook: Path, kind: str) -> None:
    path = handbook.parent / "book.md"
    if kind == "a device":
        path = Path("/dev/zero")
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link to a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(MOST_BYTES + 1)

    assert run("knowledge", "ingest", str(handbook), str(path), "--use-case", "shop") == 2
    said = "is larger than 32 MB" if kind == "a long file" else "is no file and no folder"
    assert f"{path} {said}" in run.err
    assert run.json("knowledge", "list")["documents"] == []


def test_a_file_that_is_longer_than_it_seems_is_read_no_further_than_a_document_goes(
    run: Terminal, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of a file in a folder is not asked for: some say that they are empty, and others grow."""
    monkeypatch.setattr(reader, "MOST_BYTES", 50)
    (handbook / "grown.md").write_bytes(b"x" * 51)

    assert run("knowledge", "ingest", str(handbook), "--use-case", "shop") == 1
    assert "grown.md: grown.md is larger than" in run.err
    assert {one["source"] for one in run.json("knowledge", "list")["documents"]} == {"part/prices.csv", "refunds.md"}


def test_what_is_removed_is_gone_and_there_is_nothing_to_reindex(run: Terminal, handbook: Path) -> None:
    run("knowledge", "ingest", str(handbook), "--use-case", "shop")
    assert run("knowledge", "reindex") == 0
    assert run.out == "Every document has the right vectors.\n"
    assert run("knowledge", "delete", "--use-case", "shop", "--source", "refunds.md") == 0
    assert run.out == "refunds.md is removed.\n"
    assert [one["source"] for one in run.json("knowledge", "list")["documents"]] == ["part/prices.csv"]


def test_without_the_model_it_says_what_is_missing(
    run: Terminal, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "PACKAGE", "no_such_package")

    assert run("knowledge", "ingest", str(handbook), "--use-case", "shop") == 1
    assert "no_such_package" in run.err
    assert "is not installed" in run.err
    assert "knowledge.embedder" in run.err
    assert run.json("knowledge", "list")["documents"] == []
