"""Only the members that must change, change; the rest of the bytes stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes import rawjson
from hermes.jsonmap import LARGE_BYTES, survey

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
KEY = st.one_of(st.sampled_from(["model", "stream_options", "messages", 'a"b', "mo\\del"]), TEXT)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXT, st.sampled_from(['"model": 1', "{", "]", "\\"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEY, inner, max_size=3)),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        pytest.param(b'{"model":"a","n":1.50}', b'{"model":"X","n":1.50}', id="in front"),
        pytest.param(b'{ "n" : 1e2 , "model" : "a" }', b'{ "n" : 1e2 , "model" : "X" }', id="spacing stays"),
        pytest.param(b'{"n":1}', b'{"model":"X","n":1}', id="added"),
        pytest.param(b"{}", b'{"model":"X"}', id="added to nothing"),
        pytest.param(b"{ \n }", b'{"model":"X" \n }', id="added to blanks"),
        pytest.param(b'{"model":null}', b'{"model":"X"}', id="null"),
        pytest.param(b'{"model":{"a":[1]},"b":2}', b'{"model":"X","b":2}', id="not even a string"),
        pytest.param(b'{"model":"a","model":"b"}', b'{"model":"X","model":"X"}', id="twice: both"),
        pytest.param(b'{"mod\\u0065l":"a"}', b'{"mod\\u0065l":"X"}', id="an escaped key"),
        pytest.param(b'{"mod\\u0065l":"a","m":{"model":"b"}}', b'{"mod\\u0065l":"X","m":{"model":"b"}}', id="decoy"),
        pytest.param(b'{"m":{"model":"b"},"model":"a"}', b'{"m":{"model":"b"},"model":"X"}', id="nested one stays"),
        pytest.param(b'{"m":[{"model":"b"}]}', b'{"model":"X","m":[{"model":"b"}]}', id="only nested"),
        pytest.param(
            b'{"t":"\\"model\\": \\"b\\"","z":1}', b'{"model":"X","t":"\\"model\\": \\"b\\"","z":1}', id="text"
        ),
        pytest.param(b'{"a":"model","model":"b"}', b'{"a":"model","model":"X"}', id="as a value"),
        pytest.param(b'{"m":[{}],"model":"a","t":[{}]}', b'{"m":[{}],"model":"X","t":[{}]}', id="in the middle"),
        pytest.param(
            b'{"m":[{"a":{"model":"b"}}],"t":1}', b'{"model":"X","m":[{"a":{"model":"b"}}],"t":1}', id="nested, behind"
        ),
        pytest.param(
            b'{"t":{"model":"b"},"m":[{"a":{}}]}', b'{"model":"X","t":{"model":"b"},"m":[{"a":{}}]}', id="nested, front"
        ),
        pytest.param(
            b'{"m":["{[\\"{"],"model":"a","t":"}]\\\\"}',
            b'{"m":["{[\\"{"],"model":"X","t":"}]\\\\"}',
            id="brackets in texts",
        ),
        pytest.param(b'{"a\\"model":"b"}', b'{"model":"X","a\\"model":"b"}', id="the end of another name"),
    ],
)
def test_the_model_is_set_and_nothing_else_is_touched(raw: bytes, wanted: bytes) -> None:
    assert b"".join(rawjson.replaced(raw, {"model": b'"X"'})) == wanted


@given(st.dictionaries(KEY, JSON, max_size=5), st.booleans())
def test_what_a_reader_sees_is_the_change_alone(value: dict[str, Any], is_ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")

    changed = b"".join(rawjson.replaced(raw, {"model": b'"X"', "stream_options": b'{"include_usage":true}'}))

    assert json.loads(changed) == {**value, "model": "X", "stream_options": {"include_usage": True}}


@given(st.dictionaries(KEY, JSON, max_size=5), st.booleans())
def test_the_short_way_to_the_model_finds_what_the_long_way_finds(value: dict[str, Any], is_added: bool) -> None:
    raw = json.dumps(value).encode()
    added = {"new": b"1"} if is_added else None

    short = rawjson.replaced(raw, {"model": b'"X"'}, added=added)

    assert b"".join(short) == b"".join(rawjson.replaced(raw, {"model": b'"X"'}, added=added, known=survey(raw).members))


@given(st.dictionaries(KEY, JSON, max_size=5))
def test_a_member_is_taken_out_whole(value: dict[str, Any]) -> None:
    raw = json.dumps(value).encode()

    changed = b"".join(rawjson.replaced(raw, {"model": b'"X"'}, without=["stream_options", "messages"]))

    kept = {key: item for key, item in value.items() if key not in ("stream_options", "messages")}
    assert json.loads(changed) == {**kept, "model": "X"}


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        pytest.param(b'{"x":1}', b"{}", id="alone"),
        pytest.param(b'{"a":1, "x":2}', b'{"a":1}', id="last"),
        pytest.param(b'{"x":1, "a":2}', b'{"a":2}', id="first"),
        pytest.param(b'{"a":1,"x":2,"x":3,"b":4}', b'{"a":1,"b":4}', id="twice"),
        pytest.param(b'{"x":0,"a":1,"x":2,"x":3}', b'{"a":1}', id="in front and at the end"),
        pytest.param(b'{"x":1,"x":2}', b"{}", id="nothing but"),
        pytest.param(b'{"a":1}', b'{"a":1}', id="not there"),
        pytest.param(b"{}", b"{}", id="nothing at all"),
    ],
)
def test_removing_leaves_no_stray_comma(raw: bytes, wanted: bytes) -> None:
    assert b"".join(rawjson.replaced(raw, {}, without=["x"])) == wanted


def test_a_change_may_come_with_a_removal_and_an_addition() -> None:
    raw = b'{"a":1, "x":2, "b":3}'

    changed = rawjson.replaced(raw, {"a": b"9", "c": b"8"}, added={"n": b"7"}, without=["x"])

    assert b"".join(changed) == b'{"n":7,"c":8,"a":9, "b":3}'


def test_an_object_without_anything_left_gets_no_comma_either() -> None:
    assert b"".join(rawjson.replaced(b'{"x":2}', {"a": b"1"}, without=["x"])) == b'{"a":1}'


def test_a_large_object_is_changed_just_the_same() -> None:
    text = b"x" * LARGE_BYTES
    raw = b'{"t":"%b", "model" : "a", "m":{"model":"b"}}' % text

    changed = rawjson.replaced(raw, {"model": b'"X"'})

    assert b"".join(changed) == b'{"t":"%b", "model" : "X", "m":{"model":"b"}}' % text
    assert sum(map(len, changed)) == len(raw)
