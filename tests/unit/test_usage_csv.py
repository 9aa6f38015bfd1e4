"""A CSV file of the usage log: no cell becomes a formula, and whatever users write comes back as it was."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.storage.export import FORMULA_STARTS, SHOWN_NAMES, csv_lines

EMPTY = dict.fromkeys(SHOWN_NAMES)


def cell_of(value: Any) -> str:
    """What a reader of the file finds where the value was written."""
    text = "".join(csv_lines([{**EMPTY, "prompt_preview": value}]))
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    return row["prompt_preview"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        pytest.param("=1+1", "'=1+1", id="equals"),
        pytest.param("+cmd", "'+cmd", id="plus"),
        pytest.param("-2", "'-2", id="a text that looks like a number"),
        pytest.param("@SUM(1+1)", "'@SUM(1+1)", id="at"),
        pytest.param('\t=1+1\n"quoted", and comma', '\'\t=1+1\n"quoted", and comma', id="a tab, quotes and a line end"),
        pytest.param("\r=1", "'\r=1", id="carriage return"),
        pytest.param("\n=1", "'\n=1", id="line feed"),
        pytest.param("＝1+1", "'＝1+1", id="full width"),
        pytest.param("1=1", "1=1", id="inside is harmless"),
        pytest.param("it's", "it's", id="an apostrophe inside"),
        pytest.param("", "", id="an empty text"),
        pytest.param(None, "", id="unknown"),
        pytest.param(-2, "-2", id="a negative number stays one"),
        pytest.param(-1.5, "-1.5", id="with a fraction as well"),
        pytest.param(4.5e-07, "0.00000045", id="never an exponent"),
        pytest.param(0, "0", id="zero is not unknown"),
        pytest.param(True, "true", id="yes"),
        pytest.param(False, "false", id="no"),
    ],
)
def test_a_value_and_its_cell(value: object, cell: str) -> None:
    assert cell_of(value) == cell


@given(st.text())
def test_every_text_comes_back_and_none_begins_a_formula(text: str) -> None:
    cell = cell_of(text)

    assert cell.removeprefix("'") == text.removeprefix("'")
    assert cell[:1] not in FORMULA_STARTS


@given(st.text(), st.text())
def test_a_line_is_one_line_whatever_stands_in_it(one: str, other: str) -> None:
    lines = list(csv_lines([{**EMPTY, "user_id": one}, {**EMPTY, "user_id": other}]))

    assert len(lines) == 3
    assert all(line.endswith("\r\n") for line in lines)
    assert len(list(csv.reader(io.StringIO("".join(lines), newline="")))) == 3


def test_the_header_can_be_left_out() -> None:
    assert list(csv_lines([])) == [",".join(SHOWN_NAMES) + "\r\n"]
    assert list(csv_lines([], header=False)) == []
