"""Cuts blocks into passages: as much as belongs together, and no more than a model can weigh as one meaning.

A passage never goes over a heading, so it is about one thing, and it knows the headings it stands under. A long
paragraph is cut between sentences, a table between rows (each part keeps the head), code between lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hermes.knowledge.blocks import Block

PASSAGE_CHARS: Final = 1000
"""Some 250 tokens of English; the model reads up to 512."""

MOST_HEADING_CHARS: Final = 200
ENDS: Final = re.compile(r"(?<=[.!?…。！？؟۔])\s+|\n+")
"""Where a sentence ends, in the scripts that have other signs for it too."""


class Passage(NamedTuple):
    """A piece of a document."""

    heading: str
    """`Chapter > Section`, empty where there is none."""

    text: str

    def whole(self) -> str:
        """What its vector is made of."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


def passages(blocks: Iterable[Block], size: int = PASSAGE_CHARS) -> Iterator[Passage]:
    """The passages of a document, in order; none is empty or longer than `size`.

    >>> [p.text for p in passages([Block("One. Two. Three.")], size=9)]
    ['One. Two.', 'Three.']
    """
    held: list[str] = []
    under: tuple[str, ...] = ()
    for block in blocks:
        for piece in _pieces(block, size):
            fits = block.headings == under and sum(map(len, held)) + 2 * len(held) + len(piece) <= size
            if held and not fits:
                yield Passage(_heading(under), "\n\n".join(held))
                held = []
            under = block.headings
            held.append(piece)
    if held:
        yield Passage(_heading(under), "\n\n".join(held))


def _heading(headings: Sequence[str]) -> str:
    return " > ".join(headings)[:MOST_HEADING_CHARS]


def _pieces(block: Block, size: int) -> Iterator[str]:
    """The block as it is, or cut; the head of a table before each part."""
    head = f"{block.head[: size // 2]}\n" if block.head else ""
    room = size - len(head)
    parts = block.text.split("\n") if block.kind != "text" else _sentences(block.text)
    joint = "\n" if block.kind != "text" else " "
    if len(block.text) <= room:
        parts = [block.text]
    for text in _packed(parts, room, joint):
        if (piece := f"{head}{text}".strip()) or head.strip():
            yield piece


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in ENDS.split(text) if part and part.strip()]


def _packed(parts: Iterable[str], room: int, joint: str) -> Iterator[str]:
    """As many parts together as have room; what is too long by itself is cut between words."""
    held: list[str] = []
    length = 0
    for part in (piece for whole in parts for piece in _cut(whole, room)):
        if held and length + len(joint) + len(part) > room:
            yield joint.join(held)
            held, length = [], 0
        length += len(part) + (len(joint) if held else 0)
        held.append(part)
    if held:
        yield joint.join(held)


def _cut(text: str, room: int) -> Iterator[str]:
    start = 0
    while len(text) - start > room:
        blank = text.rfind(" ", start + room // 2, start + room)
        end = blank if blank > 0 else start + room
        yield text[start:end].strip()
        start = end
    yield text[start:].strip() if start else text
