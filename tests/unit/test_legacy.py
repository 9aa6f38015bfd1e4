"""A chat completion in the legacy form; of a large one nothing is built, and the small and the large come out alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.jsonmap import LARGE_BYTES, MAX_VALUES
from hermes.skim import MAX_STEPS, Unreadable
from hermes.upstream.legacy import _legacy_event, legacy_answer

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
PADDING = {"padding": "x" * LARGE_BYTES}


def completion(*choices: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "object": "chat.completion", "model": "m", "choices": list(choices), "usage": USAGE, **more}


def choice(content: Any = "hello", **more: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop", **more}


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(completion(choice()), id="one choice"),
        pytest.param(completion(choice("a"), choice("b", index=1)), id="two choices"),
        pytest.param(completion(choice('"quoted" \\ ünd \n\ud800')), id="a text with escapes"),
        pytest.param(completion(choice(None)), id="no text"),
        pytest.param(completion(choice([{"type": "text", "text": "x"}])), id="a text in parts"),
        pytest.param(completion(choice(message=None)), id="no message"),
        pytest.param(completion(choice(message="hello")), id="a message that is a text"),
        pytest.param(completion({}, {"message": {}}), id="choices without anything"),
        pytest.param(completion(None, [], "x", 5, choice()), id="choices that are none"),
        pytest.param(completion(), id="no choices"),
        pytest.param({"choices": [choice()]}, id="nothing but choices"),
        pytest.param(completion(choice(finish_reason={"a": [1]}, index=[1])), id="values of other kinds"),
    ],
)
def test_a_large_answer_comes_out_as_a_small_one_does(whole: dict[str, Any]) -> None:
    small, large = json.dumps(whole).encode(), json.dumps({**PADDING, **whole}, indent=1).encode()

    told = legacy_answer(small)

    assert len(small) <= LARGE_BYTES < len(large)
    assert json.loads(told)["object"] == "text_completion"
    assert list(json.loads(legacy_answer(large)).items()) == list(json.loads(told).items())


def test_an_answer_may_hold_as_many_values_as_it_likes() -> None:
    """Of what a legacy answer has none of."""
    body = json.dumps(completion(choice(logprobs=[0] * (MAX_VALUES + 1)))).encode()

    assert json.loads(legacy_answer(body))["choices"][0]["text"] == "hello"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"choices":{}}', id="choices that are no list"),
        pytest.param(b'{"usage":{}}', id="no choices"),
        pytest.param(b"{" + b" " * LARGE_BYTES, id="large: an end too early"),
        pytest.param(b" " * (LARGE_BYTES + 1), id="large: nothing"),
        pytest.param(b"[" + b" " * LARGE_BYTES + b"]", id="large: a list"),
        pytest.param(b'{"choices":5' + b" " * LARGE_BYTES + b"}", id="large: choices that are no list"),
        pytest.param(
            b'{"choices":[{"message":{%s}}]}' % b",".join([b'"a":0'] * (MAX_STEPS + 1)), id="large: too many members"
        ),
    ],
)
def test_what_cannot_be_told_so_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        legacy_answer(body)


def test_a_large_event_is_told_in_the_legacy_form_too() -> None:
    whole = {**PADDING, "choices": [{"index": 1, "delta": {"content": "hi"}, "finish_reason": None}]}

    event = _legacy_event(b"data: " + json.dumps(whole).encode() + b"\n\n")

    assert json.loads(event.removeprefix(b"data: ")) == {
        "object": "text_completion",
        "choices": [{"text": "hi", "index": 1, "logprobs": None, "finish_reason": None}],
    }


@pytest.mark.parametrize("event", [b": hello\n\n", b"data: [DONE]\n\n", b"data: {\n\n", b'data: {"error":{}}\n\n'])
def test_what_is_no_completion_goes_through_as_it_is(event: bytes) -> None:
    assert _legacy_event(event) == event
