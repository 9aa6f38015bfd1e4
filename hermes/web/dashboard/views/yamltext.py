"""A configuration as YAML in lines that a page can mark up and compare: each line knows what it stands under.

The writer is our own, since a page needs the parts of a line and not a text: what is a key, what is a value, what
stands above. What it writes is YAML that means the same; values that would look like something else are quoted, and
characters that would rearrange a line are written as escapes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

PLAIN: Final = re.compile(r"[A-Za-z_/~.$À-ɏ][\w ./:@~$+-]*")
WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"})
SHORT_ITEMS: Final = 6
SHORT_CHARS: Final = 60
STEP: Final = "  "


@dataclass(frozen=True, slots=True)
class Line:
    """One line."""

    lead: str
    """Blanks, and the dash of a list's item."""

    key: str
    """Empty: the line is an item of a list, or a part of a text."""

    value: str
    path: str
    """The last key that the value stands under."""

    trail: tuple[str, ...] = ()
    """The lines that it stands under, the outermost first."""

    @property
    def text(self) -> str:
        """The whole line."""
        middle = f"{self.key}:" + (" " if self.value else "") if self.key else ""
        return f"{self.lead}{middle}{self.value}"


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of a comparison."""

    kind: Literal["", "add", "del"]
    text: str


def lines_of(document: Mapping[str, Any]) -> tuple[Line, ...]:
    """The lines of a document; values that are not given (null, an empty mapping) are left out."""
    return tuple(_mapping(document, "", ()))


def compared(old: Sequence[Line], new: Sequence[Line]) -> tuple[Compared, ...]:
    """What differs, each line under those that it stands under."""
    before, after = [line.text for line in old], [line.text for line in new]
    found: list[Compared] = []
    last: tuple[str, ...] = ()
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    alike = [i2 - i1 if kind == "equal" else 0 for kind, i1, i2, _, _ in steps]
    for place, (kind, i1, i2, j1, j2) in enumerate(steps):
        if kind == "equal":
            continue
        room = (alike[place - 1] if place else 0, alike[place + 1] if place + 1 < len(steps) else 0)
        if kind == "delete":
            i1, i2 = _slid(before, i1, i2, room)
        if kind == "insert":
            j1, j2 = _slid(after, j1, j2, room)
        for mark, line in [*(("del", line) for line in old[i1:i2]), *(("add", line) for line in new[j1:j2])]:
            shared = _shared(last, line.trail)
            found += [Compared("", text) for text in line.trail[shared:]]
            found.append(Compared(mark, line.text))  # type: ignore[arg-type]  # one of the two words above
            last = (*line.trail, line.text)
    return tuple(found)


def _slid(texts: Sequence[str], start: int, end: int, room: tuple[int, int]) -> tuple[int, int]:
    """Of the places where the same lines could have come or gone, the one that begins the farthest to the left: an
    entry of a list then stands there whole, and not as the end of one and the beginning of the next.

    Args:
        room: how many lines before and behind it are alike on both sides.
    """
    length = end - start
    first = last = start
    while first > start - room[0] and texts[first - 1] == texts[first - 1 + length]:
        first -= 1
    while last < start + room[1] and texts[last] == texts[last + length]:
        last += 1
    best = min(range(first, last + 1), key=lambda at: (_indent(texts[at]), abs(at - start)))
    return best, best + length


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def scalar(value: Any) -> str:
    """A value that is neither a mapping nor a list, on one line.

    >>> scalar("plain text"), scalar("on"), scalar("a: b"), scalar(0.5), scalar(True), scalar(None), scalar("502")
    ('plain text', '"on"', '"a: b"', '0.5', 'true', 'null', '"502"')
    """
    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = (
        PLAIN.fullmatch(value) is not None
        and value == value.strip()
        and value.lower() not in WORDS
        and ": " not in value
        and not value.endswith(":")
        and not value.startswith((".inf", ".nan", ".Inf", ".NaN", ".INF", ".NAN", "..."))
        and not _is_number(value)
    )
    return value if is_plain else _visible(json.dumps(value, ensure_ascii=False))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _visible(text: str) -> str:
    """Characters that have no shape of their own, or turn the direction of writing, as escapes."""
    return "".join(
        char if unicodedata.category(char)[0] != "C" and char not in "\u2028\u2029" else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _mapping(values: Mapping[str, Any], lead: str, trail: tuple[str, ...]) -> Iterator[Line]:
    """
    Args:
        lead: of the first line; the others get blanks where it has a dash.
    """
    rest = lead.replace("-", " ")
    for key, value in values.items():
        if value is None or value == {}:
            continue
        shown = scalar(str(key))
        yield from _entry(lead, shown, value, trail)
        if lead != rest:  # the other keys of a list's item stand under its first one
            first = next(_entry(lead, shown, value, trail)).text
            trail, lead = (*trail, first), rest


def _entry(lead: str, key: str, value: Any, trail: tuple[str, ...]) -> Iterator[Line]:
    deeper = lead.replace("-", " ") + STEP
    if isinstance(value, Mapping):
        head = Line(lead, key, "", key, trail)
        yield head
        yield from _mapping(value, deeper, (*trail, head.text))
    elif isinstance(value, list | tuple):
        yield from _list(lead, key, value, trail)
    elif isinstance(value, str) and "\n" in value and _fits_a_block(value):
        head = Line(lead, key, "|-", key, trail)
        yield head
        for part in value.split("\n"):
            yield Line(deeper if part else "", "", part, key, (*trail, head.text))
    else:
        yield Line(lead, key, scalar(value), key, trail)


def _list(lead: str, key: str, items: Sequence[Any], trail: tuple[str, ...]) -> Iterator[Line]:
    deeper = lead.replace("-", " ") + STEP
    is_flat = not any(isinstance(item, Mapping | list | tuple) for item in items)
    flow = f"[{', '.join(_in_flow(item) for item in items)}]" if is_flat else ""
    if is_flat and len(items) <= SHORT_ITEMS and len(flow) <= SHORT_CHARS:
        yield Line(lead, key, flow, key, trail)
        return
    head = Line(lead, key, "", key, trail)
    yield head
    under = (*trail, head.text)
    for item in items:
        if isinstance(item, Mapping) and item:
            yield from _mapping(item, f"{deeper}- ", under)
        else:
            yield Line(f"{deeper}- ", "", scalar(item) if not isinstance(item, Mapping) else "{}", key, under)


def _in_flow(item: Any) -> str:
    return scalar(item)


def _fits_a_block(text: str) -> bool:
    """Whether a text can stand as it is, line by line: nothing invisible, no blanks at its edges."""
    parts = text.split("\n")
    has_edges = text[0] in " \n\t" or not parts[-1] or any(part != part.rstrip() for part in parts)
    return not has_edges and all(_visible(part) == part and "\t" not in part for part in parts)


def _shared(one: Iterable[str], other: Iterable[str]) -> int:
    number = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        number += 1
    return number
