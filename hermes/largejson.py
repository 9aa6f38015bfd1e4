"""Reads a large JSON object piece by piece, and lets the others have a turn on the event loop between two pieces.

A map of the object (`jsonmap`) says where it may be taken apart. What lies between two seams is made a list or an
object of its own by brackets around it, which the parser reads as it would read the whole; long texts are cut between
two characters. Every byte is in one piece and every piece goes through the parser, so what is accepted here is what
would be accepted at once, and means the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from hermes.jsonmap import CLOSING_OF, COMMA, PIECE_COST, QUOTE, Block, Member, Unreadable, blanks_end, survey
from hermes.turns import Turn

MAX_BLOCKS_DEEP = 100
"""Blocks within blocks, each too large to be parsed at once; conversations have four."""

MAX_PIECE_BYTES = 4 * PIECE_COST
"""A piece is longer than this only where a single number is, or the blanks between two values."""

MAX_CHARS = 20_000_000
"""More than any model reads, of a text that is not ASCII: its characters take up to four bytes each. Files in base64
are ASCII and may be longer."""

PLACEHOLDER = b"[]"
"""For a block that is read on its own. Not a number: one that stands before it by mistake would take it in."""

LONGEST_ESCAPE = len(r"\ud83d\ude00")
_CHARACTERS = re.compile(
    rb"(?:[^\\]++|\\(?:[^u]|u(?:(?![dD][89abAB])....|....(?=.{6})(?:\\u[dD][c-fC-F]..)?)))*+", re.DOTALL
)
"""Whole characters of a text; both halves of a surrogate pair are one."""


def read(raw: bytes, piece: int = PIECE_COST) -> tuple[dict[str, Any], list[Member]]:
    """A JSON object, and where its members stand. Of two equal keys the last counts.

    Args:
        piece: what is parsed at once, as a cost (see `jsonmap`); 16 at least.

    Raises:
        Unreadable: it is none, or too much.
    """
    with Turn() as turn:
        map_ = survey(raw, turn.pause, piece)
        end = map_.root.end
        if len(raw) - end > PIECE_COST or blanks_end(raw, end) < len(raw):
            raise _not_json(end)
        body: dict[str, Any] = _Reader(raw, turn.pause, piece).value(map_.root, 1)
        return body, map_.members


class _Reader:
    def __init__(self, raw: bytes, pause: Callable[[], None], piece: int) -> None:
        self._raw = raw
        self._pause = pause
        self._piece = piece

    def value(self, block: Block, depth: int) -> Any:
        """What a block means."""
        mark = self._raw[block.start]
        if mark == QUOTE:
            return self._text(block)
        if depth > MAX_BLOCKS_DEEP:
            raise Unreadable("The body is nested too deeply.")
        if self._raw[block.end - 1] != CLOSING_OF[mark]:
            raise _not_json(block.end)
        whole: Any = {} if mark == ord("{") else []
        at = block.start + 1
        for seam in block.seams:
            if isinstance(seam, int):
                self._add(whole, block, at, seam)
                at = seam
            else:
                self._add(whole, block, at, seam.start, awaits=True)
                place = -1 if isinstance(whole, list) else self._parsed(b"", *seam.key, b"")
                whole[place] = self.value(seam, depth + 1)
                at = seam.end
        self._add(whole, block, at, block.end - 1)
        return whole

    def _add(self, whole: Any, block: Block, start: int, end: int, *, awaits: bool = False) -> None:
        """Adds the items between two seams of a block; `awaits`: and a placeholder for the block that comes then."""
        if end - start > MAX_PIECE_BYTES:
            raise Unreadable("The body has a number of a million digits, or as many blanks in a row.")
        raw = self._raw
        at = blanks_end(raw, start)
        if start > block.start + 1:  # after an item: a comma with something behind it, or nothing at all
            if at >= end and not awaits:
                return
            if raw[at] != COMMA:
                raise _not_json(at)
            start, at = at + 1, blanks_end(raw, at + 1)
            if at >= end and not awaits:
                raise _not_json(at)
        elif at >= end and raw[end] == COMMA:
            raise _not_json(at)
        opening, closing = (b"[", b"]") if isinstance(whole, list) else (b"{", b"}")
        items = self._parsed(opening, start, end, PLACEHOLDER + closing if awaits else closing)
        if isinstance(whole, list):
            whole.extend(items)
        else:
            whole.update(items)
        self._pause()

    def _text(self, block: Block) -> str:
        """A long text; each piece of it ends between two characters."""
        raw, at, last = self._raw, block.start + 1, block.end - 1
        pieces: list[str] = []
        while last - at > self._piece:
            end = _character_end(raw, at, at + max(16, self._piece // 4))
            pieces.append(self._parsed(b'"', at, end, b'"'))
            self._pause()
            at = end
        pieces.append(self._parsed(b'"', at, last, b'"'))
        if sum(map(len, pieces)) > MAX_CHARS and not all(map(str.isascii, pieces)):
            raise Unreadable(f"The body has a text of more than {MAX_CHARS:,} characters.")
        return "".join(pieces)

    def _parsed(self, before: bytes, start: int, end: int, after: bytes) -> Any:
        text = b"".join((before, memoryview(self._raw)[start:end], after))
        try:
            return parsed(text)
        except ValueError:
            raise _not_json(start) from None


def parsed(text: bytes) -> Any:
    """The meaning of JSON, read strictly or, where that fails, as the standard library reads it: many providers accept
    lone surrogates and NaN.

    Raises:
        ValueError: it is none; the text is the strict parser's reason.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        try:
            return json.loads(text.decode("utf-8"))
        except (ValueError, RecursionError):
            raise error from None


def written(value: Any) -> bytes:
    """JSON of whatever `parsed` has given, halves of surrogate pairs and numbers beyond 64 bits included."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def _character_end(raw: bytes, start: int, limit: int) -> int:
    """The last place up to the limit that is between two characters of a text."""
    end = limit
    if raw.find(b"\\", limit - LONGEST_ESCAPE, limit) >= 0:  # only then need every character be looked at
        match = _CHARACTERS.match(raw, start, limit)
        end = match.end() if match else start
    for _ in range(3):  # a character has three bytes at most after its first one
        end -= raw[end] & 0xC0 == 0x80
    if end <= start:
        raise _not_json(start)
    return end


def _not_json(at: int) -> Unreadable:
    return Unreadable(f"The body is not valid JSON at byte {at:,} or soon after it.")
