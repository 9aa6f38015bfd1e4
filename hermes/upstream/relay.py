"""The body of a streamed answer: the provider's events, handed on as they come, and a clean end whatever happens.

A class and not a generator: a server may close a body that it never began to read, and `close()` on a generator that
was not started runs no clean-up. Whatever ends the stream, the request is settled once, and before the client has the
last bytes, so that an answer that was received whole has its usage row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import orjson

from hermes.errors import ClientGone
from hermes.types import Status
from hermes.upstream.answer import Answer
from hermes.upstream.eventstream import EventStream
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.response import Lost, TimedOut
from hermes.upstream.restoring import StreamRestorer

INTERRUPTED = b": hermes stream interrupted\n"
DONE_EVENT = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a stream has ended, and what it has carried."""

    status: Status
    usage: object
    """The provider's usage object, or None."""

    content_bytes: int
    first_content_at: float | None
    """On the monotonic clock."""

    error: str | None = None


class Relay:
    """Iterates over the bytes for the client."""

    def __init__(
        self,
        answer: Answer,
        stream: EventStream,
        *,
        on_break: str,
        settle: Callable[[Ended], None],
        held: ExitStack,
        lifeline: Lifeline,
        clean: Callable[[bytes], bytes],
        request_id: str,
        restorer: StreamRestorer | None = None,
        saw: Callable[[bytes], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            saw: is shown each block that the provider has sent, before the stream is settled.
        """
        self._answer = answer
        self._stream = stream
        self._on_break = on_break
        self._settle = settle
        self._held = held
        self._lifeline = lifeline
        self._clean = clean
        self._request_id = request_id
        self._restorer = restorer
        self._saw = saw
        self._clock = clock
        self._first: bytes | None = answer.held
        self._has_ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self._lifeline.has_taken()
        if self._has_ended:
            self.close()
            raise StopIteration
        try:
            block = self._next_block()
        except ClientGone:
            self._end("client_disconnected")
            raise StopIteration from None
        except (Lost, TimedOut) as error:
            return self._broken(str(error))
        except BaseException:
            self._end("interrupted", "the relay failed")
            raise
        if self._saw is not None:
            self._saw(block)
        block = self._watched(block)
        self._lifeline.hands_over(self._clock())
        return block

    def close(self) -> None:
        """Ends the exchange; safe to call twice: a server closes what the end of the iteration already closed."""
        if not self._has_ended:  # the server could not write: nobody reads any more
            self._end("client_disconnected")
        self._held.close()

    def _next_block(self) -> bytes:
        if self._first is not None:
            block, self._first = self._first, None
            return block
        return self._stream.next_block()

    def _watched(self, block: bytes) -> bytes:
        """Hands the block on; settles first if it is the last."""
        stream = self._stream
        if stream.error is not None:
            self._end("interrupted", "the provider reported an error within its stream")
            return self._clean(self._restored(block))
        if stream.is_done or not block:
            if not stream.is_whole:
                return self._broken("the stream ended without a finish reason")
            self._end("ok")
        if block := self._restored(block):
            return block
        self.close()
        raise StopIteration

    def _restored(self, block: bytes) -> bytes:
        """The block with its values for placeholders; at the stream's end what was held back of them."""
        if self._restorer is None:
            return block
        return self._restorer.block(block) if block else self._restorer.flush()

    def _broken(self, error: str) -> bytes:
        """The clean cut: a comment, and the end that the operator chose. Nothing is invented on the model's behalf."""
        self._end("interrupted", error)
        held = self._restorer.flush() if self._restorer is not None else b""
        if self._on_break == "done":
            return held + INTERRUPTED + DONE_EVENT
        message = f"The provider's stream broke off (request {self._request_id})."
        body = {"message": message, "type": "upstream_error", "param": None, "code": "stream_interrupted"}
        return held + INTERRUPTED + b"data: " + orjson.dumps({"error": body}) + b"\n\n"

    def _end(self, status: Status, error: str | None = None) -> None:
        self._has_ended = True
        if status == "ok":
            self._answer.permit.succeeded()
        elif status == "interrupted":
            self._answer.permit.failed()
        stream = self._stream
        self._settle(Ended(status, stream.usage, stream.content_bytes, stream.first_content_at, error))
        self._held.close()
