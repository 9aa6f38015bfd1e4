"""A large object is read in pieces, and means what it would mean if it were read at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes import largejson
from hermes.jsonmap import MAX_MEMBERS, MAX_VALUES, PIECE_COST, Unreadable, survey

SMALL = 32
"""A piece so small that everything has seams."""

TEXT = st.text(st.sampled_from('aé你😀"\\/\n,:{}[]\ud83d\ude00'), max_size=40)
KEY = st.text(st.sampled_from('abé"\\,'), max_size=4)
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.just(float("inf")), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=8), st.dictionaries(KEY, inner, max_size=8)),
    max_leaves=40,
)
OBJECT = st.dictionaries(KEY, VALUE, max_size=6)
SPACING = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])


def written(value: Any, spacing: tuple[str, str], *, is_ascii: bool) -> bytes:
    return json.dumps(value, ensure_ascii=is_ascii, separators=spacing).encode("utf-8", "surrogatepass")


def outcome(raw: bytes, piece: int = SMALL) -> Any:
    """What is read, as text that tells -0.0 from 0; None where it is refused."""
    try:
        return json.dumps(largejson.read(raw, piece)[0])
    except Unreadable:
        return None


def wanted(raw: bytes) -> Any:
    try:
        value = largejson.parsed(raw)
    except ValueError:
        return None
    return json.dumps(value) if isinstance(value, dict) else None


@given(OBJECT, SPACING, st.booleans(), st.sampled_from([16, 33, 100, 1000, PIECE_COST]))
def test_it_means_what_it_means_at_once(value: Any, spacing: tuple[str, str], is_ascii: bool, piece: int) -> None:
    raw = written(value, spacing, is_ascii=is_ascii)

    assert outcome(raw, piece) == wanted(raw)


@given(OBJECT, SPACING, st.data())
def test_what_is_refused_at_once_is_refused_in_pieces(value: Any, spacing: tuple[str, str], data: Any) -> None:
    """A mark too many, too few or in the wrong place must not be lost between two pieces."""
    raw = written(value, spacing, is_ascii=True)
    at = data.draw(st.integers(0, len(raw)))
    left_out = data.draw(st.integers(0, 3))
    put_in = data.draw(
        st.sampled_from([b"", b",", b"[", b"]", b"{", b"}", b":", b'"', b"\\", b" ", b"0", b"\xc3", b","])
    )
    broken = raw[:at] + put_in + raw[at + left_out :]

    assert outcome(broken) == wanted(broken)


@given(st.text(st.sampled_from('"\\a'), min_size=20, max_size=300), st.integers(16, 80))
@example("\\" * 200 + '"' + "\\" * 199 + '"', 16)
def test_quotes_and_backslashes_in_any_number_end_a_text_where_it_ends(text: str, piece: int) -> None:
    raw = json.dumps({"a": text, "b": [text, 1]}).encode()

    assert largejson.read(raw, piece)[0] == {"a": text, "b": [text, 1]}


@pytest.mark.parametrize(
    ("begin", "item", "end"),
    [
        pytest.param('{"a":[', "1,", "]}", id="a comma at a list's end"),
        pytest.param('{"a":[', ",1", "]}", id="a comma at its beginning"),
        pytest.param('{"a":[', '"0123456789012345678901234567890123456789"', "]}", id="no commas between texts"),
        pytest.param('{"a":[', '2"0123456789012345678901234567890123456789",', "1]}", id="no comma after a number"),
        pytest.param('{"a":[', "[" + "1," * 20 + "1]", "]}", id="no commas between lists"),
        pytest.param('{"a":[', "[" + "1," * 20 + "1],,", "1]}", id="two commas after a list"),
        pytest.param("{", '"a":1,', "}", id="a comma at an object's end"),
        pytest.param('{"a":{', '"b":[' + "1," * 20 + "1],", "}}", id="a comma at an inner object's end"),
        pytest.param('{"a":[', "1,", "1}}", id="a list that ends as an object"),
        pytest.param('{"a":{', '"b":1,', '"b":1]}', id="an object that ends as a list"),
        pytest.param("{", '[1,2,3,4],"0123456789":', "1}", id="a list without a name"),
        pytest.param("{", '"a":1,', '"a":1}}', id="a bracket too many"),
        pytest.param("{", '"a":1,', '"a":1} x', id="something after the end"),
        pytest.param("{", '"a":1,', '"a":1', id="no end"),
        pytest.param('{"a":"', "x", "", id="a text without an end"),
        pytest.param('{"a":"', "\\", "", id="backslashes without an end"),
        pytest.param('{""a":"', "\\y", "", id="a last quote, and a backslash near the end"),
        pytest.param('{"a":"', "x\x01", '"}', id="a control character"),
        pytest.param('{"a":"', "\\u12", '"}', id="half an escape"),
    ],
)
def test_broken_objects_are_refused_wherever_the_pieces_end(begin: str, item: str, end: str) -> None:
    for number in range(2, 60):
        with pytest.raises(Unreadable):
            largejson.read((begin + item * number + end).encode(), SMALL)


def test_of_two_equal_keys_the_last_counts_even_far_apart() -> None:
    raw = b'{"a":[%b],"b":2,"a":[1],"c":{"x":"%b","y":1,"x":3},"b":4}' % (b"1," * 50 + b"1", b"x" * 100)

    assert largejson.read(raw, SMALL)[0] == {"a": [1], "b": 4, "c": {"x": 3, "y": 1}}


@pytest.mark.parametrize(
    "escaped",
    [
        pytest.param(r"\ud83d\ude00", id="surrogate pairs"),
        pytest.param(r"x\ud83d\ude00", id="pairs at odd places"),
        pytest.param(r"\ud83d\ud83d\ude00", id="half a pair before each pair"),
        pytest.param(r"\ud83dx", id="first halves alone"),
        pytest.param(r"\ude00\ud83d", id="halves in the wrong order"),
        pytest.param(r"\\ud83d\\ude00", id="what only looks like pairs"),
        pytest.param("é你😀", id="characters of two to four bytes"),
        pytest.param(r"\u4f60\n\\\"", id="escapes of all lengths"),
    ],
)
def test_a_long_text_is_cut_between_characters_only(escaped: str) -> None:
    for number in range(10, 40):
        raw = ('{"a":"%s"}' % (escaped * number)).encode()

        assert largejson.read(raw, 16)[0] == json.loads(raw)


def test_where_the_members_stand_is_told_as_well() -> None:
    raw = b' { "a" : [1, {"b":2}] , "model":"x"\n, "t": "\\"model\\":" } '

    _, members = largejson.read(raw, SMALL)

    assert [(m.key, raw[m.start : m.value_end]) for m in members] == [
        ("a", b'"a" : [1, {"b":2}]'),
        ("model", b'"model":"x"'),
        ("t", b'"t": "\\"model\\":"'),
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b'{"x":[' + b"1," * MAX_VALUES + b"1]}", "values", id="numbers"),
        pytest.param(b'{"x":[' + b"{}," * MAX_VALUES + b"1]}", "values", id="objects"),
        pytest.param(b"{" + b'"":1,' * MAX_MEMBERS + b'"":1}', "fields", id="fields"),
        pytest.param(b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}", "nested", id="depth"),
        pytest.param(b'{"x":' + b"[" * 200 + b"1," * 10_000 + b"1" + b"]" * 200 + b"}", "nested", id="large depth"),
        pytest.param(b'{"' + b"x" * 600_000 + b'":1}', "name", id="a long name"),
        pytest.param(b'{"x":1' + b" " * 4_000_000 + b"}", "blanks", id="blanks"),
        pytest.param(b'{"x":' + b"1" * 4_000_000 + b"}", "digits", id="digits"),
        pytest.param(b'{"x":"%b"}' % ("é" * 20_000_001).encode(), "characters", id="a text of twenty million"),
        pytest.param(b"[" * 200_000, "object", id="a list"),
    ],
)
def test_what_no_request_has_is_refused_by_name(raw: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        largejson.read(raw)


def test_a_map_lets_others_have_a_turn_all_the_way() -> None:
    pauses: list[int] = []

    survey(b'{"a":"%b","b":[%b1]}' % (rb"\\\"" * 200_000, b'"a",' * 20_000), lambda: pauses.append(1))

    assert len(pauses) > 50
