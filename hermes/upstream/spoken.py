"""What an answer says, of a whole body or of a stream's events; of several choices the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from hermes import largejson
from hermes.jsonmap import LARGE_BYTES
from hermes.trials import Spoken
from hermes.turns import Turn
from hermes.upstream.eventstream import DONE
from hermes.upstream.sse import BLANK_LINE, data_of
from hermes.upstream.tolerant import tolerantly

MOST_PARTS: Final = 10_000
"""Of a content that is a list."""

MOST_CALLS: Final = 1000
"""Of a message."""


def spoken(raw: bytes, *, stream: bool) -> Spoken:
    """The text and the tool calls. What cannot be read says nothing.

    On the event loop, where others have their turns: a megabyte may take half a second.

    >>> spoken(b'data: {"choices":[{"delta":{"content":"hi"}}]}\\n\\ndata: [DONE]\\n\\n', stream=True).text
    'hi'
    """
    said = _Said()
    if not stream:
        said.take(_first(_value(raw)).get("message"))
        return said.whole()
    told = _told(raw)
    while large := _take_until_large(told, said):
        said.take(_first(_value(large)).get("delta"))
    return said.whole()


def _told(raw: bytes) -> Iterator[bytes]:
    """The data of each event; empty where it has none."""
    start = 0
    for found in BLANK_LINE.finditer(raw):
        yield data_of(raw[start : found.end()]) or b""
        start = found.end()
    yield data_of(raw[start:]) or b""


def _take_until_large(told: Iterator[bytes], said: _Said) -> bytes:
    """Takes events until one is too large to be read at once; that one, or nothing at the end."""
    with Turn() as turn:
        for data in told:
            if len(data) > LARGE_BYTES:
                return data
            if data and data.strip() != DONE:
                said.take(_first(tolerantly(data)).get("delta"))
            turn.pause()
    return b""


def _value(data: bytes) -> Any:
    if len(data) <= LARGE_BYTES:
        return tolerantly(data)
    try:
        return largejson.read(data)[0]
    except ValueError:
        return None


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
        for position, call in enumerate(calls[:MOST_CALLS] if isinstance(calls, list) else ()):
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
    parts = islice(content, MOST_PARTS) if isinstance(content, list) else ()
    return [part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
