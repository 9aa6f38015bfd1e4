"""What a stream says about itself, and what of it the caller does not get to see."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from hermes.upstream.eventstream import HELD_EVENTS, EventStream, NotAnAnswer
from hermes.upstream.response import Lost


class Wire:
    """A response that gives these pieces, then ends or breaks."""

    def __init__(self, pieces: Sequence[bytes], breaks: str = "") -> None:
        self.pieces = list(pieces)
        self.breaks = breaks
        self.is_released = False

    def read(self, idle_timeout_s: float | None = None) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        if self.breaks:
            raise Lost(self.breaks)
        return b""

    def release(self) -> None:
        self.is_released = True


def chunk(content: str | None = None, finish: str | None = None, **more: object) -> bytes:
    delta = {} if content is None else {"content": content}
    whole = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(whole, separators=(",", ":")).encode() + b"\n\n"


USAGE = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
USAGE_CHUNK = b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n"
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


def stream(pieces: Sequence[bytes], *, wants_usage: bool = False, breaks: str = "", choices: int = 1) -> EventStream:
    wire = Wire(pieces, breaks)
    return EventStream(wire, idle_timeout_s=1.0, wants_usage=wants_usage, choices=choices)  # type: ignore[arg-type]


def all_of(opened: EventStream) -> bytes:
    out = opened.open()
    while block := opened.next_block():
        out += block
    return out


def test_a_stream_goes_through_byte_for_byte_and_its_end_is_seen() -> None:
    pieces = [ROLE, chunk("Hel"), chunk("lo"), chunk(finish="stop"), DONE]

    opened = stream(pieces)

    assert all_of(opened) == b"".join(pieces)
    assert opened.is_whole
    assert opened.is_done


def test_what_comes_before_the_first_content_is_held_with_it() -> None:
    opened = stream([b": wait\n\n", ROLE, chunk("A"), chunk("B")])

    assert opened.open() == b": wait\n\n" + ROLE + chunk("A")
    assert opened.next_block() == chunk("B")


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param({"content": "x"}, id="text"),
        pytest.param({"reasoning_content": "hm"}, id="reasoning"),
        pytest.param({"refusal": "no"}, id="refusal"),
        pytest.param({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}, id="tool"),
        pytest.param({"audio": {"id": "a", "data": "AAAA"}}, id="audio"),
        pytest.param({"not_invented_yet": {"x": "y"}}, id="what is not invented yet"),
    ],
)
def test_any_content_is_content(delta: dict[str, object]) -> None:
    event = b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    opened = stream([ROLE, event], breaks="cut")

    assert opened.open() == ROLE + event


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b": wait\n\n", b'data: {"error":{"message":"x","code":502}}\n\n', DONE], id="an error first"),
        pytest.param([b'event: error\ndata: {"error":{"message":"x",\ndata: "code":529}}\n\n'], id="in two lines"),
        pytest.param([ROLE, DONE], id="an end without content"),
        pytest.param([ROLE], id="a close without content"),
        pytest.param([], id="nothing"),
    ],
)
def test_a_stream_that_begins_with_no_answer_is_none(pieces: list[bytes]) -> None:
    with pytest.raises(NotAnAnswer):
        stream(pieces).open()


def test_no_more_than_so_many_events_are_held() -> None:
    opened = stream([b": wait\n\n"] * 200)

    assert opened.open() == b": wait\n\n" * HELD_EVENTS


@pytest.mark.parametrize("wants_usage", [True, False])
def test_the_usage_chunk_is_for_those_who_asked_for_it(wants_usage: bool) -> None:
    opened = stream([chunk("Hi"), chunk(finish="stop"), USAGE_CHUNK, DONE], wants_usage=wants_usage)

    out = all_of(opened)

    assert (USAGE_CHUNK in out) is wants_usage
    assert opened.usage == USAGE
    assert opened.is_done


def test_the_last_usage_counts_and_a_null_does_not() -> None:
    pieces = [chunk("a", usage=None), chunk("b", usage={**USAGE, "completion_tokens": 1}), chunk("c", usage=USAGE)]

    opened = stream([*pieces, chunk(finish="stop", usage=None), DONE])

    assert all_of(opened) == b"".join(pieces) + chunk(finish="stop", usage=None) + DONE
    assert opened.usage == USAGE


def test_events_with_empty_data_are_left_out() -> None:
    opened = stream([b"data:\n\n", chunk("Hi"), b"data: \n\ndata:\r\n\r\n", chunk(finish="stop"), DONE])

    assert all_of(opened) == chunk("Hi") + chunk(finish="stop") + DONE


@pytest.mark.parametrize("empty", [b"data\n\n", b"id: 1\ndata\n\n", b"data:  \n\n"])
def test_empty_data_is_left_out_in_every_spelling(empty: bytes) -> None:
    opened = stream([chunk("Hi"), empty, chunk(finish="stop"), DONE])

    assert b"data\n" not in all_of(opened)
    assert opened.is_whole


def test_what_clients_can_read_counts_though_it_is_no_strict_json() -> None:
    event = b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"},"x":NaN,"finish_reason":"stop"}]}\n\n'
    opened = stream([event, DONE])

    assert all_of(opened) == event + DONE
    assert opened.is_whole


@pytest.mark.parametrize("choices", [b"5", b'"x"', b"{}", b"null"])
def test_choices_of_another_kind_are_no_content_and_no_fault(choices: bytes) -> None:
    odd = b'data: {"choices":%s}\n\n' % choices
    opened = stream([odd, chunk("Hi"), odd, chunk(finish="stop"), DONE])

    assert all_of(opened) == odd + chunk("Hi") + odd + chunk(finish="stop") + DONE


@pytest.mark.parametrize("together", [True, False])
def test_nothing_follows_an_error_wherever_the_network_cuts(together: bool) -> None:
    error = b'data: {"error":{"code":503,"message":"high demand"}}\n\n'
    opened = stream([chunk("Part"), error + DONE] if together else [chunk("Part"), error, DONE])
    opened.open()

    assert opened.next_block() == error


def test_nothing_follows_done() -> None:
    opened = stream([chunk("Hi"), chunk(finish="stop") + DONE + b"data: {}\n\n" + DONE])

    assert all_of(opened) == chunk("Hi") + chunk(finish="stop") + DONE


def test_after_the_finish_reason_a_lost_connection_is_an_end() -> None:
    opened = stream([chunk("Hi"), chunk(finish="stop")], breaks="reset")

    assert all_of(opened) == chunk("Hi") + chunk(finish="stop")
    assert opened.is_whole
    assert not opened.is_done


def test_of_two_choices_both_must_finish() -> None:
    opened = stream([chunk("Hi"), chunk(finish="stop")], breaks="reset", choices=2)
    opened.open()
    opened.next_block()

    with pytest.raises(Lost):
        opened.next_block()


def of_choice(index: int, content: str = "", finish: str | None = None) -> bytes:
    choice = {"index": index, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("events", "choices"),
    [
        pytest.param([of_choice(0, "a"), of_choice(0, "", "stop"), of_choice(0, "", "stop")], 2, id="one ends twice"),
        pytest.param(
            [of_choice(0, "a"), of_choice(0, "", "stop"), of_choice(0, "more")], 1, id="it goes on after its end"
        ),
    ],
)
def test_a_choice_that_has_not_ended_is_missed(events: list[bytes], choices: int) -> None:
    opened = stream(events, breaks="reset", choices=choices)

    with pytest.raises(Lost):
        all_of(opened)


def test_choices_that_end_in_any_order_are_whole() -> None:
    events = [
        of_choice(1, "a"),
        of_choice(0, "b"),
        of_choice(1, "", "stop"),
        of_choice(0, "c"),
        of_choice(0, "d", "stop"),
    ]

    assert all_of(stream(events, breaks="reset", choices=2)) == b"".join(events)


def test_a_torso_is_not_passed_on() -> None:
    opened = stream([chunk("Hi"), b'data: {"choices":[{"index":0,"del'], breaks="reset")
    opened.open()

    with pytest.raises(Lost):
        opened.next_block()


def test_an_error_within_the_stream_is_handed_on_and_known() -> None:
    error = b'data: {"error":{"code":503,"message":"high demand"}}\n\n'
    opened = stream([chunk("Part"), error])
    opened.open()

    assert opened.next_block() == error
    assert opened.error == {"code": 503, "message": "high demand"}


@pytest.mark.parametrize("per_event", [1, 10])
def test_the_text_of_unread_events_is_estimated_closely(per_event: int) -> None:
    events = [chunk("lorem ipsum dolor ") for _ in range(100)]
    pieces = [b"".join(events[at : at + per_event]) for at in range(0, 100, per_event)]

    opened = stream([*pieces, chunk(finish="stop"), DONE])
    all_of(opened)

    assert abs(opened.content_bytes - 1800) < 50


PADDING = b'"%b"' % (b"x" * 200_000)


def test_a_large_event_says_what_a_small_one_says() -> None:
    """A picture, or whatever else makes an event large."""
    choice = b'{"index":0,"delta":{"images":[%b]},"finish_reason":"stop"}' % PADDING
    begin = b'data: {"choices":[%b],"usage":{"n":1}}\n\n' % choice

    opened = stream([begin], breaks="reset", wants_usage=True)

    assert all_of(opened) == begin
    assert (opened.is_whole, opened.usage) == (True, {"n": 1})
    assert opened.content_bytes == pytest.approx(200_000, rel=0.01)


def test_an_error_too_long_to_be_read_breaks_the_stream() -> None:
    opened = stream([chunk("a"), b'data: {"error":{"message":%b}}\n\n' % PADDING])
    opened.open()

    with pytest.raises(Lost, match="too long"):
        opened.next_block()


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(rb'{"message":"half a pair: \ud800"}', id="half a surrogate pair"),
        pytest.param(b'{"message":"m","n":[NaN,%s]}' % (b"9" * 30), id="numbers that JSON has none of"),
        pytest.param(b"[[1]]", id="a list"),
    ],
)
def test_an_error_at_the_beginning_is_told_whatever_is_in_it(error: bytes) -> None:
    with pytest.raises(NotAnAnswer) as refused:
        stream([b'data: {"error":%s}\n\n' % error]).open()

    assert refused.value.body.startswith(b'{"error"')


def test_an_event_that_is_nested_as_no_answer_is_says_nothing() -> None:
    deep = b'data: {"choices":[{"index":0,"delta":{"content":%s%s}}]}\n\n' % (b"[" * 900, b"]" * 900)

    assert all_of(stream([chunk("a"), deep, chunk(finish="stop"), DONE])) == b"".join(
        [chunk("a"), deep, chunk(finish="stop"), DONE]
    )
