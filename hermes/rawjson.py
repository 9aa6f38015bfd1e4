"""Changes single members of a JSON object in its bytes, and leaves every other byte as the caller wrote it.

A relay must not parse and write anew: spacing, the spelling of numbers, the order of members (which constrained
decoding depends on) and fields that do not exist yet would change on the way. So only the spans of the members that
must change are replaced; the rest is handed on as slices of the original.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from hermes.jsonmap import LARGE_BYTES, Member, survey
from hermes.turns import Turn

MODEL = b'"model"'
MODEL_AND_VALUE = re.compile(rb'"model"[ \t\r\n]*+:[ \t\r\n]*+("[^"\\]*+")')
BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([{}\[\]])', re.DOTALL)
OPENING_BRACKETS = (b"{", b"[")
MOST_LOOKED_AT_BYTES = 64 * 1024
"""Of items whose ends are looked for: a millisecond or two at the worst."""

ESCAPED_LETTER = b"\\u006"
"""Each letter of `model` begins so when it is escaped: `"mod\\u0065l"` is the same key."""

Edit = tuple[int, int, bytes]
"""From, up to, and what comes in its place."""


def members(raw: bytes) -> list[Member]:
    """The members of the outermost object, in order.

    Args:
        raw: a JSON object that a parser has accepted; what it is not is not found out here.
    """
    if len(raw) <= LARGE_BYTES:
        return survey(raw).members
    with Turn() as turn:
        return survey(raw, turn.pause).members


def behind_items(raw: bytes, number: int) -> int | None:
    """The place in a list of objects behind so many of them; None where they are longer than is looked at.

    >>> raw = b'[{"a": "}]"}, {"b": [{}]}, {}]'
    >>> [raw[:behind_items(raw, number)] for number in (0, 1, 2)]
    [b'[', b'[{"a": "}]"}', b'[{"a": "}]"}, {"b": [{}]}']
    """
    start = raw.index(b"[") + 1
    if not number:
        return start
    depth = 0
    for bracket in BRACKET.finditer(raw, start, start + MOST_LOOKED_AT_BYTES):
        kind = bracket.group(1)
        if kind is None:
            continue
        depth += 1 if kind in OPENING_BRACKETS else -1
        if depth == 0:
            number -= 1
            if not number:
                return bracket.end()
    return None


def replaced(
    raw: bytes,
    changes: Mapping[str, bytes],
    *,
    added: Mapping[str, bytes] | None = None,
    without: Collection[str] = (),
    known: Sequence[Member] | None = None,
) -> list[bytes]:
    """The object with these members set to these bytes of JSON, as pieces to be sent one after the other.

    Every occurrence of a key is changed, since of two equal keys readers take the last. A key that is not there is
    added in front.

    Args:
        added: members that are surely not there yet.
        without: keys whose members are left out.
        known: the object's members, where somebody has looked for them already.

    >>> b"".join(replaced(b'{"model": "a", "n":1.50}', {"model": b'"b"', "stream": b"true"}))
    b'{"stream":true,"model": "b", "n":1.50}'
    >>> b"".join(replaced(b'{"a":1, "b":2, "c":3}', {}, without=["b"]))
    b'{"a":1, "c":3}'
    """
    if known is None and not without and len(raw) <= LARGE_BYTES and [*changes] == ["model"]:
        span = _only_model(raw)
        if span is not None:
            edit = (*span, changes["model"])
            return _spliced(raw, [*_opening(raw, added, is_empty=False), edit] if added else [edit])
    every = members(raw) if known is None else known
    keys = {member.key for member in every}
    missing = {**(added or {}), **{key: value for key, value in changes.items() if key not in keys}}
    opening = _opening(raw, missing, is_empty=keys.issubset(without)) if missing else []
    return _spliced(raw, opening + _edits(every, changes, without))


def _edits(every: Sequence[Member], changes: Mapping[str, bytes], without: Collection[str]) -> list[Edit]:
    """What to do with the members that are there."""
    edits: list[Edit] = []
    kept_end: int | None = None
    for index, member in enumerate(every):
        if member.key not in without:
            kept_end = member.value_end
            if member.key in changes:
                edits.append((member.value_start, member.value_end, changes[member.key]))
        elif index + 1 < len(every):
            edits.append((member.start, every[index + 1].start, b""))
        else:  # the last one, and those left out just before it, go with the comma before them
            start = every[0].start if kept_end is None else kept_end
            edits = [edit for edit in edits if edit[1] <= start]
            edits.append((start, member.value_end, b""))
    return edits


def _opening(raw: bytes, missing: Mapping[str, bytes], *, is_empty: bool) -> list[Edit]:
    """New members, in front of all others."""
    start = raw.index(b"{") + 1
    new = b",".join(b'"%b":%b' % (key.encode(), value) for key, value in missing.items())
    return [(start, start, new if is_empty else new + b",")]


def _spliced(raw: bytes, edits: Sequence[Edit]) -> list[bytes]:
    # A view is sent as bytes are, and spares a copy that takes as long as parsing does.
    source = raw if len(raw) <= LARGE_BYTES else cast(bytes, memoryview(raw))
    pieces, position = [], 0
    for start, end, value in edits:
        pieces += [source[position:start], value]
        position = end
    pieces.append(source[position:])
    return [piece for piece in pieces if piece]


def _only_model(raw: bytes) -> tuple[int, int] | None:
    """The span of the model's value where that key can stand nowhere else: the usual case, without a map."""
    at = raw.find(MODEL)
    if at < 0 or raw.find(MODEL, at + 1) >= 0 or ESCAPED_LETTER in raw:
        return None
    found = MODEL_AND_VALUE.match(raw, at)
    if found is None or raw[at - 1 : at] == b"\\":
        return None
    return found.span(1) if _is_outermost(raw, at, found.end()) else None


def _is_outermost(raw: bytes, start: int, end: int) -> bool:
    """Whether what stands here is in no list or object but the outermost: the brackets on its shorter side tell."""
    is_in_front = start < len(raw) - end
    brackets = BRACKET.findall(raw, 0, start) if is_in_front else BRACKET.findall(raw, end)
    opened = brackets.count(b"{") + brackets.count(b"[")
    closed = brackets.count(b"}") + brackets.count(b"]")
    return bool(opened - closed == (1 if is_in_front else -1))
