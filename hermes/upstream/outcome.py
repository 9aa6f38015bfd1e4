"""What an upstream's answer means for the cascade. Pure: one table, one test.

429                    the next key, then the next endpoint
503                    again after a while (when nothing is streamed), then the next endpoint
400, 413, 422          the caller's own mistake, handed on; but a prompt that is too long goes to a larger window
401, 402, 403, 404 …   the operator's mistake: the next endpoint, and a loud warning
3xx, other 5xx         the next endpoint
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import orjson

from hermes.jsonmap import QUOTE, blanks_end
from hermes.skim import Skimmer, Span, Unreadable
from hermes.upstream.tolerant import tolerantly

PARSED_BYTES: Final = 32 * 1024
"""Of an error; of a longer one only what it says is read, to this length."""

SAID_CHARS: Final = 8_000
"""Of a message, a code or a type. Providers say first what is wrong, and quote the prompt after that."""

SAID: Final = (b"message", b"code", b"type")
LONGEST_CHARACTER: Final = len(r"\ud83d\ude00")


class Kind(Enum):
    """What is to be done about a failed call."""

    LIMITED = auto()
    """This key is limited; another may not be."""

    BUSY = auto()
    """The endpoint asks to come back soon."""

    NOT_SENT = auto()
    """Nothing has reached the endpoint: it may be tried again."""

    UNWELL = auto()
    """The endpoint failed; the request may have been worked on, so it is not sent there again."""

    TIME_UP = auto()
    """The caller's time was over before the endpoint's."""

    MISCONFIGURED = auto()
    """Key, path or model of this endpoint are wrong: the operator must act."""

    CALLERS = auto()
    """The request itself is wrong; every endpoint would say so."""

    TOO_LONG = auto()
    """The prompt does not fit this model's window."""

    OPTIONS_REFUSED = auto()
    """The endpoint does not know `stream_options`."""


COUNTS_AS_FAILURE = frozenset({Kind.LIMITED, Kind.BUSY, Kind.NOT_SENT, Kind.UNWELL})

CONTEXT_CODES = frozenset({"context_length_exceeded", "model_max_prompt_tokens_exceeded", "context_window_exceeded"})
CONTEXT_WORDS = re.compile(
    r"maximum context length|model'?s context length|context length (?:is|of|exceeded)"
    r"|(?:exceed\w*|longer than|too (?:long|large) for)[^.]{0,60}context (?:length|window|size)"
    r"|context (?:window|size) (?:is )?exceeded|tokens?\b[^.]{0,80}exceeds? the (?:limit|maximum)"
    r"|(?:prompt|input) (?:is )?too long|too many (?:input |prompt )?tokens"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
QUOTA_CODES = frozenset({"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached"})


@dataclass(frozen=True, slots=True)
class ProviderError:
    """What an error body says; empty strings where it says nothing."""

    message: str = ""
    code: str = ""
    type: str = ""

    @classmethod
    def read(cls, body: bytes, pause: Callable[[], None] = lambda: None) -> ProviderError:
        """Reads OpenAI's shape, and the flat one of vLLM and SGLang.

        Args:
            pause: is called every millisecond or so while a long body is read.
        """
        try:
            whole = tolerantly(body) if len(body) <= PARSED_BYTES else _Long(body, pause).whole()
        except Unreadable:
            return cls()
        error = whole.get("error", whole) if isinstance(whole, dict) else None
        if isinstance(error, str):
            return cls(message=_text(error))
        if not isinstance(error, Mapping):
            return cls()
        return cls(_text(error.get("message")), _text(error.get("code")), _text(error.get("type")))

    @property
    def is_quota(self) -> bool:
        """The account is empty: no waiting of minutes will help."""
        return bool({self.code, self.type} & QUOTA_CODES)

    @property
    def is_context(self) -> bool:
        """The prompt is too long for the model; there is no standard code for it, hence the words."""
        return self.code in CONTEXT_CODES or bool(CONTEXT_WORDS.search(self.message))


def kind_of(status: int, error: ProviderError, *, streamed: bool) -> Kind:
    """What a status other than 2xx means."""
    if status == 429:
        return Kind.LIMITED
    if status == 503:
        return Kind.BUSY
    if status in (400, 413, 422):
        return _kind_of_refusal(error, streamed=streamed)
    if 400 <= status < 500 and status not in (408, 409, 425):
        return Kind.MISCONFIGURED
    return Kind.UNWELL


def _kind_of_refusal(error: ProviderError, *, streamed: bool) -> Kind:
    if error.is_context:
        return Kind.TOO_LONG
    if streamed and ("stream_options" in error.message or "include_usage" in error.message):
        return Kind.OPTIONS_REFUSED
    return Kind.CALLERS


class _Long:
    """An error body that is too long to be parsed: what stands where an error has its words."""

    def __init__(self, body: bytes, pause: Callable[[], None]) -> None:
        self._body = body
        self._skimmer = Skimmer(body, pause)

    def whole(self) -> dict[str, Any]:
        """The body's members that matter, in the shape that they have. Raises `Unreadable`."""
        start = blanks_end(self._body, 0)
        if self._body[start : start + 1] != b"{":
            raise Unreadable
        spans = dict(self._skimmer.parts(start))
        said = self._said(spans)
        error = spans.get(b"error")
        if error is not None:
            is_object = self._body[error.start : error.start + 1] == b"{"
            said["error"] = self._said(dict(self._skimmer.parts(error.start))) if is_object else self._value(error)
        return said

    def _said(self, spans: Mapping[bytes, Span]) -> dict[str, Any]:
        return {name.decode(): self._value(spans[name]) for name in SAID if name in spans}

    def _value(self, span: Span) -> Any:
        """A text, to its first characters, or what is short; None for anything else."""
        if span.end - span.start <= SAID_CHARS:
            return tolerantly(self._body[span.start : span.end])
        if self._body[span.start] != QUOTE:
            return None
        for end in range(span.start + SAID_CHARS, span.start + SAID_CHARS - LONGEST_CHARACTER, -1):
            with suppress(orjson.JSONDecodeError):  # cut in the midst of a character
                return orjson.loads(self._body[span.start : end] + b'"')
        return None


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:SAID_CHARS]
