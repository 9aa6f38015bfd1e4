"""What goes back to a caller: headers that say what Hermes did, and bodies without a secret of ours in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import orjson

from hermes import largejson
from hermes.observe.redact import Redactor
from hermes.turns import Turn
from hermes.types import Decision
from hermes.upstream.answer import Answer
from hermes.upstream.outcome import ProviderError
from hermes.upstream.reading import carried_bytes, read
from hermes.upstream.sse import data_of, split
from hermes.upstream.tolerant import tolerantly

LONG_BYTES: Final = 64 * 1024
"""Of a provider's error. Looking for secrets in what a shorter one says takes 50 ms at the worst."""

WINDOW_BYTES: Final = 16 * 1024
LONGEST_SECRET_BYTES: Final = 4096
_ESCAPED: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|([^u]))", re.DOTALL)

HEADER_SAFE = "".join(chr(code) for code in range(33, 127)) + " "
"""What a header may hold; other letters of a model's name are percent-encoded."""

WHOLE: Final = ("Content-Type", "application/json")
STREAM: Final = ("Content-Type", "text/event-stream")
"""What a body is called here never is the provider's word: a browser would show a page of its making as one of ours."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back: a status, headers, and bytes or a relay."""

    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]


def headers_of(answer: Answer, decision: Decision | None, overhead_ms: float) -> list[tuple[str, str]]:
    """The headers of an answer, with its body's type where it is a stream."""
    headers = [
        *(_of_decision(decision) if decision is not None else []),
        ("X-Hermes-Model", quote(answer.endpoint.model, safe=HEADER_SAFE)),
        ("X-Hermes-Fallback-Level", str(answer.level)),
        ("X-Hermes-Overhead-Ms", f"{overhead_ms:.2f}"),
    ]
    if answer.stream is not None:
        headers += [
            STREAM,
            ("Cache-Control", "no-cache, no-transform"),
            ("X-Accel-Buffering", "no"),
        ]
    return headers


def _of_decision(decision: Decision) -> list[tuple[str, str]]:
    confidence = "" if decision.confidence is None else f";confidence={decision.confidence:.3f}"
    return [("X-Hermes-Tier", decision.tier), ("X-Hermes-Decision", decision.source + confidence)]


def _without_secrets(body: bytes, redactor: Redactor) -> bytes:
    """A provider's JSON as it came, unless a secret is in it: then written anew without.

    JSON can spell a character in several ways, so the secret is looked for in what the JSON says.
    """
    try:
        plain = json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return redactor.clean_bytes(body)
    cleaned = redactor.clean_bytes(plain)
    return body if cleaned == plain else cleaned


def _clean_event(event: bytes, redactor: Redactor) -> bytes:
    data = data_of(event)
    if data is None:
        return redactor.clean_bytes(event)
    cleaned = _without_secrets(data, redactor)
    return event if cleaned == data else b"data: " + cleaned + b"\n\n"


def content_bytes_of(body: bytes) -> int:
    """How much text a whole answer holds, for an estimate where it does not say its usage; embeddings hold none."""
    choices = read(body).get("choices")
    if not isinstance(choices, list):
        return 0
    messages = [choice.get("message") for choice in choices if isinstance(choice, Mapping)]
    return sum(carried_bytes(message) for message in messages)


def refusal_body(answer: Answer, request_id: str, redactor: Redactor) -> bytes:
    """The provider's own error, byte for byte if it is JSON. Of a long one that is none, or that holds what looks like
    a secret, its words in one line.
    """
    is_long = len(answer.body) > LONG_BYTES
    if is_long and _is_object(answer.body) and _is_clean(answer.body, redactor):
        return answer.body
    if is_long or tolerantly(answer.body) is None:
        said = redactor.public_message(_words(answer.body)) if is_long else ""
        message = f"The provider refused the request with status {answer.status} (request {request_id})."
        message = f"{message} It says: {said}" if said else message
        body = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
        return orjson.dumps({"error": body})
    return _without_secrets(answer.body, redactor)


def _is_object(body: bytes) -> bool:
    try:
        largejson.read(body)
    except ValueError:
        return False
    return True


def _is_clean(body: bytes, redactor: Redactor) -> bool:
    """Whether no secret is found in a long body, however JSON spells it; in pieces that overlap."""
    with Turn() as turn:
        for at in range(0, len(body), WINDOW_BYTES - LONGEST_SECRET_BYTES):
            piece = body[at : at + WINDOW_BYTES]
            for spelled in {piece, _ESCAPED.sub(_plain, piece) if b"\\" in piece else piece}:
                if redactor.clean_bytes(spelled) != spelled:
                    return False
                turn.pause()
    return True


def _plain(escaped: re.Match[bytes]) -> bytes:
    digits = escaped[1]
    return chr(int(digits, 16)).encode("utf-8", "surrogatepass") if digits else escaped[2]


def _words(body: bytes) -> str:
    with Turn() as turn:
        return ProviderError.read(body, turn.pause).message


def clean_events(block: bytes, redactor: Redactor) -> bytes:
    """Events of which the last is an error of the provider's; those before it are the model's own words."""
    events = split(block)
    return b"".join([*events[:-1], *[_clean_event(event, redactor) for event in events[-1:]]])
