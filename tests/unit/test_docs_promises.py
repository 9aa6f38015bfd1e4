"""The page of promises names what shows them, and all of that is there."""

from __future__ import annotations

import re

import pytest

from hermes.settings import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| promise"))]
NAMED = sorted(set(re.findall(r"`((?:tests|benchmarks)/[^`\s]+)`", PAGE)))


@pytest.mark.parametrize("named", NAMED)
def test_what_shows_a_promise_exists(named: str) -> None:
    file, _, test = named.partition("::")

    assert (ROOT / file).is_file()
    assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("row", ROWS)
def test_a_promise_is_shown_by_something(row: str) -> None:
    promise, _figure, shown = row.strip("| ").split(" | ", 2) if row.count(" | ") > 1 else (row, "", "")

    assert promise
    assert re.search(r"`(tests|benchmarks)/", shown or row)


def test_the_commands_that_the_page_names_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert {"test", "bench", "soak"} <= set(re.findall(r"^([a-z]+):", makefile, re.M))
