"""What a fake provider says: bytes with pauses before them, and how the connection ends.

A `Reply` is the whole behaviour of a provider towards one request. The functions below make the usual ones; a test that
needs a strange one writes its pieces by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

End = Literal["keep", "fin", "rst"]
Framing = Literal["length", "chunked", "close"]
Piece = tuple[float, bytes]
"""Seconds to wait, then the bytes to send."""

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
LONGER_THAN_ANY_TEST_S = 60.0
EVENT_STREAM = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Reply:
    """Sends its pieces, then keeps the connection, ends it (`fin`) or breaks it (`rst`)."""

    pieces: Sequence[Piece]
    end: End = "keep"
    endless: bool = False
    """Sends the last piece again and again until the caller goes."""

    key: str | None = None
    """Only for requests with this provider key."""

    model: str | None = None
    """Only for requests for this model."""

    has: str | None = None
    """Only for requests whose JSON has this member, and not empty."""

    times: float = 1
    """How often it is used before the next one that fits; the last one that fits is used for ever."""

    def but(self, **changes: Any) -> Reply:
        """The same with other conditions, end or times."""
        return replace(self, **changes)

    def only(self, **condition: Any) -> Reply:
        """The same for the requests that meet a condition, for ever."""
        return replace(self, times=float("inf"), **condition)


def _json(payload: Any) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def answer(
    status: int = 200,
    payload: Any = b"",
    *,
    headers: Mapping[str, str] | None = None,
    framing: Framing = "length",
    after_s: float = 0.0,
    end: End = "keep",
) -> Reply:
    """An HTTP answer with a whole body: bytes, text, or anything JSON can say."""
    body = payload if isinstance(payload, bytes) else payload.encode() if isinstance(payload, str) else _json(payload)
    return in_pieces([(0.0, body)], status, headers=headers, framing=framing, after_s=after_s, end=end)


def in_pieces(
    body: Iterable[Piece],
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
    framing: Framing = "chunked",
    after_s: float = 0.0,
    end: End = "keep",
    whole: bool = True,
) -> Reply:
    """An HTTP answer whose body comes piece by piece; `whole=False` leaves out the end of a chunked body."""
    parts = list(body)
    lines = {"Content-Type": "application/json", **(headers or {})}
    if framing == "length":
        lines.setdefault("Content-Length", str(sum(len(text) for _, text in parts)))
    elif framing == "chunked":
        lines["Transfer-Encoding"] = "chunked"
        parts = [(wait_s, b"%x\r\n%b\r\n" % (len(text), text)) if text else (wait_s, b"") for wait_s, text in parts]
        parts += [(0.0, b"0\r\n\r\n")] if whole else []
    elif end == "keep":
        end = "fin"
    head = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    return Reply([(after_s, head.encode()), *parts], end)


def chat(text: str = "ok", *, usage: Any = USAGE, **how: Any) -> Reply:
    """A whole chat completion."""
    return answer(200, completion(text, usage), **how)


def completion(text: str, usage: Any = USAGE) -> dict[str, Any]:
    """The body of a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "said-by-provider", "choices": [choice]}
    return body if usage is None else {**body, "usage": usage}


def error(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    """An error as OpenAI would say it."""
    return answer(status, {"error": {"message": message, "type": "said", "param": None, **fields}}, headers=headers)


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """One event of a streamed completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "said-by-provider"}
    return event({**body, "choices": [choice], **more})


def usage_chunk(usage: Any = USAGE) -> bytes:
    """The event that only tells the usage."""
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "choices": [], "usage": usage})


def event(payload: Any) -> bytes:
    """One `data:` event."""
    return b"data: " + _json(payload) + b"\n\n"


DONE = b"data: [DONE]\n\n"
ROLE = chunk({"role": "assistant", "content": ""})
"""The usual first event, which says nothing yet."""


def stream(*texts: str, every_s: float = 0.0, usage: Any = USAGE, **how: Any) -> Reply:
    """A whole, healthy stream."""
    events = [(every_s if number else 0.0, chunk({"content": text})) for number, text in enumerate(texts)]
    tail = chunk({}, "stop") + (usage_chunk(usage) if usage else b"") + DONE
    return in_pieces([(0.0, ROLE), *events, (0.0, tail)], headers=EVENT_STREAM, **how)


def broken_stream(*texts: str, end: End = "rst", torso: bytes = b"", whole: bool = False, wire: bytes = b"") -> Reply:
    """A stream that begins well; then come half an event, bytes that need no framing, and the connection's end."""
    events = [(0.0, ROLE), *((0.0, chunk({"content": text})) for text in texts), (0.05, torso)]
    begun = in_pieces(events, headers=EVENT_STREAM, end=end, whole=whole)
    return begun.but(pieces=[*begun.pieces, (0.0, wire), (0.05, b"")])


def endless_stream(word: str, every_s: float = 0.05) -> Reply:
    """A stream of one word, again and again."""
    again = in_pieces([(every_s, chunk({"content": word}))], headers=EVENT_STREAM, whole=False)
    return again.but(endless=True)


def sse(raw: bytes, *, split: int = 0, pause_s: float = 0.0, **how: Any) -> Reply:
    """These very bytes as an event stream, `split` of them at a time."""
    size = split or max(len(raw), 1)
    parts = [(pause_s, raw[at : at + size]) for at in range(0, len(raw), size)]
    return in_pieces(parts, headers=EVENT_STREAM, **how)


def silence() -> Reply:
    """Takes the request and says nothing."""
    return Reply([(LONGER_THAN_ANY_TEST_S, b"")], "fin")


def then_silence(reply: Reply) -> Reply:
    """Says its part, and then nothing more, without an end."""
    return reply.but(pieces=[*reply.pieces, (LONGER_THAN_ANY_TEST_S, b"")], end="fin")


def drip(raw: bytes, *, at_once: int = 0, every_s: float = 0.1) -> Reply:
    """The first `at_once` bytes, then one byte at a time."""
    return Reply([(0.0, raw[:at_once]), *((every_s, raw[at : at + 1]) for at in range(at_once, len(raw)))])


def over_and_over(first: bytes, again: bytes, every_s: float = 0.0) -> Reply:
    """`first`, and then `again` until the caller goes."""
    return Reply([(0.0, first), (every_s, again)], endless=True)


def raw(*pieces: bytes, end: End = "fin") -> Reply:
    """Bytes that need not be HTTP."""
    return Reply([(0.0, piece) for piece in pieces], end)


def wire(reply: Reply) -> bytes:
    """All bytes of a reply, without its pauses."""
    return b"".join(text for _, text in reply.pieces)
