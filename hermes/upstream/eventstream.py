"""A provider's event stream: whole events in the order they come, and what they say.

Most events are handed on unread: a few searches for bytes tell that nothing in a block matters to the gateway. Only
events that may hold usage, an end, an error or empty data are parsed. What the caller must not see (the usage chunk
that only Hermes asked for, events with empty data, anything after `[DONE]`) is left out here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from hermes import largejson
from hermes.jsonmap import LARGE_BYTES
from hermes.upstream.reading import Weighed, carried_bytes, read
from hermes.upstream.response import Lost, Response, TimedOut
from hermes.upstream.sse import EventSplitter, EventTooLarge, data_of, name_of, split

EMPTY_DATA = re.compile(rb"(?:^|\n)data(?::[ \t]*)?\n")
HELD_EVENTS = 64
HELD_BYTES = 256 * 1024
DONE = b"[DONE]"


class NotAnAnswer(Exception):
    """A 2xx that holds no completion; `body` is the error object where it holds one."""

    def __init__(self, message: str, body: bytes = b"") -> None:
        super().__init__(message)
        self.body = body


class EventStream:
    """Reads one stream to its end; its attributes say what has been seen so far."""

    def __init__(
        self,
        response: Response,
        *,
        idle_timeout_s: float,
        wants_usage: bool,
        choices: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.usage: object = None
        """The last usage object: they are totals so far, so the last one counts."""

        self.error: Mapping[str, Any] | None = None
        self.is_done = False
        """`[DONE]` was seen."""

        self.first_content_at: float | None = None
        self._response = response
        self._idle_timeout_s = idle_timeout_s
        self._wants_usage = wants_usage
        self._clock = clock
        self._splitter = EventSplitter()
        self._choices = choices
        self._finished: set[int] = set()
        """The choices that have given their finish reason, and nothing since."""

        self._content_bytes = 0
        self._plain_bytes = 0
        self._plain_events = 0
        self._envelope_bytes = 0

    @property
    def is_whole(self) -> bool:
        """Every choice has given its finish reason, or `[DONE]` was seen: nothing is missing."""
        return self.is_done or len(self._finished) >= self._choices

    @property
    def content_bytes(self) -> int:
        """About how many bytes of text the stream has carried; events that were not parsed count less an envelope."""
        return self._content_bytes + max(0, self._plain_bytes - self._plain_events * self._envelope_bytes)

    def open(self) -> bytes:
        """Reads up to the first event with content, the commit point; gives all that is to be sent so far.

        Raises:
            NotAnAnswer: an error, or the end, came before any content.
            Lost, TimedOut: as `Response.read`.
        """
        held, events = bytearray(), 0
        while self.first_content_at is None and events < HELD_EVENTS and len(held) < HELD_BYTES:
            block = self._whole_events()
            if not block:
                raise NotAnAnswer("the stream ended before any content")
            for event in split(block):
                events += 1
                if self._keeps(event):
                    held += event
                if self.error is not None and self.first_content_at is None:
                    raise NotAnAnswer("the stream began with an error", largejson.written({"error": self.error}))
            if self.is_done and self.first_content_at is None:
                raise NotAnAnswer("the stream ended before any content")
        return bytes(held)

    def next_block(self) -> bytes:
        """The next events that the caller is to see; empty at the stream's end.

        Raises:
            Lost, TimedOut: the stream broke before it was whole.
        """
        while not self.is_done:
            block = self._whole_events()
            if not block:
                return b""
            if not self._finished and len(block) <= LARGE_BYTES and _is_plain(block):
                self._plain_bytes += len(block)
                self._plain_events += block.count(b"\n\n")
                return block
            kept = b"".join([event for event in split(block) if self._keeps(event)])
            if kept:
                return kept
        return b""

    def close(self) -> None:
        """Gives the connection back if the answer is whole, else closes it; does not wait."""
        self._response.release()

    def _whole_events(self) -> bytes:
        """The next block of whole events; empty at the end, which a lost connection is after the last finish reason."""
        while True:
            try:
                data = self._response.read(self._idle_timeout_s)
                block = self._splitter.feed(data) if data else b""
            except EventTooLarge:
                raise Lost("an event of the stream is too large, or has too many lines") from None
            except (Lost, TimedOut):
                if self.is_whole:
                    return b""
                raise
            if block or not data:
                return block

    def _keeps(self, event: bytes) -> bool:
        """Takes note of one event; whether the caller is to see it."""
        if self.is_done or self.error is not None:
            return False  # nothing follows an end
        data = data_of(event)
        if data is None:
            return True
        text = data.strip()
        if text == DONE:
            self.is_done = True
            return True
        if not text:
            return False
        whole = read(data)  # what cannot be read is handed on, and says nothing
        return self._notes(whole, len(event), name_of(event)) if isinstance(whole, dict) else True

    def _notes(self, whole: dict[str, Any], size: int, name: bytes) -> bool:
        error = whole.get("error")
        if (error or name == b"error") and size > LARGE_BYTES:
            raise Lost("the provider reported an error that is too long to be read")
        if error or name == b"error":
            self.error = error if isinstance(error, dict) else {"message": str(error or "the stream reported an error")}
            return True
        listed = whole.get("choices")
        choices = [choice for choice in listed if isinstance(choice, dict)] if isinstance(listed, list) else []
        for position, choice in enumerate(choices):
            self._notes_choice(choice, position, size)
        usage = whole.get("usage")
        if usage:
            self.usage = usage
            return bool(choices) or self._wants_usage
        return True

    def _notes_choice(self, choice: Mapping[str, Any], position: int, size: int) -> None:
        delta = choice.get("delta")
        carried = carried_bytes(delta if isinstance(delta, dict | Weighed) else choice.get("text"))
        is_end = bool(choice.get("finish_reason"))
        self._content_bytes += carried
        index = choice.get("index")
        if is_end:
            self._finishes(index if isinstance(index, int) else position)
        elif carried and self._finished:
            self._finished.discard(index if isinstance(index, int) else position)
        if (carried or is_end) and self.first_content_at is None:
            self.first_content_at = self._clock()
            self._envelope_bytes = max(0, size - carried)

    def _finishes(self, index: int) -> None:
        if len(self._finished) < self._choices:
            self._finished.add(index)


def _is_plain(block: bytes) -> bool:
    """Whether nothing in these events matters to the gateway. Doubt means no: then they are parsed."""
    return (
        b"\r" not in block
        and DONE not in block
        and b'"error"' not in block
        and b"event:" not in block
        and EMPTY_DATA.search(block) is None
        and block.count(b'"usage"') == block.count(b'"usage":null')
        and block.count(b'"finish_reason"') == block.count(b'"finish_reason":null')
    )
