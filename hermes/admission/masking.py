"""Finds personal data in every text that a request carries, and puts typed placeholders in its place.

The request goes on as bytes, so it is looked through as bytes: every quoted text in it, names of nested fields
included, whatever the shape around it, is looked at, and only those in which something is masked are written anew. A
text that is itself JSON (the arguments of a tool call) is looked through in the same way, so that it stays JSON.
Pictures, recordings and files in base64 are passed over: nobody can read a name in them here. Only what is base64 and
nothing else is taken for such, and an account or a card's number that somebody put in the middle is found all the same.

One value has one placeholder in a request. A placeholder's number is never one that stands in the request already, so
what the caller wrote is never taken for ours in the answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final, cast

import orjson

from hermes import largejson, rawjson
from hermes.admission.personal_data import Found, find, find_planted
from hermes.admission.seen import Seen
from hermes.chatrequest import ChatRequest, read_object
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import InvalidRequest
from hermes.jsonmap import BACKSLASH, REACH_BYTES, Member, text_end
from hermes.turns import Turn

Request = ChatRequest | EmbeddingRequest
Pause = Callable[[], None]

SLICE_BYTES: Final = 2048
"""So much is looked through at once, a few milliseconds where it is full of numbers."""

SOLID_BYTES: Final = 4096
"""The same of base64."""

LOOK_BACK_BYTES: Final = 1024
AROUND_BYTES: Final = 384
"""Before and behind a cut; longer than what is found ever is."""

BEFORE_BYTES: Final = 128
"""Of what stands before a piece: words that say what its first number is."""

QUIET_BYTES: Final = 24
SHORTEST_TEXT: Final = len("a@b.de")
MOST_NESTED: Final = 4
LONGEST_NESTED: Final = 256 * 1024
SHORTEST_NUMBER: Final = 8
LONGEST_LABEL: Final = 48
LONGEST_PLANTED: Final = 40
"""Longer than what is found in base64."""

LONGEST_PLACEHOLDER: Final = 40
LOOKED_AT_BYTES: Final = 1024 * 1024
LONGEST_ESCAPE: Final = len(r"\ud83d\ude00")
NEVER_TEXT: Final = frozenset({"model"})
"""Members of the outermost object that are not sent as the caller wrote them."""

_MAY_HOLD = re.compile(rb"[@0-9\\\x80-\xff]")
_QUIET = re.compile(rb"[^@0-9\\]{%d} (?=[^@0-9\\]{%d})" % (QUIET_BYTES, QUIET_BYTES))
_APART = re.compile(rb"[,;] |@[A-Za-z.-]++ ")
"""No number goes on behind it, and no address."""

_BASE64 = re.compile(rb"[A-Za-z0-9+/=_-]{512,}+")
_DATA_URL = re.compile(rb"data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]{1,30}=[\w.+-]{1,30}){0,3};base64,(?=[A-Za-z0-9+/_-]{256})")
_ENDS_WITH_LETTERS = re.compile(rb"[A-Z0-9]*+\Z")
_CHARACTERS = re.compile(
    rb"(?:[^\\]++|\\(?:[^u]|u(?:(?![dD][89abAB])....|....(?=.{6})(?:\\u[dD][c-fC-F]..)?)))*+", re.DOTALL
)
"""Whole characters of a text; both halves of a surrogate pair are one."""

_CHARACTER = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[\x00-\x7f]|[\xc0-\xff][\x80-\xbf]*", re.DOTALL
)
"""One character of a text."""

_TAKEN = re.compile(rb"\[(?:EMAIL|PHONE|IBAN|CREDIT\\{0,4}_CARD|NATIONAL\\{0,4}_ID)\\{0,4}_[1-9][0-9]{0,8}\\{0,4}\]")
"""As they are restored: with their marks escaped too."""

_BRACKETED = re.compile(rb"(?: |\\[nrt])*+[\[{].*[\]}](?: |\\[nrt])*\Z", re.DOTALL)
_NUMBER = re.compile(rb"-?[0-9]{%d,}(?![0-9.eE])" % SHORTEST_NUMBER)


@dataclass(frozen=True, slots=True)
class Masked:
    """A request as it may go on."""

    request: Request
    hint: str | None
    """Its context hint."""

    found: Mapping[str, int]
    """How often each kind is in it; a value that stands in it twice counts twice."""

    placeholders: Mapping[str, str]
    """What each placeholder stands for. Kept for as long as the request lives, and nowhere else."""


def mask(
    request: Request,
    hint: str | None,
    kinds: frozenset[str],
    masks: frozenset[str],
    check: Callable[[], None] = lambda: None,
) -> Masked:
    """Looks the request through for these kinds, and masks some of them.

    Args:
        check: is called whenever others have had their turns; what it raises ends the search, and is raised here.

    Raises:
        InvalidRequest: the name of a field would have to be masked.

    Blocks: 1 µs a text, 2 ms a kilobyte full of numbers; others have their turns in between.
    """
    masker = _Masker(kinds, masks, request.raw)
    if hint:
        hint = masker.text(hint)
    # Who has the turn must not ask for it again, as those do who read what is large.
    members = rawjson.members(request.raw) if request.members is None else request.members
    with Turn(check=check) as turn:
        masker.pause = turn.pause
        changed = _changed(request, members, masker)
    going_on = _with_changes(request, members, changed) if changed else request
    return Masked(going_on, hint, dict(masker.found), {name: value for (_, value), name in masker.placeholders.items()})


def _changed(request: Request, members: Sequence[Member], masker: _Masker) -> dict[str, bytes]:
    """The members in which something is masked, by their names."""
    new: dict[str, bytes] = {}
    for key, start, end in ((member.key, member.value_start, member.value_end) for member in members):
        if key in NEVER_TEXT or key in request.without or key in request.changes:
            continue
        masker.name(key)
        value = request.raw[start:end]
        # Of two members of one name the last counts; but both are sent, so what is changed in one is changed in both.
        if (masked := masker.json(value)) is not value or key in new:
            new[key] = masked
    for key, value in request.changes.items():
        if key not in NEVER_TEXT:
            masked = masker.json(value, _own_bytes(request) if key == "messages" else 0)
            if masked is not value:
                new[key] = masked
    return new


def _with_changes(request: Request, members: Sequence[Member], new: Mapping[str, bytes]) -> Request:
    read, _ = read_object(b"{" + b",".join(b"%b:%b" % (orjson.dumps(key), value) for key, value in new.items()) + b"}")
    changed = replace(request, body={**request.body, **read}, members=members, changes={**request.changes, **new})
    if isinstance(changed, ChatRequest):
        return replace(changed, messages=cast("list[Any]", changed.body["messages"]))
    return changed.of_body()


def _own_bytes(request: Request) -> int:
    """How many bytes at the beginning of the changed messages are the operator's own, which no rule is for."""
    if not isinstance(request, ChatRequest) or not request.own_messages:
        return 0
    own = request.messages[: request.own_messages]
    return len(b"[") + sum(len(orjson.dumps(message)) + len(b",") for message in own)


