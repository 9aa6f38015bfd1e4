"""What the gateway reads of a provider's JSON: whether it is an answer, its usage, its ends, how much text it carries.

A small answer is parsed. Of a large one only these parts are: see `hermes/skim.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from hermes import largejson
from hermes.jsonmap import LARGE_BYTES, blanks_end
from hermes.skim import Skimmer, Span, Unreadable, is_deeper
from hermes.turns import Turn
from hermes.upstream.tolerant import MOST_NESTED, tolerantly

READ_BYTES: Final = 32 * 1024
"""Of a usage, an error or a short delta: what is longer is no such thing, or is weighed without being read."""

MOST_CHOICES: Final = 1000
"""More than anybody can ask for."""

WINDOW_BYTES: Final = 1024 * 1024
READ: Final = frozenset((b"choices", b"data", b"error", b"usage"))
WEIGHED: Final = frozenset((b"delta", b"message", b"text"))
TOO_LONG: Final = {"message": "an error that is too long to be read"}


@dataclass(frozen=True, slots=True)
class Weighed:
    """Stands for a delta or a message that was not built."""

    content_bytes: int
    """About how much text it carries."""


def read(data: bytes) -> Any:
    """Data as JSON; None where it is none. Of large data only what the gateway needs; pauses."""
    return tolerantly(data) if len(data) <= LARGE_BYTES else glanced(data)


def glanced(data: bytes) -> dict[str, Any] | None:
    """The members `error` and `usage` of a JSON object; `choices` with indexes, finish reasons and weights; of `data`
    whether there is any. None where it is no object.

    >>> glanced(b'{"choices":[{"index":0,"message":{"content":"abc"},"logprobs":[1]}],"usage":{"n":1},"x":[]}')
    {'choices': [{'index': 0, 'message': Weighed(content_bytes=3)}], 'usage': {'n': 1}}
    """
    with Turn() as turn:
        try:
            return _Glance(data, turn).whole()
        except Unreadable:
            return None


def carried_bytes(value: Any, key: str = "") -> int:
    """Bytes of text in a delta, its role and its ids apart; at least one for content that is no text."""
    if isinstance(value, str):
        return 0 if key in ("role", "id", "type", "index") else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(carried_bytes(item, name) for name, item in value.items())
    if isinstance(value, list):
        return sum(max(1, carried_bytes(item)) for item in value)
    return value.content_bytes if isinstance(value, Weighed) else 0


class _Glance:
    def __init__(self, raw: bytes, turn: Turn) -> None:
        self._raw = raw
        self._turn = turn
        self._skimmer = Skimmer(raw, turn.pause)

    def whole(self) -> dict[str, Any]:
        start = blanks_end(self._raw, 0)
        if self._raw[start : start + 1] != b"{":
            raise Unreadable
        spans = {name: span for name, span in self._skimmer.parts(start) if name in READ}  # the last of equals counts
        if blanks_end(self._raw, self._skimmer.end) < len(self._raw):
            raise Unreadable
        return {name.decode(): self._member(name, span) for name, span in spans.items()}

    def _member(self, name: bytes, span: Span) -> Any:
        is_list = self._raw[span.start : span.start + 1] == b"["
        if name == b"choices" and is_list:
            choices = islice(self._skimmer.parts(span.start), MOST_CHOICES)
            return [self._choice(choice) for _, choice in choices]
        if name == b"data" and is_list:
            return [None for _ in islice(self._skimmer.parts(span.start), 1)]
        return self._value(span, TOO_LONG if name == b"error" else None)

    def _choice(self, span: Span) -> dict[str, Any] | None:
        if self._raw[span.start : span.start + 1] != b"{":
            return None
        choice: dict[str, Any] = {}
        for name, value in self._skimmer.parts(span.start):
            if name in WEIGHED:
                choice[name.decode()] = self._weighed(value)
            elif name in (b"index", b"finish_reason"):
                choice[name.decode()] = self._value(value, None)
        return choice

    def _weighed(self, span: Span) -> Any:
        """What a delta weighs; long ones are counted as they are written, but for escaped characters."""
        if span.end - span.start <= READ_BYTES:
            value = self._value(span, None)
            return Weighed(carried_bytes(value)) if isinstance(value, dict | str) else value
        size = span.end - span.start
        for at in range(span.start, span.end, WINDOW_BYTES):
            size -= 3 * self._raw.count(b"\\u", at, min(at + WINDOW_BYTES, span.end))
            self._turn.pause()
        return Weighed(size)

    def _value(self, span: Span, otherwise: Any) -> Any:
        if span.end - span.start > READ_BYTES:
            return otherwise
        raw = self._raw[span.start : span.end]
        if is_deeper(raw, MOST_NESTED):
            raise Unreadable
        try:
            return largejson.parsed(raw)
        except ValueError:
            raise Unreadable from None
        finally:
            self._turn.pause()
