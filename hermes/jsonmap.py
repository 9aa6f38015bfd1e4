"""Where the parts of a JSON object stand in its bytes, found without parsing them.

Only brackets, texts and the commas between them are looked at; a text is left out as a whole, since its closing quote
is found by a search that costs next to nothing. So ten megabytes of conversation are looked over in a few milliseconds.

A map tells two things: the members of the outermost object, for whoever changes some of them, and the seams of what is
too large to be parsed at once, for whoever parses it piece by piece. What is no JSON gets some map or other: a parser
that goes over every piece finds that out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, cast

LARGE_BYTES = 128 * 1024
"""A longer object is parsed in pieces. A shorter one takes 15 ms at the worst, `[],[],` throughout; usually 0.1 ms."""

PIECE_COST = 512 * 1024
"""What a parser does in about two milliseconds, counted in bytes of text."""

VALUE_COST = 100
"""A value costs as much beyond its bytes as so many bytes of text."""

MAX_VALUES = 400_000
"""More than any request has: the largest are embeddings of 300,000 tokens as numbers."""

# The limits are beyond what an object of LARGE_BYTES can have: only larger ones are ever refused.

MAX_MEMBERS = 30_000
"""Of the outermost object."""

MAX_DEPTH = 1100
"""The parser goes 1024 deep."""

REACH_BYTES = 64 * 1024
"""So much is searched at once; then others may have a turn."""

STEPS_BETWEEN_PAUSES = 256

MANY_BACKSLASHES = b"\\" * 1024
MAX_NAME_BYTES = PIECE_COST
MOST_BLANKS_BYTES = 1024 * 1024
MOST_BLANKS_KEPT = 64
"""So many blanks after a value are looked for; they stay when the value is replaced."""

QUOTE, BACKSLASH, COMMA = b'"\\,'
OPENING, CLOSING = b"{[", b"}]"
CLOSING_OF = dict(zip(OPENING, CLOSING, strict=True))
BLANK = b" \t\r\n"

Find = Callable[[bytes, int, int], re.Match[bytes]]


def _always(pattern: bytes) -> Find:
    """A match, from a place up to another, of a pattern that matches everywhere, be it nothing."""
    return cast(Find, re.compile(pattern, re.DOTALL).match)


_COLON = re.compile(rb"[ \t\r\n]*+:")
_blanks = _always(rb"[ \t\r\n]*+")
_gap = _always(rb'[^"{}\[\]]*+')
_to_quote = _always(rb'[^"]*+(?:(?:(?<=[^\\]\\)|(?<=[^\\]\\\\\\))"[^"]*+)*+')
"""Up to a quote that does not come after just one or three backslashes, which are the usual ways to escape one."""

_to_end = _always(rb'[^"\\]*+(?:\\.[^"\\]*+)*+')
"""Up to the quote that ends the text, from anywhere between its characters. Slower, but it cannot be led astray."""


class Unreadable(ValueError):
    """The bytes are no JSON object, or one that is too much; the text says so to the caller."""


class Member(NamedTuple):
    """One member of the outermost object; the numbers are positions in the bytes."""

    key: str
    start: int
    """Of the key's opening quote."""

    value_start: int
    value_end: int


@dataclass(slots=True, eq=False)
class Block:
    """A value that is too large to be parsed at once: an object, a list or a text, from `start` up to `end`."""

    start: int
    key: tuple[int, int]
    """Where the last text before it stands: its key, if it is an object's member."""

    opened: int
    """The cost of everything before it."""

    seamed: int
    """The cost of everything before its last seam."""

    end: int = 0
    seams: list[int | Block] = field(default_factory=list)
    """Where it can be taken apart: commas between its own items, and items that are blocks themselves, in order."""


class Map(NamedTuple):
    """Where the parts of an object stand."""

    root: Block
    members: list[Member]


def survey(raw: bytes, pause: Callable[[], None] = lambda: None, piece: int = PIECE_COST) -> Map:
    """The map of a JSON object.

    Args:
        pause: is called every millisecond or so.
        piece: what may be parsed at once, as a cost.

    Raises:
        Unreadable: it does not begin as an object, or does not end, or it is too much.

    >>> [(m.key, m.value_start, m.value_end) for m in survey(b'{"a": [1, {"b": 2}] , "c":3}').members]
    [('a', 6, 19), ('c', 26, 27)]
    """
    start = blanks_end(raw, 0)
    if raw[start : start + 1] != b"{":
        raise Unreadable("The body must be a JSON object.")
    try:
        return _Surveyor(raw, start, pause, piece).map()
    except IndexError:
        raise Unreadable("The body is not valid JSON: it ends too early.") from None


