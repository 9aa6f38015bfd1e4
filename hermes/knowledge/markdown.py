"""Markdown and plain text as blocks. No more of Markdown is understood than cutting needs: headings, tables, code.

Everything else stays as it is written, which is what a model reads best.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hermes.knowledge.blocks import Block, Outline

HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
SEPARATOR: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
MOST_LINE_CHARS: Final = 2000
"""A longer line is no heading, no fence and no table's separator."""


def read_text(text: str) -> list[Block]:
    """Plain text: its paragraphs."""
    return [Block(part) for part in re.split(r"\n[ \t]*\n", text) if part.strip()]


def read_markdown(text: str) -> list[Block]:
    """Markdown: paragraphs, tables and code under their headings."""
    return list(_Reader(text.split("\n")).blocks())


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._outline = Outline()
        self._paragraph: list[str] = []

    def blocks(self) -> Iterator[Block]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if len(line) > MOST_LINE_CHARS:
                self._paragraph.append(line)
                self._at += 1
                continue
            if fence := FENCE.match(line):
                yield from self._flushed()
                yield from self._code(fence.group(1))
            elif heading := HEADING.match(line):
                yield from self._flushed()
                self._outline.heading(len(heading.group(1)), heading.group(2))
                self._at += 1
            elif self._paragraph and len(self._paragraph) == 1 and (under := UNDERLINE.match(line)):
                self._outline.heading(1 if under.group(1)[0] == "=" else 2, self._paragraph.pop().strip())
                self._at += 1
            elif self._begins_table(line):
                yield from self._flushed()
                yield self._table()
            elif not line.strip():
                yield from self._flushed()
                self._at += 1
            else:
                self._paragraph.append(line)
                self._at += 1
        yield from self._flushed()

    def _flushed(self) -> Iterator[Block]:
        text = "\n".join(self._paragraph).strip("\n")
        self._paragraph = []
        if text.strip():
            yield Block(text, self._outline.path())

    def _begins_table(self, line: str) -> bool:
        after = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
        return "|" in line and "-" in after and len(after) <= MOST_LINE_CHARS and bool(SEPARATOR.match(after))

    def _table(self) -> Block:
        start = self._at
        self._at += 2
        while self._at < len(self._lines) and "|" in self._lines[self._at]:
            self._at += 1
        rows = self._lines[start : self._at]
        return Block("\n".join(rows[2:]), self._outline.path(), "table", "\n".join(rows[:2]))

    def _code(self, fence: str) -> Iterator[Block]:
        start = self._at
        self._at += 1
        while self._at < len(self._lines):
            self._at += 1
            if self._lines[self._at - 1].strip().startswith(fence):
                break
        text = "\n".join(self._lines[start : self._at])
        yield Block(text, self._outline.path(), "code")
