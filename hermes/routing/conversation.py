"""What a conversation says, for whoever chooses a tier: texts and turns of OpenAI messages.

Pure functions. Messages come from anyone, so nothing here trusts their shape: what is not understood counts for
nothing. Messages of the roles `system` and `developer` are instructions around a conversation and no part of it.
Of a text longer than a million characters only the beginning and the end are given: whoever chooses reads far less, and
copying all of it would hold the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

INSTRUCTION_ROLES = frozenset({"system", "developer"})
TOOL_ROLES = frozenset({"tool", "function"})
TEXT_PARTS = frozenset({"text", "input_text"})
HALF_CHARS = 500_000
"""So much is given of either end of a text that is longer than two of them."""


def text_of(content: object) -> str:
    """The text of a message's content: itself, or its text parts a line each; never an image's or a file's data.

    >>> text_of([{"type": "text", "text": "what is"}, {"type": "image_url"}, {"type": "text", "text": "this?"}])
    'what is\\nthis?'
    """
    if isinstance(content, str):
        return content if len(content) <= 2 * HALF_CHARS else _joined([content])
    if not isinstance(content, list):
        return ""
    return _joined([text for part in content if (text := _text_of_part(part))])


def new_user_text(messages: object) -> str | None:
    """The text that the user has just written: of all user messages at the conversation's end.

    None where it does not end with one.
    """
    spoken = list(takewhile(_is_users, _turns(messages, backwards=True)))
    if len(spoken) == 1:  # nearly always; and what is long has been cut already
        return _text(spoken[0])
    return _joined([text for turn in reversed(spoken) if (text := _text(turn))]) if spoken else None


def last_user_text(messages: object) -> str | None:
    """The text of the last user message; None where there is none."""
    return _first_of_users(_turns(messages, backwards=True))


def first_user_text(messages: object) -> str | None:
    """The text of the first user message; None where there is none."""
    return _first_of_users(_turns(messages))


def user_turns(messages: object) -> int:
    """How many user messages there are."""
    listed = messages if isinstance(messages, list) else []
    return sum(isinstance(message, dict) and message.get("role") == "user" for message in listed)


def in_tool_loop(messages: object) -> bool:
    """Whether the last message is a tool's result, which the model has yet to read."""
    last = next(_turns(messages, backwards=True), None)
    return last is not None and last["role"] in TOOL_ROLES


def _joined(texts: Sequence[str]) -> str:
    """The texts a line each; where they are too long, their beginning and their end."""
    if sum(map(len, texts)) <= 2 * HALF_CHARS:
        return "\n".join(texts)
    return "\n".join(_within(texts, HALF_CHARS) + _within(texts, HALF_CHARS, from_end=True))


def _within(texts: Sequence[str], chars: int, *, from_end: bool = False) -> list[str]:
    """So many characters of the texts together."""
    taken = []
    for text in reversed(texts) if from_end else texts:
        taken.append(text[-chars:] if from_end else text[:chars])
        chars -= len(text)
        if chars <= 0:
            break
    return taken[::-1] if from_end else taken


def _turns(messages: object, *, backwards: bool = False) -> Iterator[Mapping[str, Any]]:
    """The messages that are understood, one by one, so that the ends of a long conversation are had at once."""
    listed = messages if isinstance(messages, list) else []
    for message in reversed(listed) if backwards else listed:
        if isinstance(message, dict) and isinstance(role := message.get("role"), str) and role not in INSTRUCTION_ROLES:
            yield message


def _first_of_users(turns: Iterator[Mapping[str, Any]]) -> str | None:
    for turn in turns:
        if turn["role"] == "user":
            return _text(turn)
    return None


def _is_users(turn: Mapping[str, Any]) -> bool:
    return bool(turn["role"] == "user")


def _text(turn: Mapping[str, Any]) -> str:
    return text_of(turn.get("content"))


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in TEXT_PARTS:
        text = part.get("text")
        return text if isinstance(text, str) else ""
    return ""
