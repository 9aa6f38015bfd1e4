"""Server-sent events, as far as a relay needs them: where an event ends, and what its data says.

Lines end with LF, CR or CRLF; an event ends with a blank line; `data` lines of one event are joined with LF; one
leading byte order mark is not part of the stream. Nothing is decoded: U+2028 and friends are ordinary bytes, and a
character cut by a network read stays whole, because only whole events leave the splitter.

Source: WHATWG HTML, section 9.2, "Server-sent events".
"""

from __future__ import annotations

import re

BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 16 * 1024 * 1024
"""An event may carry a picture, but no provider may fill the memory with one line."""

MAX_EVENT_LINES = 20_000
"""Of an event that comes in several reads. Lines are looked at one by one."""

BLANK_LINE = re.compile(rb"[\r\n](?:(?<=\r)\n)?+[\r\n](?:(?<=\r)\n)?+")
"""Two line ends, each of them CRLF, CR or LF; it begins with a set of characters since the search for one is quick."""

LONGEST_END = 4


class EventTooLarge(Exception):
    """An event does not end within `MAX_EVENT_BYTES`, or has more lines than any."""


class EventSplitter:
    """Collects bytes until events are whole."""

    def __init__(self) -> None:
        self._torso = bytearray()
        self._lines = 0
        """About how many the torso has, beyond its first read."""

        self._started = False

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes; gives all events that are whole now, as the bytes that they came in (often none, or
        `data`).

        A CR at the end of the bytes ends its line: the event is passed on, and an LF that follows goes with the next
        one.

        Raises:
            EventTooLarge: more is being held than an event may have.
        """
        if self._started and not self._torso and b"\r" not in data and data.endswith(b"\n\n"):
            return data
        if self._torso:
            self._lines += data.count(b"\n") + data.count(b"\r")
        looked_at = max(0, len(self._torso) - LONGEST_END)
        self._torso += data
        if not self._started and not self._skip_bom():
            return b""
        end = _last_end(self._torso, looked_at)
        if end:
            self._lines = 0
        if len(self._torso) - end > MAX_EVENT_BYTES or self._lines > MAX_EVENT_LINES:
            raise EventTooLarge
        whole = bytes(self._torso[:end])
        del self._torso[:end]
        return whole

    @property
    def torso(self) -> bytes:
        """What has arrived of an event that is not whole."""
        return bytes(self._torso)

    def _skip_bom(self) -> bool:
        """Drops a leading byte order mark; False while it may still be coming."""
        if self._torso == BOM[: len(self._torso)] and len(self._torso) < len(BOM):
            return False
        if self._torso.startswith(BOM):
            del self._torso[: len(BOM)]
        self._started = True
        return True


def split(block: bytes) -> list[bytes]:
    """The events of a block of whole events, each with its blank line.

    >>> split(b": hi\\n\\ndata: 1\\r\\n\\r\\n")
    [b': hi\\n\\n', b'data: 1\\r\\n\\r\\n']
    """
    events, start = [], 0
    if b"\r" not in block:
        while (end := block.find(b"\n\n", start) + 2) > 1:
            events.append(block[start:end])
            start = end
        return [*events, block[start:]] if start < len(block) else events
    for found in BLANK_LINE.finditer(block):
        events.append(block[start : found.end()])
        start = found.end()
    if start < len(block):
        events.append(block[start:])
    return events


def data_of(event: bytes) -> bytes | None:
    """The event's data, or None where it has no data line (a comment, an id).

    >>> data_of(b"data: {\\ndata:  }\\n\\n")
    b'{\\n }'
    """
    every = lines_of(event)
    lines = [line[5:].removeprefix(b" ") for line in every if line.startswith(b"data:")]
    if lines:
        return b"\n".join(lines)
    return b"" if b"data" in every else None


def lines_of(event: bytes) -> list[bytes]:
    """The event's lines, whatever they end with; the empty ones too."""
    if b"\r" in event:
        event = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return event.split(b"\n")


def name_of(event: bytes) -> bytes:
    """The event's name (its last `event` line), empty for the usual nameless one."""
    names = [line[6:].removeprefix(b" ") for line in lines_of(event) if line.startswith(b"event:")]
    return names[-1] if names else b""


def _last_end(buffer: bytearray, looked_at: int) -> int:
    """Where the last whole event ends, searching only what is new; 0 where none does."""
    if b"\r" not in buffer:
        found = buffer.rfind(b"\n\n", looked_at)
        return 0 if found < 0 else found + 2
    end = 0
    for match in BLANK_LINE.finditer(buffer, looked_at):
        end = match.end()
    return end
