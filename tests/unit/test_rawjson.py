"""Only the members that must change, change; the rest of the bytes stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes import rawjson

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
    ],
)
def test_the_model_is_set_and_nothing_else_is_touched(raw: bytes, wanted: bytes) -> None:
    assert b"".join(rawjson.replaced(raw, {"model": b'"X"'})) == wanted


@given(st.dictionaries(KEY, JSON, max_size=5), st.booleans())
def test_what_a_reader_sees_is_the_change_alone(value: dict[str, Any], is_ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")

    changed = b"".join(rawjson.replaced(raw, {"model": b'"X"', "stream_options": b'{"include_usage":true}'}))

    assert json.loads(changed) == {**value, "model": "X", "stream_options": {"include_usage": True}}


@given(st.dictionaries(KEY, JSON, max_size=5))
def test_a_member_is_taken_out_whole(value: dict[str, Any]) -> None:
    raw = json.dumps(value).encode()

    assert json.loads(rawjson.without(raw, "stream_options")) == {
        key: item for key, item in value.items() if key != "stream_options"
    }


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        pytest.param(b'{"x":1}', b"{}", id="alone"),
        pytest.param(b'{"a":1, "x":2}', b'{"a":1}', id="last"),
        pytest.param(b'{"x":1, "a":2}', b'{"a":2}', id="first"),
        pytest.param(b'{"a":1,"x":2,"x":3,"b":4}', b'{"a":1,"b":4}', id="twice"),
        pytest.param(b'{"x":1,"x":2}', b"{}", id="nothing but"),
    ],
)
def test_removing_leaves_no_stray_comma(raw: bytes, wanted: bytes) -> None:
    assert rawjson.without(raw, "x") == wanted
