"""Finds parts of a large JSON text in its bytes, and builds nothing of the rest.

What parses makes an object of every value: sixty megabytes of `[],` would hold up the event loop for a minute and take
two gigabytes. Here a value that nobody asks for is passed over, a piece at a time, and the others have a turn in
between. Of what is passed over, only brackets and texts are looked at; whether it is JSON is not found out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hermes.jsonmap import BACKSLASH, CLOSING, CLOSING_OF, COMMA, OPENING, QUOTE, blanks_end

REACH_BYTES: Final = 32 * 1024
"""So much is passed over without a pause: a tenth of a millisecond, at the worst some milliseconds."""

NEAR_BYTES: Final = 1024
"""Within these most values end."""

PASSED_AT_ONCE: Final = 6
"""Lists and objects so deep within each other are passed over in one go. The probabilities of tokens are five deep."""

MAX_STEPS: Final = 100_000
"""Of those that take Python's own time: a tenth of a second. Large answers have some thousands."""

MAX_DEPTH: Final = 1100
"""The parser goes 1024 deep."""

COLON: Final = ord(":")


class Unreadable(ValueError):
    """It is no JSON, or some that nobody would send."""


class Span(NamedTuple):
    """Where a value stands: its first byte, and what comes after its last."""

    start: int
    end: int


def _values(depth: int) -> bytes:
    """A pattern of whole values and what stands between them, as far as lists and objects are not deeper than this."""
    plain = pattern = rb'[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    for _ in range(depth):
        pattern = rb"%b|[{\[](?:%b)*+[}\]]" % (plain, pattern)
    return b"(?:" + pattern + b")*+"


def _unescaped(text: bytes) -> bytes:
    """A piece of a text, or of more, without its escaped quotes and backslashes."""
    return text.replace(rb"\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _passed(piece: bytes, depth: int) -> tuple[int, int]:
    """How many bytes of a piece may be passed over at once, since they cannot end a value that is so many brackets deep
    where they begin, outside of texts; and how much deeper it is then. None where that takes a closer look.
    """
    bare = _unescaped(piece)
    if bare.count(b'"') % 2:
        if len(bare) < len(piece):
            return 0, 0
        piece = bare = piece[: piece.rfind(b'"')]  # before the text that is cut
    brackets = b"".join(bare.split(b'"')[::2]).translate(_AS_ONE_KIND, _NO_BRACKETS)
    for _ in range(PASSED_AT_ONCE):
        brackets = brackets.replace(b"[]", b"")
    closing = brackets.count(b"]")
    opening = len(brackets) - closing
    return (0, 0) if closing >= depth or depth + opening > MAX_DEPTH else (len(piece), opening - closing)


def is_deeper(raw: bytes, depth: int) -> bool:
    """Whether more than so many lists and objects are within each other; of what is no JSON it tells nothing.

    Blocks for microseconds, and for some milliseconds where 128 KB are nested throughout.

    >>> is_deeper(b'[[{"a": "[[["}]]', 2), is_deeper(b'[[{"a": "[[["}]]', 3)
    (True, False)
    """
    if raw.count(b"[") + raw.count(b"{") <= depth:
        return False
    brackets = b"".join(_unescaped(raw).split(b'"')[::2]).translate(_AS_ONE_KIND, _NO_BRACKETS)
    for _ in range(depth):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True


_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in OPENING + CLOSING)
_AS_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_to_quote = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL).match
_pass_over = re.compile(_values(PASSED_AT_ONCE), re.DOTALL).match
_scalar = re.compile(rb"[^\s,\[\]{}\":]*+").match


class Skimmer:
    """Goes through lists and objects of one text."""

    def __init__(self, raw: bytes, pause: Callable[[], None]) -> None:
        """
        Args:
            pause: is called every millisecond or so.
        """
        self.end = 0
        """Behind the list or object that was gone through last."""

        self._raw = raw
        self._pause = pause
        self._steps = 0

    def parts(self, start: int) -> Iterator[tuple[bytes, Span]]:
        """The items of the list, or the members of the object, that begins here; names as they are written, and empty
        in a list.

        Raises:
            Unreadable: it is not even nearly JSON.
        """
        closing = CLOSING_OF.get(self._mark(start))
        if closing is None:
            raise Unreadable
        has_names = self._raw[start] == ord("{")
        at = blanks_end(self._raw, start + 1)
        while self._mark(at) != closing:
            name = b""
            if has_names:
                name, at = self._name(at)
            value = Span(at, self._value_end(at))
            yield name, value
            at = blanks_end(self._raw, value.end)
            if self._mark(at) == COMMA:
                at = blanks_end(self._raw, at + 1)
                self._mark(at)
            elif self._mark(at) != closing:
                raise Unreadable
            self._step()
        self.end = at + 1

    def _name(self, start: int) -> tuple[bytes, int]:
        """A member's name, and where its value begins."""
        if self._mark(start) != QUOTE:
            raise Unreadable
        end = self._text_end(start)
        at = blanks_end(self._raw, end)
        if self._mark(at) != COLON:
            raise Unreadable
        return self._raw[start + 1 : end - 1], blanks_end(self._raw, at + 1)

    def _value_end(self, start: int) -> int:
        mark = self._mark(start)
        if mark == QUOTE:
            return self._text_end(start)
        if mark in OPENING:
            return self._block_end(start)
        end: int = _scalar(self._raw, start, start + REACH_BYTES).end()  # type: ignore[union-attr]  # it always matches
        if end == start:
            raise Unreadable
        return end

    def _text_end(self, start: int) -> int:
        """Behind the text whose opening quote is here."""
        raw = self._raw
        end = raw.find(b'"', start + 1) + 1
        if not end:
            raise Unreadable
        if raw[end - 2] != BACKSLASH:
            return end
        at = start + 1
        while at < len(raw):
            until = min(at + REACH_BYTES, len(raw))
            piece = raw[at:until]
            until += (len(piece) - len(piece.rstrip(b"\\"))) % 2  # an escaped character belongs to its backslash
            if b'"' in _unescaped(raw[at:until]):
                at = _to_quote(raw, at, until).end()  # type: ignore[union-attr]  # it always matches
                return at + 1
            at = until
            self._step()
        raise Unreadable

    def _block_end(self, start: int) -> int:
        """Behind the list or object that begins here."""
        raw = self._raw
        at, depth, tried_until, reach = start + 1, 1, 0, NEAR_BYTES
        while depth:
            if reach > NEAR_BYTES and at >= tried_until:
                passed, deeper = _passed(raw[at : at + REACH_BYTES], depth)
                if passed:
                    at, depth = at + passed, depth + deeper
                    self._step()
                    continue
                tried_until = at + REACH_BYTES
            at = _pass_over(raw, at, at + reach).end()  # type: ignore[union-attr]  # it always matches
            reach = REACH_BYTES
            mark = self._mark(at)
            if mark == QUOTE:
                at = self._text_end(at)
            elif mark in OPENING:
                depth, at = depth + 1, at + 1
            elif mark in CLOSING:
                depth, at = depth - 1, at + 1
            if depth > MAX_DEPTH:
                raise Unreadable
            self._step()
        return at

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unreadable
        self._pause()

    def _mark(self, at: int) -> int:
        if at >= len(self._raw):
            raise Unreadable
        return self._raw[at]
