"""Placeholders come back as what they stand for, however the stream cuts them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.jsonmap import LARGE_BYTES
from hermes.upstream.restoring import Placeholders, StreamRestorer
from hermes.upstream.sse import data_of, split

VALUES = {"[EMAIL_1]": "user@example.com", "[EMAIL_12]": "other@example.com", "[PHONE_1]": "+49 30 901820"}
PLACEHOLDERS = Placeholders(VALUES)
DONE = b"data: [DONE]\n\n"


def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
    return (
        b"data: "
        + json.dumps({"id": "c1", "object": "chat.completion.chunk", "choices": choices, **more}).encode()
        + b"\n\n"
    )


def content(text: str, index: int = 0, finish: str | None = None) -> bytes:
    return event([{"index": index, "delta": {"content": text}, "finish_reason": finish}])


def arguments(text: str, call: int, index: int = 0) -> bytes:
    calls = [{"index": call, "function": {"arguments": text}}]
    return event([{"index": index, "delta": {"tool_calls": calls}, "finish_reason": None}])


FINISH = event([{"index": 0, "delta": {}, "finish_reason": "stop"}])


def through(*blocks: bytes) -> list[bytes]:
    restorer = StreamRestorer(PLACEHOLDERS)
    return [*map(restorer.block, blocks), restorer.flush()]


def texts(blocks: list[bytes]) -> dict[Any, str]:
    """What a client puts together: the text of each choice, the arguments of each call."""
    gathered: dict[Any, str] = {}
    for one in split(b"".join(blocks)):
        data = data_of(one)
        if not data or data == b"[DONE]":
            continue
        for choice in json.loads(data)["choices"]:
            delta = choice["delta"]
            gathered[choice["index"]] = gathered.get(choice["index"], "") + (delta.get("content") or "")
            for call in delta.get("tool_calls", ()):
                key = choice["index"], call["index"]
                gathered[key] = gathered.get(key, "") + call["function"]["arguments"]
    return gathered


def test_a_whole_answer_changes_where_a_placeholder_stood_and_nowhere_else() -> None:
    body = (
        b'{ "x":1.50, "choices":[{"message":{"content":"to [EMAIL_1], [EMAIL_12], [EMAIL_2]","tool_calls":[{"function":'
        b'{"arguments":"{\\"to\\":\\"[EMAIL_1]\\"}"}}]}}]}'
    )

    assert PLACEHOLDERS.whole(body) == body.replace(b"[EMAIL_1]", b"user@example.com").replace(
        b"[EMAIL_12]", b"other@example.com"
    )


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(content("no bracket"), id="nothing to do"),
        pytest.param(b": comment [EMAIL_1]\n\n", id="a comment"),
        pytest.param(content("a list [1, 2] of things"), id="brackets of another kind"),
        pytest.param(b"data: not json [EMAIL_1]\n\n", id="no JSON"),
        pytest.param(b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n', id="usage"),
        pytest.param(DONE, id="the end"),
    ],
)
def test_an_event_in_which_nothing_is_restored_stays_as_it_came(block: bytes) -> None:
    assert through(block) == [block, b""]


def test_only_what_may_become_a_placeholder_is_held_back() -> None:
    first, second, third, rest = through(content("to [EMA"), content("IL_1"), content("] and [x"))

    assert texts([first]) == {0: "to "}
    assert texts([second]) == {0: ""}
    assert texts([third]) == {0: "user@example.com and [x"}
    assert rest == b""


@pytest.mark.parametrize(
    ("text", "held"),
    [("[", 1), ("[E", 2), ("[EMAIL", 6), ("[EMAIL_", 7), ("[EMAIL_9", 8), ("[PHONE_1", 8), ("[IB", 0), ("[EMAIL_x", 0),
     ("[EMAIL_0", 0), ("[EMAIL_123456", 0), ("[EMAIL_1]", 0), ("[_", 0), ("[1", 0)],
)  # fmt: skip
def test_held_back_is_only_what_the_requests_own_kinds_of_placeholders_begin_with(text: str, held: int) -> None:
    assert len(text) - PLACEHOLDERS.unfinished(text) == held


def test_ten_thousand_placeholders_take_no_longer() -> None:
    """One pattern of all of them would take minutes."""
    values = {f"[EMAIL_{number}]": f"u{number}@example.com" for number in range(1, 10_001)}
    placeholders = Placeholders(values)

    assert placeholders.text("".join(values)) == "".join(values.values())
    assert placeholders.unfinished("see [EMAIL_99") == 4


def test_each_choice_and_each_call_is_followed_by_itself() -> None:
    blocks = through(
        content("[EMAIL", 0), content("[PHONE_", 1), arguments('{"to":"[EM', 0), arguments('{"n":"[PHONE_1', 1),
        content("_1]", 0), content("1]", 1), arguments('AIL_12]"}', 0), arguments(']"}', 1),
    )  # fmt: skip

    assert texts(blocks) == {
        0: "user@example.com",
        1: "+49 30 901820",
        (0, 0): '{"to":"other@example.com"}',
        (0, 1): '{"n":"+49 30 901820"}',
    }


@pytest.mark.parametrize("end", [pytest.param(FINISH, id="an empty last delta"), pytest.param(DONE, id="[DONE] alone")])
def test_what_is_held_at_the_end_goes_out_before_it(end: bytes) -> None:
    blocks = through(content("see [EMAIL_"), end)

    assert texts(blocks) == {0: "see [EMAIL_"}
    assert b"".join(blocks).endswith(end)


def test_the_last_delta_with_text_is_not_held_back() -> None:
    assert texts(through(content("see [EMAIL_", finish="stop"))) == {0: "see [EMAIL_"}


def test_a_call_that_ends_within_a_placeholder_gets_its_rest_in_its_own_place() -> None:
    blocks = through(arguments('"[EMAIL_', 2), FINISH)

    assert texts(blocks)[0, 2] == '"[EMAIL_'


def test_an_error_is_passed_on_behind_what_was_held() -> None:
    error = b'data: {"error":{"message":"x"}}\n\n'

    assert through(content("see ["), error)[1].endswith(error)


def test_a_renamed_event_keeps_its_name_and_its_id() -> None:
    named = b"event: message\nid: 7\n" + content("[EMAIL_1]")

    assert through(named)[0].startswith(b"event: message\nid: 7\ndata: ")


@pytest.mark.parametrize("escaped", [r"[EMAIL\_1]", r"[EMAIL\\_1]", r"[EMAIL\_1\]", r"[EMAIL\\\\_1\\\\]"])
def test_a_placeholder_that_the_model_wrote_in_markdown_comes_back(escaped: str) -> None:
    assert PLACEHOLDERS.text(f"to {escaped}.") == "to user@example.com."
    assert json.loads(PLACEHOLDERS.whole(json.dumps({"text": escaped[:8] + "_1]"}).encode()))


def test_in_a_whole_answer_an_escaped_placeholder_leaves_the_json_whole() -> None:
    inner = json.dumps({"to": r"[EMAIL\_1]"})
    body = json.dumps({"content": r"to [EMAIL\_12]", "arguments": inner}).encode()

    whole = json.loads(PLACEHOLDERS.whole(body))

    assert whole == {"content": "to other@example.com", "arguments": '{"to": "user@example.com"}'}


def test_an_escaped_placeholder_is_held_back_wherever_it_is_cut() -> None:
    for escaped in (r"[EMAIL\_1]", r"[PHONE\\_1\]"):
        for cut in range(1, len(escaped)):
            out = through(content("to " + escaped[:cut]), content(escaped[cut:]), DONE)

            assert texts(out)[0] == PLACEHOLDERS.text("to " + escaped)
    assert PLACEHOLDERS.unfinished("see [EMAIL\\") == 4
    assert PLACEHOLDERS.unfinished("see [EMAIL" + "\\" * 6) == len("see [EMAIL") + 6


PIECES = st.lists(
    st.sampled_from(
        [*VALUES, r"[EMAIL\_1]", r"[PHONE\\_1\]", r"\_", "[", "]", "[EMAIL_", "[EMAIL_2]", "1", "x", "é", '"', "\\"]
    ),
    max_size=12,
)


@given(pieces=PIECES, cuts=st.sets(st.integers(0, 120)), finishes=st.booleans())
def test_any_cut_gives_the_text_that_no_cut_gives(pieces: list[str], cuts: set[int], finishes: bool) -> None:
    text = "".join(pieces)
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    blocks = [content(text[start:end]) for start, end in pairwise(edges)]

    out = through(*blocks, FINISH if finishes else b"", DONE)

    assert texts(out).get(0, "") == PLACEHOLDERS.text(text)


@pytest.mark.parametrize("shift", range(20))
def test_a_large_answer_is_restored_wherever_it_is_taken_apart(shift: int) -> None:
    placeholder, value = next(iter(VALUES.items()))
    body = b"x" * (LARGE_BYTES - 10 + shift) + placeholder.encode() + b"[" * LARGE_BYTES + placeholder.encode()

    assert PLACEHOLDERS.whole(body) == body.replace(placeholder.encode(), value.encode())


@pytest.mark.parametrize("index", [[1], {"a": 1}, None, "0", 1.5], ids=repr)
def test_an_index_of_another_kind_stops_no_stream(index: Any) -> None:
    blocks = through(content("write to [EMA", index), content("IL_1]", index))

    assert b"user@example.com" in b"".join(blocks)