class _Masker:
    """One request's way through; counts, and gives out placeholders."""

    def __init__(self, kinds: frozenset[str], masks: frozenset[str], raw: bytes) -> None:
        self.found: Counter[str] = Counter()
        self.placeholders: dict[tuple[str, str], str] = {}
        self.pause: Pause = lambda: None
        self._kinds = kinds
        self._masks = masks
        self._raw = raw
        self._seen = Seen()
        self._taken: set[bytes] | None = None
        self._numbers: Counter[str] = Counter()

    def json(self, value: bytes, start: int = 0, depth: int = 1) -> bytes:
        """A value's bytes, masked; the very same object where nothing is."""
        pieces: list[bytes] = []
        copied = 0
        before = (0, 0)
        for at, end in _texts(value, start, self.pause):
            named, before = before, (at, end)
            if end - at - 2 < SHORTEST_TEXT:
                continue
            inner = value[at + 1 : end - 1]
            masked = self._quoted(inner, depth, _label(value, named, at))
            if masked is not inner:
                pieces += [value[copied : at + 1], masked]
                copied = end - 1
            self.pause()
        if not pieces:
            return value
        pieces.append(value[copied:])
        return b"".join(pieces)

    def name(self, name: str) -> None:
        """Counts what is in the name of a member of the outermost object, which cannot be written anew.

        Raises:
            InvalidRequest: something of it would have to be masked.
        """
        if len(name) >= SHORTEST_TEXT and self.text(name) is not name:
            raise InvalidRequest("The name of a field holds personal data, which must not be sent; put it in a value.")

    def text(self, text: str, label: str = "") -> str:
        """A text, masked; the very same object where nothing is. A label says what it is, as a word before it would."""
        hits = find(label + text, self._kinds, self._seen)
        if label:
            own = len(label)
            hits = [Found(kind, max(at, own) - own, end - own) for kind, at, end in hits if end > own]
        return self._replaced(text, hits) if hits else text

    def _quoted(self, inner: bytes, depth: int, label: str) -> bytes:
        """What stands between two quotes."""
        if len(inner) <= SLICE_BYTES and _MAY_HOLD.search(inner) is None:
            return inner
        if depth < MOST_NESTED and len(inner) <= LONGEST_NESTED and _BRACKETED.match(inner):
            nested = self._nested(inner, depth)
            if nested is not None:
                return nested
        if len(inner) <= SLICE_BYTES:
            return self._slice(inner, label)
        pieces, is_changed, at = [], False, 0
        for piece, is_solid in self._slices(inner):
            if is_solid:
                pieces.append(self._solid(piece))
            elif _MAY_HOLD.search(piece) is None:
                pieces.append(piece)
            else:
                pieces.append(self._slice(piece, _text_before(inner, at)))
            is_changed = is_changed or pieces[-1] is not piece
            at += len(piece)
        return b"".join(pieces) if is_changed else inner

    def _slices(self, inner: bytes) -> Iterator[tuple[bytes, bool]]:
        """A long text in pieces that hold their numbers and addresses whole. With each goes whether it is base64."""
        at = 0
        if url := _DATA_URL.match(inner):
            at = url.end()
            yield inner[:at], True
        while len(inner) - at > SLICE_BYTES:
            solid = _BASE64.match(inner, at, at + SOLID_BYTES)
            end = _solid_end(inner, at, solid.end()) if solid else self._cut(inner, at)
            yield inner[at:end], solid is not None
            at = end
            self.pause()
        rest = inner[at:]
        yield rest, _BASE64.fullmatch(rest) is not None

    def _solid(self, piece: bytes) -> bytes:
        """What looks like base64, which has no words: numbers are found in it by their digits alone."""
        text = piece.decode()
        hits = find_planted(text, self._kinds)
        return largejson.written(self._replaced(text, hits))[1:-1] if hits else piece

    def _cut(self, inner: bytes, start: int) -> int:
        """Where there are none around, else between two."""
        limit = start + SLICE_BYTES
        for gap in (_QUIET, _APART):
            last_gap = None
            for last_gap in gap.finditer(inner, limit - LOOK_BACK_BYTES, limit):  # noqa: B007  (the last one)
                pass
            if last_gap is not None:
                return last_gap.end()
        blank = inner.rfind(b" ", start + SLICE_BYTES // 2, limit)
        cut = blank + 1 if blank >= 0 else _between_characters(inner, start, limit)
        first = _between_characters(inner, start, cut - AROUND_BYTES)
        last = _between_characters(inner, cut, min(len(inner), cut + AROUND_BYTES))
        place = len(_as_text(inner[first:cut]))
        hits = find(_as_text(inner[first:last]), self._kinds, self._seen)
        hit = next((hit for hit in hits if hit.start < place < hit.end), None)
        if hit is None or hit.start == 0:
            return cut
        return [character.end() for character in islice(_CHARACTER.finditer(inner, first), hit.start)][-1]

    def _slice(self, inner: bytes, label: str = "") -> bytes:
        text = _as_text(inner)
        masked = self.text(text, label)
        return inner if masked is text else largejson.written(masked)[1:-1]

    def _nested(self, inner: bytes, depth: int) -> bytes | None:
        """A text that is JSON itself; None where it is none."""
        try:
            text = largejson.parsed(b'"%b"' % inner)
            if not isinstance(largejson.parsed(raw := text.encode()), dict | list):
                return None
        except ValueError:
            return None
        masked = self._numbers_in(self.json(raw, depth=depth + 1))
        return inner if masked is raw else largejson.written(masked.decode())[1:-1]

    def _numbers_in(self, raw: bytes) -> bytes:
        """Long numbers of a text that is JSON: masked they become texts."""
        pieces: list[bytes] = []
        copied = 0
        gap = 0
        named = (0, 0)
        for at, end in chain(_texts(raw, 0, self.pause), [(len(raw), len(raw))]):
            for number in _NUMBER.finditer(raw, gap, at):
                digits = number[0].decode()
                if (masked := self.text(digits, _label(raw, named, number.start()))) is not digits:
                    pieces += [raw[copied : number.start()], orjson.dumps(masked)]
                    copied = number.end()
                self.pause()
            gap, named = end, (at, end)
            self.pause()
        return b"".join([*pieces, raw[copied:]]) if pieces else raw

    def _replaced(self, text: str, hits: list[Found]) -> str:
        pieces: list[str] = []
        copied = 0
        for hit in hits:
            self.found[hit.kind] += 1
            if hit.kind in self._masks:
                pieces += [text[copied : hit.start], self._placeholder(hit.kind, text[hit.start : hit.end])]
                copied = hit.end
        return "".join([*pieces, text[copied:]]) if pieces else text

    def _placeholder(self, kind: str, value: str) -> str:
        known = self.placeholders.get((kind, value))
        if known is None:
            known = self.placeholders[kind, value] = self._next(kind.upper())
        return known

    def _next(self, name: str) -> str:
        if self._taken is None:
            self._taken = set(self._placeholders_of_the_callers())
        while True:
            self._numbers[name] += 1
            placeholder = f"[{name}_{self._numbers[name]}]"
            if placeholder.encode() not in self._taken:
                return placeholder

    def _placeholders_of_the_callers(self) -> Iterator[bytes]:
        for start in range(0, len(self._raw), LOOKED_AT_BYTES):
            for match in _TAKEN.finditer(self._raw, start, start + LOOKED_AT_BYTES + LONGEST_PLACEHOLDER):
                yield match[0].replace(b"\\", b"")
            self.pause()


def _label(value: bytes, named: tuple[int, int], at: int) -> str:
    """The name of a member, where a short one stands before its value."""
    start, end = named
    if at - start > LONGEST_LABEL or value[end:at].strip() != b":":
        return ""
    return value[start + 1 : end - 1].decode("utf-8", "replace").replace("_", " ") + ": "


def _texts(raw: bytes, start: int, pause: Pause) -> Iterator[tuple[int, int]]:
    """Every quoted text of valid JSON, quotes included."""
    find_quote = raw.find
    at = find_quote(b'"', start)
    while at >= 0:
        end = find_quote(b'"', at + 1) + 1
        if raw[end - 2] == BACKSLASH:
            end = text_end(raw, end - 1, REACH_BYTES, pause)
        yield at, end
        at = find_quote(b'"', end)


def _solid_end(inner: bytes, start: int, end: int) -> int:
    """Where base64 is cut that may go on; not within what may be a number."""
    if end - start < SOLID_BYTES:
        return end
    letters = _ENDS_WITH_LETTERS.search(inner, end - LONGEST_PLANTED, end)
    return letters.start() if letters else end


def _text_before(inner: bytes, at: int) -> str:
    """What stands before a place that is between characters. An escape that is cut in two is no word."""
    before = inner[max(0, at - BEFORE_BYTES) : at]
    return before.replace(b"\\n", b"\n").replace(b"\\t", b"\t").decode("utf-8", "replace")


def _as_text(inner: bytes) -> str:
    return inner.decode("utf-8", "surrogatepass") if b"\\" not in inner else str(largejson.parsed(b'"%b"' % inner))


def _between_characters(inner: bytes, start: int, limit: int) -> int:
    """The last place up to the limit that is between two characters, escaped ones too."""
    end = limit
    escape = inner.rfind(b"\\", max(start, limit - LONGEST_ESCAPE), limit)
    if escape >= 0:  # only then need every character be looked at; what is whole up to here is short
        whole = _CHARACTERS.match(inner, start, limit)
        end = max(whole.end(), start + 1) if whole else limit
    while start + 1 < end < len(inner) and inner[end] & 0xC0 == 0x80:
        end -= 1
    return end
