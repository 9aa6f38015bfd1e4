"""What some provider reads as a number counts as that number, however it is written."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from hermes.admission.figures import figure_of

UNREAD = 1_000_000
SPELLINGS = (
    "20000", " 20000", "20000 ", "\u200920000\n", "+20000", "20_000", "20000.0", "20000.00", "2e4", "2E+4", "200e2",
    "0020000", "0" * 500 + "20000", "+" + "0" * 5000 + "20000", "0x4E20", "0X4e20", "0b100111000100000", "0o47040",
    "0x9.C4p11", "0x4_E20", "\ufeff20000", "٢٠٠٠٠", "２００００", "20000.", "2_0000.0", "19999.5",
    [20000], ["20000"], [[[" 20000"]]], 20000, 20000.0, 19999.01,
)  # fmt: skip


class Strict(BaseModel):
    max_tokens: int


@pytest.mark.parametrize("value", SPELLINGS, ids=ascii)
def test_every_way_to_write_a_number_is_read(value: object) -> None:
    assert figure_of(value, 1, UNREAD) == 20_000


@pytest.mark.parametrize(
    "value", [*SPELLINGS, "1_0.0", "- 2", "_1", "1__0", "2\x1f", "0777", "1" * 25, True, "7" * 300]
)
def test_nothing_counts_less_than_pydantic_reads_in_it(value: object) -> None:
    try:
        read = Strict.model_validate_json(json.dumps({"max_tokens": value})).max_tokens
    except ValidationError:
        read = 0

    assert figure_of(value, 1, UNREAD) >= min(read, UNREAD)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        pytest.param("0777", 777, id="octal in Go, but larger elsewhere"),
        pytest.param("-0x10", 1, id="below zero"),
        pytest.param("", 1, id="nothing, which is 0 in JavaScript"),
        pytest.param([], 1, id="no thing, which is 0 in JavaScript"),
        pytest.param("0.5", 1, id="a part of one"),
        pytest.param("face", UNREAD, id="a word of hexadecimal digits"),
        pytest.param("20 000", UNREAD, id="two numbers"),
        pytest.param([1, 2], UNREAD, id="a list of two"),
        pytest.param("nan", UNREAD, id="not a number"),
        pytest.param("1e999", UNREAD, id="beyond every float"),
        pytest.param("1" * 10_000, UNREAD, id="a long text"),
        pytest.param(10**400, UNREAD, id="a large number"),
        pytest.param("[" * 3, UNREAD, id="a text of brackets"),
        pytest.param([[[[[[[[[[5]]]]]]]]]], UNREAD, id="deep lists"),
    ],
)
def test_what_is_not_plainly_a_number(value: object, read: int) -> None:
    assert figure_of(value, 1, UNREAD) == read
