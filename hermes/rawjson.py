"""Changes single members of a JSON object in its bytes, and leaves every other byte as the caller wrote it.

A relay must not parse and write anew: spacing, the spelling of numbers, the order of members (which constrained
decoding depends on) and fields that do not exist yet would change on the way. So only the spans of the members that
must change are replaced; the rest is handed on as slices of the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]', re.DOTALL)
ONE_MODEL = re.compile(rb'"model"[ \t\r\n]*+:[ \t\r\n]*+("[^"\\]*+")')
SPACE = b" \t\r\n"
ESCAPED_LETTER = b"\\u006"
"""Each letter of `model` begins so when it is escaped: `"mod\\u0065l"` is the same key."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the outermost object; the numbers are positions in the bytes."""

    key: str
    start: int
    """Of the key's opening quote."""

    value_start: int
    value_end: int


def members(raw: bytes) -> Iterator[Member]:
    """The members of the outermost object, in order.

    Args:
        raw: a JSON object that a parser has accepted; what it is not is not found out here.

    >>> [(m.key, m.value_start, m.value_end) for m in members(b'{"a": [1, {"b": 2}] , "c":3}')]
    [('a', 6, 19), ('c', 26, 27)]
    """
    depth, start, value = 0, 0, 0
    key: bytes | None = None
    for token in TOKEN.finditer(raw):
        mark = token.group()[:1]
        if mark in b"{[":
            depth += 1
        elif depth == 1 and mark == b'"' and key is None:
            key, start = token.group(), token.start()
        elif depth == 1 and mark == b":":
            value = token.end()
        elif mark in b"}],":
            if depth == 1 and key is not None:
                yield Member(_spelled(key), start, *_trimmed(raw, value, token.start()))
                key = None
            depth -= mark != b","


def replaced(raw: bytes, changes: Mapping[str, bytes]) -> list[bytes]:
    """The object with these members set to these bytes of JSON, as pieces to be sent one after the other.

    Every occurrence of a key is changed, since of two equal keys readers take the last. A key that is not there is
    added in front.

    >>> b"".join(replaced(b'{"model": "a", "n":1.50}', {"model": b'"b"', "stream": b"true"}))
    b'{"stream":true,"model": "b", "n":1.50}'
    """
    only_model = _only_model(raw) if "model" in changes else None
    if only_model is not None:
        edits, missing = [(*only_model, changes["model"])], {k: v for k, v in changes.items() if k != "model"}
        if any(b'"%b"' % key.encode() in raw for key in missing):
            only_model = None
    if only_model is None:
        found = [member for member in members(raw) if member.key in changes]
        edits = [(member.value_start, member.value_end, changes[member.key]) for member in found]
        missing = {key: value for key, value in changes.items() if key not in {member.key for member in found}}
    pieces, position = _added(raw, missing)
    for start, end, value in edits:
        pieces += [raw[position:start], value]
        position = end
    pieces.append(raw[position:])
    return pieces


def without(raw: bytes, key: str) -> bytes:
    """The object without any member of this key.

    >>> without(b'{"a":1, "b":2, "c":3}', "b")
    b'{"a":1, "c":3}'
    """
    while True:
        every = list(members(raw))
        index = next((i for i, member in enumerate(every) if member.key == key), None)
        if index is None:
            return raw
        member = every[index]
        if index + 1 < len(every):
            start, end = member.start, every[index + 1].start
        else:  # the last one goes with the comma before it
            start, end = every[index - 1].value_end if index else member.start, member.value_end
        raw = raw[:start] + raw[end:]


def _added(raw: bytes, missing: Mapping[str, bytes]) -> tuple[list[bytes], int]:
    """The object's beginning with new members in it, and the position up to which it is done."""
    if not missing:
        return [], 0
    opening = raw.index(b"{") + 1
    is_empty = raw[opening:].lstrip(SPACE)[:1] == b"}" if len(raw) - opening < 64 else False
    new = b",".join(b'"%b":%b' % (key.encode(), value) for key, value in missing.items())
    return [raw[:opening], new if is_empty else new + b","], opening


def _only_model(raw: bytes) -> tuple[int, int] | None:
    """The span of the model's value where that key can stand nowhere else: the usual case, without a walk."""
    if raw.count(b'"model"') != 1 or ESCAPED_LETTER in raw:
        return None
    found = ONE_MODEL.search(raw)
    if found is None or raw[found.start() - 1 : found.start()] == b"\\":
        return None
    before = raw[: found.start()]
    is_nested = before.count(b"{") != 1 or b"[" in before
    return None if is_nested else found.span(1)


def _spelled(key: bytes) -> str:
    """What a quoted key means; escapes are rare, and only then is a parser asked."""
    return str(json.loads(key)) if b"\\" in key else key[1:-1].decode("utf-8", "replace")


def _trimmed(raw: bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and raw[start] in SPACE:
        start += 1
    while end > start and raw[end - 1] in SPACE:
        end -= 1
    return start, end
