"""Reads a large JSON object piece by piece, and lets the others have a turn on the event loop between two pieces.

A map of the object (`jsonmap`) says where it may be taken apart. What lies between two seams is made a list or an object
of its own by brackets around it, which the parser reads as it would read the whole; long texts are cut between two
characters. Every byte is in one piece and every piece goes through the parser, so what is accepted here is what would be
accepted at once, and means the same.
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
                self._add(whole, block, at, seam.start, before=seam)
                place = -1 if isinstance(whole, list) else self._parsed(b"", *seam.key, b"")
                whole[place] = self.value(seam, depth + 1)
                at = seam.end
        self._add(whole, block, at, block.end - 1)
        return whole

    def _add(self, whole: Any, block: Block, start: int, end: int, before: Block | None = None) -> None:
        """Adds the items between two places of a block, and a placeholder for the block that comes after them.

        After a seam there is a comma with something behind it, or nothing at all.
        """
