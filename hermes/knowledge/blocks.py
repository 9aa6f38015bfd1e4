"""What every kind of document is read into: a list of blocks, each under its headings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "table", "code"]


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a table or a piece of code."""

    text: str
    """Of a table: a row a line."""

    headings: tuple[str, ...] = ()
    """Those it stands under, from the outermost to its own."""

    kind: Kind = "text"
    head: str = ""
    """Of a table: its first line, which every part of it needs."""


class Unreadable(ValueError):
    """A document that cannot be read; the text says why."""


class Outline:
    """The headings under which one is, while a document is read."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def heading(self, level: int, text: str) -> None:
        """A heading begins; those of its level and below are over."""
        self._open = [(depth, name) for depth, name in self._open if depth < level]
        if text:
            self._open.append((level, text))

    def path(self) -> tuple[str, ...]:
        """From the outermost heading to the innermost."""
        return tuple(name for _, name in self._open)
