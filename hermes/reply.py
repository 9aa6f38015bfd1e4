"""What goes back to a caller: headers that say what Hermes did, and bodies without a secret of ours in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import orjson

from hermes.observe.redact import Redactor
from hermes.types import Decision
from hermes.upstream.answer import Answer
from hermes.upstream.reading import carried_bytes, read
from hermes.upstream.sse import data_of, split
from hermes.upstream.tolerant import tolerantly

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
    """The provider's own error, byte for byte if it is JSON."""
    if tolerantly(answer.body) is None:
        message = f"The provider refused the request with status {answer.status} (request {request_id})."
        body = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
        return orjson.dumps({"error": body})
    return _without_secrets(answer.body, redactor)


def clean_events(block: bytes, redactor: Redactor) -> bytes:
    """Events of which the last is an error of the provider's; those before it are the model's own words."""
    events = split(block)
    return b"".join([*events[:-1], *[_clean_event(event, redactor) for event in events[-1:]]])