class _Surveyor:
    """One way through the bytes, from mark to mark."""

    __slots__ = ("_block", "_key", "_open", "_outline", "_pause", "_piece", "_raw", "_reach", "_root", "_values")

    def __init__(self, raw: bytes, start: int, pause: Callable[[], None], piece: int) -> None:
        self._raw = raw
        self._pause = pause
        self._piece = piece
        self._reach = min(piece, REACH_BYTES)
        self._key = (0, 0)
        self._root = self._block = Block(start, self._key, start, start)
        """The innermost block that is open."""

        self._open = [self._root]
        self._outline = _Outline(raw)
        self._values = 0

    def map(self) -> Map:
        # The loop of a conversation of ten megabytes goes round ten thousand times, hence the local names.
        raw, reach, root, piece = self._raw, self._reach, self._root, self._piece
        find, count = raw.find, raw.count
        at, steps = root.start + 1, 0
        while self._open:
            gap = _gap(raw, at, at + reach).end()
            if gap > at and (commas := count(b",", at, gap)):
                self._commas(at, gap, commas)
            steps += 1
            if steps % STEPS_BETWEEN_PAUSES == 0 or gap - at == reach:
                self._breathe()
            mark = raw[gap]
            at = gap + 1
            if mark == QUOTE:
                at = find(b'"', at) + 1
                if at - gap > piece or at == 0 or raw[at - 2] == BACKSLASH or self._block is root:
                    at = self._text(gap, at)
                self._key = (gap, at)
            elif mark in OPENING:
                self._opens(gap)
            elif mark in CLOSING:
                self._closes(at)
            else:  # the gap is longer than what is searched at once
                at = gap
        self._breathe()
        return Map(root, self._outline.members)

    def _breathe(self) -> None:
        self._pause()
        if self._values > MAX_VALUES:
            raise Unreadable(f"The body has more than {MAX_VALUES:,} values.")

    def _commas(self, start: int, end: int, number: int) -> None:
        """Commas between items of the innermost block."""
        self._values += number
        cost = self._cost(end)
        block = self._block
        if cost - block.seamed > self._piece:
            block.seams.append(self._raw.rfind(b",", start, end))
            block.seamed = cost
        if block is self._root:
            self._outline.value_ends(self._raw.find(b",", start, end))

    def _text(self, start: int, end: int) -> int:
        """A text that may be an unusual one; the next quote, behind which `end` is, may end it. Where it does end."""
        if end == 0:
            raise IndexError  # there is no further quote: the bytes end too early
        if self._raw[end - 2] == BACKSLASH:
            end = text_end(self._raw, end - 1, self._reach, self._pause)
        if self._block is self._root:
            self._outline.text(start, end)
        if end - start > self._piece:
            self._long_text(start, end)
        return end

    def _long_text(self, start: int, end: int) -> None:
        block = self._block
        if not _COLON.match(self._raw, end, end + MOST_BLANKS_BYTES):
            block.seamed = self._cost(end)
            block.seams.append(Block(start, self._key, self._cost(start), block.seamed, end))
        elif end - start > MAX_NAME_BYTES:
            raise Unreadable(f"The body has a name of more than {MAX_NAME_BYTES:,} bytes.")

    def _opens(self, start: int) -> None:
        self._values += 1
        cost = self._cost(start)
        self._block = Block(start, self._key, cost, cost)
        self._open.append(self._block)
        if len(self._open) > MAX_DEPTH:
            raise Unreadable(f"The body is nested more than {MAX_DEPTH:,} deep.")

    def _closes(self, end: int) -> None:
        closed = self._open.pop()
        closed.end = end
        if not self._open:
            self._outline.value_ends(end - 1)
            return
        self._block = block = self._open[-1]
        cost = self._cost(end)
        if cost - closed.opened > self._piece:
            block.seams.append(closed)
            block.seamed = cost

    def _cost(self, at: int) -> int:
        return at + self._values * VALUE_COST


class _Outline:
    """The members of the outermost object, as its texts and commas come by."""

    __slots__ = ("_key", "_raw", "members")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._key: tuple[int, int] | None = None
        self.members: list[Member] = []

    def text(self, start: int, end: int) -> None:
        """A text of the object's own: the first one after a comma is a key, any other a value."""
        if self._key is None:
            self._key = (start, end)

    def value_ends(self, end: int) -> None:
        """A comma, or the object's own bracket."""
        if self._key is None:
            return
        start, key_end = self._key
        self._key = None
        raw = self._raw
        value = blanks_end(raw, raw.find(b":", key_end, end) + 1)
        nearly = max(value, end - MOST_BLANKS_KEPT)
        end = nearly + len(raw[nearly:end].rstrip(BLANK))
        if len(self.members) == MAX_MEMBERS:
            raise Unreadable(f"The body has more than {MAX_MEMBERS:,} fields.")
        self.members.append(Member(_spelled(raw[start:key_end]), start, value, end))


def blanks_end(raw: bytes, start: int) -> int:
    """Where blanks that begin here, if any, end; a megabyte of them is looked at."""
    return _blanks(raw, start, start + MOST_BLANKS_BYTES).end()


def text_end(raw: bytes, quote: int, reach: int, pause: Callable[[], None]) -> int:
    """Where a text ends that has a quote after a backslash in it; the first such quote is given."""
    search, at = _to_quote, quote
    while True:
        at = search(raw, at, at + reach).end()
        search = _to_quote
        if raw[at] == QUOTE:
            if not _is_escaped(raw, at):
                return at + 1
            at += 1
            search = _to_end  # many of this kind in a row would take for ever, one by one
        pause()


def _is_escaped(raw: bytes, quote: int) -> bool:
    """Whether an odd number of backslashes stands before this place."""
    while raw.endswith(MANY_BACKSLASHES, 0, quote):
        quote -= len(MANY_BACKSLASHES)
    before = raw[max(0, quote - len(MANY_BACKSLASHES)) : quote]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _spelled(key: bytes) -> str:
    """What a quoted key means; escapes are rare, and only then is a parser asked."""
    if b"\\" in key:
        try:
            return str(json.loads(key))
        except ValueError:  # no JSON, then; whoever parses it will say so
            pass
    return key[1:-1].decode("utf-8", "replace")
