"""What an answer says, of a whole body or of a stream's events; of several choices the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes.trials import Spoken
from hermes.upstream.eventstream import DONE
from hermes.upstream.sse import data_of, split
from hermes.upstream.tolerant import tolerantly


def spoken(raw: bytes, *, stream: bool) -> Spoken:
    """The text and the tool calls. What cannot be read says nothing.

    Blocks: some 10 ms for a megabyte of events.

    >>> spoken(b'data: {"choices":[{"delta":{"content":"hi"}}]}\\n\\ndata: [DONE]\\n\\n', stream=True).text
    'hi'
    """
    said = _Said()
    if not stream:
        said.take(_first(tolerantly(raw)).get("message"))
        return said.whole()
    for event in split(raw):
        data = data_of(event)
        if data and data.strip() != DONE:
            said.take(_first(tolerantly(data)).get("delta"))
    return said.whole()


class _Said:
    """Joins the pieces of one choice."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._tools: dict[int, tuple[list[str], list[str]]] = {}

    def take(self, piece: Any) -> None:
        if not isinstance(piece, Mapping):
            return
        self._text += _texts(piece.get("content"))
        self._text += _texts(piece.get("refusal"))
        calls = piece.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, Mapping):
                index = call.get("index")
                self._call(index if isinstance(index, int) else position, call.get("function"))
        self._call(0, piece.get("function_call"))

    def _call(self, index: int, function: Any) -> None:
        if isinstance(function, Mapping):
            name, arguments = self._tools.setdefault(index, ([], []))
            name += _texts(function.get("name"))
            arguments += _texts(function.get("arguments"))

    def whole(self) -> Spoken:
        tools = tuple(("".join(name), "".join(arguments)) for _, (name, arguments) in sorted(self._tools.items()))
        return Spoken("".join(self._text), tools)


def _first(whole: Any) -> Mapping[str, Any]:
    """The first choice; empty where there is none."""
    choices = whole.get("choices") if isinstance(whole, Mapping) else None
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping) and choice.get("index", 0) == 0:
            return choice
    return {}


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else ()
    return [part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
