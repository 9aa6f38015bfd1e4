"""HTML as blocks: what a reader of the page sees, under its headings; tables row by row. Nothing of it is ever run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser

from hermes.knowledge.blocks import Block, Outline

UNSEEN: Final = (
    "script", "style", "template", "noscript", "svg", "canvas", "iframe", "object", "head > *:not(title)", "nav",
    "[hidden]", "[aria-hidden=true]",
)  # fmt: skip
INLINE: Final = frozenset(
    (
        *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img", "ins", "kbd"),
        *("label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    )
)
HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
LINE: Final = "\v"
"""Stands for a line break of the page's own, until the others are gone."""

MOST_LEVELS: Final = 64
"""So far up is looked for the element that a text stands in; no page is written deeper."""

MOST_OPEN: Final = 512
"""So many elements may be open at once: the parser looks through them at every tag. Chromium nests no deeper either."""

NEVER_LEFT_OPEN: Final = frozenset(
    (
        *("area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "image", "input"),
        *("keygen", "link", "meta", "param", "source", "track", "wbr"),
        *("html", "head", "body", "p", "li", "dd", "dt", "tr", "td", "th", "thead", "tbody", "tfoot", "caption"),
        *("colgroup", "option", "rp", "rt", "a", "nobr"),
    )
)
"""Elements without a content, and those that the next of their kind ends."""

_TAG = re.compile(
    r"<!--(?:-?>|.*?--!?>|.*)|<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b(?:.*?</\1|.*)"
    r"|<(/?)([a-z][^\s/>]*+)(?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+(?:>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""Comments, what is no markup, tags; what has no end reaches to that of the page, so this is linear."""


def read_html(page: str) -> list[Block]:
    """The blocks of a page.

    Blocks: about 1 s a megabyte, deeply nested or not.
    """
    tree = LexborHTMLParser(shallow(page))
    for selector in UNSEEN:
        for node in tree.css(selector):
            node.decompose()
    return _Reader().read(tree.root)


def shallow(page: str) -> str:
    """The page without the tags that would nest deeper than `MOST_OPEN`; the texts between them stay.

    >>> shallow("<div>" * 600 + "x" + "</div>" * 600) == "<div>" * 512 + "x" + "</div>" * 512
    True
    """
    opened: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    depth = 0

    def kept(tag: re.Match[str]) -> str:
        nonlocal depth
        name = (tag[3] or "").lower()
        if not name or name in NEVER_LEFT_OPEN:
            return tag[0]
        if tag[2]:
            if left_out[name]:
                left_out[name] -= 1
                return ""
            if opened[name]:
                opened[name] -= 1
                depth -= 1
            return tag[0]
        if tag[0].endswith("/>"):  # within SVG it is closed by that
            return tag[0]
        if depth >= MOST_OPEN:
            left_out[name] += 1
            return ""
        opened[name] += 1
        depth += 1
        return tag[0]

    return _TAG.sub(kept, page) if page.count("<") > MOST_OPEN else page


class _Reader:
    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._outline = Outline()
        self._place: Any = None
        """The element that the words collected so far stand in."""

        self._tag = ""
        self._words: list[str] = []

    def read(self, root: Any) -> list[Block]:
        if root is None:
            return []
        for node in root.traverse(include_text=True):
            tag = node.tag
            if tag == "table" and not _within(node, "table"):
                self._flush()
                self._table(node)
            elif tag == "br":
                self._words.append(LINE)
            elif tag == "-text":
                self._text(node)
        self._flush()
        return self._blocks

    def _text(self, node: Any) -> None:
        place, in_table = _place_of(node)
        if in_table:
            return
        here = None if place is None else place.mem_id
        if here != self._place:
            self._flush()
            self._place, self._tag = here, "" if place is None else place.tag
        self._words.append(node.text_content or "")

    def _flush(self) -> None:
        raw = "".join(self._words)
        self._words = []
        if self._tag == "pre":
            if raw.strip():
                self._blocks.append(Block(raw.replace(LINE, "\n").strip("\n"), self._outline.path(), "code"))
            return
        text = "\n".join(line for part in raw.split(LINE) if (line := " ".join(part.split())))
        if not text:
            return
        if level := HEADINGS.get(self._tag):
            self._outline.heading(level, text)
        elif self._tag != "title":
            self._blocks.append(Block(f"- {text}" if self._tag == "li" else text, self._outline.path()))

    def _table(self, table: Any) -> None:
        rows = []
        for row in _rows(table):
            # A table within a cell is a part of that cell's text.
            cells = [" ".join(cell.text(separator=" ").split()) for cell in row.iter() if cell.tag in ("th", "td")]
            if any(cells):
                rows.append(" | ".join(cells))
        if rows:
            self._blocks.append(Block("\n".join(rows[1:]), self._outline.path(), "table", rows[0]))


def _rows(table: Any) -> Iterator[Any]:
    """The rows of a table itself."""
    for child in table.iter():
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in child.iter() if row.tag == "tr")


def _place_of(node: Any) -> tuple[Any, bool]:
    """The block that a text stands in, and whether that is within a table."""
    place, parent = None, node.parent
    for _ in range(MOST_LEVELS):
        if parent is None:
            break
        if parent.tag == "table":
            return place, True
        if place is None and parent.tag not in INLINE:
            place = parent
        parent = parent.parent
    return place, False


def _within(node: Any, tag: str) -> bool:
    parent = node.parent
    for _ in range(MOST_LEVELS):
        if parent is None:
            return False
        if parent.tag == tag:
            return True
        parent = parent.parent
    return False
