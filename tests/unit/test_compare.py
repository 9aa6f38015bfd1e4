"""Texts are alike by their words, tool calls by their structure; and what an answer says is read from any form."""

from __future__ import annotations

import orjson
import pytest

from hermes.evaluation.compare import as_text, is_same, similarity
from hermes.trials import Spoken
from hermes.upstream.spoken import spoken


def calls(*tools: tuple[str, str]) -> Spoken:
    return Spoken("", tools)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(Spoken("Yes."), Spoken(" Yes.\n"), True, id="white space"),
        pytest.param(Spoken("Yes."), Spoken("No."), False, id="another text"),
        pytest.param(calls(("f", '{"a":1,"b":2}')), calls(("f", '{ "b": 2, "a": 1 }')), True, id="order of members"),
        pytest.param(calls(("f", '{"a":1}')), calls(("f", '{"a":1.0}')), True, id="spelling of a number"),
        pytest.param(calls(("f", "")), calls(("f", "{}")), True, id="no arguments"),
        pytest.param(calls(("f", "{}"), ("g", "{}")), calls(("g", "{}"), ("f", "{}")), True, id="order of calls"),
        pytest.param(calls(("f", "{}")), Spoken("I call f.", (("f", "{}"),)), True, id="words beside a call"),
        pytest.param(calls(("f", "{}")), calls(("g", "{}")), False, id="another tool"),
        pytest.param(calls(("f", '{"a":1}')), calls(("f", '{"a":"1"}')), False, id="another type"),
        pytest.param(calls(("f", '{"a":[1,2]}')), calls(("f", '{"a":[2,1]}')), False, id="order of a list"),
        pytest.param(calls(("f", "{}"), ("f", "{}")), calls(("f", "{}")), False, id="twice"),
        pytest.param(calls(("f", "{oops")), calls(("f", "{oops")), True, id="no JSON, but the same"),
        pytest.param(calls(("f", '{"a":true}')), calls(("f", '{"a":1}')), False, id="true is not 1"),
        pytest.param(calls(("f", "{}")), Spoken("no"), False, id="a call and a text"),
    ],
)
def test_the_same(one: Spoken, other: Spoken, same: bool) -> None:
    assert is_same(one, other) is same
    assert is_same(other, one) is same


def test_similarity_is_1_for_equal_texts_and_0_for_others() -> None:
    assert similarity(Spoken("a b c"), Spoken("A  b c")) == 1.0
    assert similarity(Spoken("a b c"), Spoken("x y z")) == 0.0
    assert similarity(Spoken(), Spoken()) == 1.0
    assert similarity(Spoken("a"), Spoken()) == 0.0


def test_similarity_of_texts_by_hand() -> None:
    """`a b c d` and `a b x d`: words a, b, d and the pair `a b` in common: 2·4 / (7 + 7)."""
    assert similarity(Spoken("a b c d"), Spoken("a b x d")) == pytest.approx(8 / 14, abs=1e-4)


def test_similarity_of_calls_counts_those_in_common() -> None:
    one = calls(("f", "{}"), ("g", "{}"))

    assert similarity(one, calls(("f", "{}"), ("g", '{"a":1}'))) == 0.5


def test_a_call_reads_as_a_line() -> None:
    assert as_text(Spoken("Look:", (("find", '{"q":"x"}'),))) == 'Look:\n[calls find with {"q": "x"}]'


def events(*deltas: object) -> bytes:
    chunks = [b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": delta}]}) + b"\n\n" for delta in deltas]
    return b": hello\n\n" + b"".join(chunks) + b'data: {"choices":[],"usage":{}}\n\ndata: [DONE]\n\n'


def test_a_streamed_answer_says_what_the_whole_one_says() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}
    whole = orjson.dumps({"choices": [{"message": {"role": "assistant", "content": "Hélló", "tool_calls": [call]}}]})
    streamed = events(
        {"role": "assistant", "content": ""},
        {"content": "Hé"},
        {"content": "lló"},
        {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "find", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"q"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    )

    expected = Spoken("Hélló", (("find", '{"q": 1}'),))
    assert spoken(whole, stream=False) == spoken(streamed, stream=True) == expected


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"null", b'{"choices":[]}', b'{"choices":[{"message":null}]}', b'{"choices":[{"message":[]}]}', b"x"],
)
def test_what_cannot_be_read_says_nothing(raw: bytes) -> None:
    assert spoken(raw, stream=False) == Spoken()
    assert spoken(b"data: " + raw + b"\n\n", stream=True) == Spoken()


def test_of_several_choices_the_first_is_read() -> None:
    raw = b'{"choices":[{"index":1,"message":{"content":"b"}},{"index":0,"message":{"content":"a"}}]}'

    assert spoken(raw, stream=False).text == "a"
