"""What a conversation says, whatever shape its messages have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.routing.conversation import (
    HALF_CHARS,
    first_user_text,
    in_tool_loop,
    last_user_text,
    new_user_text,
    text_of,
    user_turns,
)

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


SYSTEM = {"role": "system", "content": "You are helpful."}
DEVELOPER = {"role": "developer", "content": "Be brief."}
TOOL = {"role": "tool", "tool_call_id": "t1", "content": "a cat"}
FUNCTION = {"role": "function", "name": "look", "content": "a cat"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("hello", "hello", id="a string"),
        pytest.param(None, "", id="null, as in a turn with tool calls"),
        pytest.param([], "", id="no parts"),
        pytest.param(
            [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}], "a\nb", id="text and image"
        ),
        pytest.param([IMAGE], "", id="an image alone"),
        pytest.param([{"type": "input_audio", "input_audio": {"data": "UklGR"}}], "", id="audio"),
        pytest.param([{"type": "input_text", "text": "a"}], "a", id="the newer API's text part"),
        pytest.param(["a", "b"], "a\nb", id="bare strings as parts"),
        pytest.param([{"type": "text", "text": 5}, {"type": "text"}, {"type": ["text"]}, 7, None], "", id="junk parts"),
        pytest.param({"type": "text", "text": "a"}, "", id="a part without its list"),
        pytest.param(42, "", id="a number"),
    ],
)
def test_the_text_of_a_message_is_its_text_parts_and_never_data(content: object, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        pytest.param([user("a")], "a", id="one message"),
        pytest.param([SYSTEM, user("a"), assistant("b"), user("c")], "c", id="the last turn"),
        pytest.param([user("a"), assistant("b"), user("c"), user("d")], "c\nd", id="all of a trailing run"),
        pytest.param([user("a"), SYSTEM, user("b"), DEVELOPER], "a\nb", id="instructions do not interrupt"),
        pytest.param([user("a"), user([IMAGE])], "a", id="an image adds no line"),
        pytest.param([user([IMAGE])], "", id="an image alone is a message without text"),
        pytest.param([user("a"), assistant("b")], None, id="the assistant spoke last"),
        pytest.param([user("a"), assistant(None), TOOL], None, id="a tool result is last"),
        pytest.param([SYSTEM], None, id="instructions only"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_the_new_user_text_is_what_the_conversation_ends_with(messages: list[Any], text: str | None) -> None:
    assert new_user_text(messages) == text


def test_first_and_last_user_text_and_turns() -> None:
    messages = [SYSTEM, user("a"), assistant("b"), user("c"), assistant(None), TOOL]

    assert first_user_text(messages) == "a"
    assert last_user_text(messages) == "c"
    assert user_turns(messages) == 2


def test_there_may_be_no_user_message() -> None:
    messages = [SYSTEM, assistant("b")]

    assert first_user_text(messages) is None
    assert last_user_text(messages) is None
    assert user_turns(messages) == 0


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([user("a" * HALF_CHARS + "x" * 9 + "b" * HALF_CHARS)], id="a text"),
        pytest.param([user(["a" * HALF_CHARS, "x" * 9, "b" * HALF_CHARS])], id="parts"),
        pytest.param([user(["a" * (HALF_CHARS - 1), "ax", "xb", "b" * (HALF_CHARS - 1)])], id="cut parts"),
    ],
)
def test_of_a_very_long_text_the_beginning_and_the_end_are_given(messages: list[Any]) -> None:
    for text_of_user in (first_user_text, last_user_text, new_user_text):
        text = text_of_user(messages)

        assert text is not None
        beginning, end = text.replace("\n", "").split("ab")
        assert (set(beginning), set(end)) == ({"a"}, {"b"})
        assert min(len(beginning), len(end)) > HALF_CHARS - 10


def test_many_user_messages_at_the_end_are_bounded_together() -> None:
    text = new_user_text([user("a" * 1000), *[user("x" * 1000)] * 5000, user("b" * 1000)])

    assert text is not None
    assert len(text) < 2 * HALF_CHARS + 2000
    assert (text[:1000], text[-1000:]) == ("a" * 1000, "b" * 1000)


@pytest.mark.parametrize(
    ("messages", "open_loop"),
    [
        pytest.param([user("a"), assistant(None), TOOL], True, id="a tool result is last"),
        pytest.param([user("a"), assistant(None), FUNCTION], True, id="the older function role"),
        pytest.param([user("a"), assistant(None), TOOL, SYSTEM, DEVELOPER], True, id="instructions behind it"),
        pytest.param([user("a"), assistant(None), TOOL, assistant("b")], False, id="the assistant has read it"),
        pytest.param([user("a"), assistant(None), TOOL, user("c")], False, id="the user has written since"),
        pytest.param([user("a")], False, id="no tool"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_a_tool_loop_is_open_while_its_result_is_last(messages: list[Any], open_loop: bool) -> None:
    assert in_tool_loop(messages) is open_loop


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["user", "tool", "system", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JUNK)
def test_junk_is_tolerated(messages: object) -> None:
    for ask in (new_user_text, last_user_text, first_user_text):
        assert ask(messages) is None or isinstance(ask(messages), str)
    assert user_turns(messages) >= 0
    assert in_tool_loop(messages) in (True, False)
