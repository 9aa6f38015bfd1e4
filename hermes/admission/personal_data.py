"""Personal data in a text: where it stands, and of which kind it is.

Every kind is found by its form and believed for what such data has beside it: check digits, the numbering plans of
telephones, the endings of addresses. Most texts have neither a digit nor an @ and cost a glance.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from stdnum import luhn

from hermes.admission import national_ids, phone_numbers
from hermes.admission.seen import Seen

KINDS: Final = ("email", "iban", "credit_card", "national_id", "phone")
"""In the order in which they are believed where two claim the same place."""

# What is looked for in a whole text begins with one character, and says then what may not stand before that: so it is
# found without an attempt at every place.
_ANY = re.compile(r"[@＠\d]")
_ENOUGH_DIGITS = re.compile(r"(?:\d\D{0,6}){5}\d")
"""Nothing but an address has fewer than the six of a British national insurance number."""

_PLAIN: Final = (
    {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}
    | dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")
    | dict.fromkeys((*range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
    | {0x3002: "."}
    | {zero + value: str(value) for zero in (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50) for value in range(10)}
)
"""Wide characters, other dashes and blanks, Arabic, Persian, Devanagari, Bengali and Thai digits; one character each,
so that places stay what they are."""

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Takes no room: what it stands in reads as if it were not there. Source: Default_Ignorable_Code_Point in Unicode's
DerivedCoreProperties.txt.
"""

_IN_A_URL = re.compile(
    r"(?:(?<![\w.%+-])|(?<=%[0-9A-Fa-f]{2}))(?:[\w.+-]|%(?:25)?2[BbDdEe]){1,64}%(?:25)?40"
    r"(?:\w(?:[\w-]{0,61}\w)?\.){1,8}(?P<end>[^\W\d_]{2,24}|xn--[\w-]{2,50})(?![\w@]|-\w)"
)
"""An address with its @ percent-encoded, once or twice."""

_LOCAL_BACKWARDS = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*(?![\w!#$%&'*+/=?^`{|}~-])")
_DOMAIN = re.compile(r"(?:\w(?:[\w-]{0,61}\w)?\.){1,8}(?P<end>[^\W\d_]{2,24}|xn--[\w-]{2,50})(?![\w@]|-\w|:[\w~/])")
_URL_BEFORE = re.compile(r"\w://[^\s/@<>\"']*\Z")
MOST_LOCAL_CHARS: Final = 64
URL_CHARS: Final = 120
NO_ENDINGS: Final = frozenset(
    {"png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "js", "ts", "jsx", "tsx", "mjs", "json", "html", "htm"}
    | {"php", "java", "yml", "yaml", "toml", "txt", "pdf", "exe", "dll", "local", "localhost", "internal", "lan"}
)
"""Of files and of hosts at home; those that are a country's too (.py, .md, .rs) end addresses."""

_IBAN = re.compile(r"[A-Za-z](?<![A-Za-z0-9].)[A-Za-z]\d{2}(?=[ \u00a0-]?[A-Za-z0-9])")
_IBAN_REST = re.compile(r"(?:[ \u00a0-]?[A-Za-z0-9]){11,30}")
IBAN_CHARS: Final[Mapping[str, int]] = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28,
    "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20,
    "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25,
    "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27,
    "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
"""How long each country's are."""

_NO_WORD = re.compile(r"[\W_]")
_AS_NUMBERS: Final = str.maketrans({chr(55 + value): str(value) for value in range(10, 36)})
MOST_IBAN_CHARS: Final = max(IBAN_CHARS.values())
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_-]{256,}+")
_MANY_DIGITS = re.compile(r"[0-9]{8,}+")
"""In base64 they stand once in three megabytes; there is hardly an account without."""

_IBAN_BEGINS = re.compile(r"(?=([A-Z]{2})[0-9]{2})")
_IBAN_CHARS_ONLY = re.compile(r"[A-Z0-9]+")
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]+")

_CARD = re.compile(r"[2-6](?<![\w.+/-].)(?:[ \u00a0-]?\d){11,18}(?!\w|[.-]\d)")
_DOTTED_CARD = re.compile(r"(?<![\w.+/-])(?:[2-6]\d{3}(?:\.\d{4}){3}|3[47]\d{2}\.\d{6}\.\d{5})(?!\w|[.-]\d)")
"""Only in groups of its own: one dot in a long number is a decimal point."""

FEWEST_CARD_DIGITS: Final = 12
_NEXT_GROUP = re.compile(r"[ \u00a0](?=[2-6]\d{2})")
_NO_DIGIT = re.compile(r"\D")
_LAST_GROUP = re.compile(r"[ \u00a0-]\d{2,}$")
_BRANDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|6(?:011|5\d\d|4[4-9]\d)\d{12,15}|35(?:2[89]|[3-8]\d)\d{12,15}|62\d{14,17}"
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{8,15}|220[0-4]\d{12}"
)


class Found(NamedTuple):
    """One piece of personal data."""

    kind: str
    start: int
    end: int


def find(text: str, kinds: Collection[str] = KINDS, seen: Seen | None = None) -> list[Found]:
    """What of these kinds a text holds, in its order, nothing twice.

    Args:
        seen: what is known of the values of other texts of the same request.

    Blocks: 4 ms for 2 kB full of it, 0.05 ms for prose; what is longer comes in pieces (`masking.py`).
    """
    if _ANY.search(text) is None:
        return []
    seen = Seen() if seen is None else seen
    if text.isascii():
        return _found(text, kinds, seen)
    text = text.translate(_PLAIN)
    hits = _found(text, kinds, seen)
    return hits if _UNSEEN.search(text) is None else _longest([*hits, *_as_read(text, kinds, seen)])


def _as_read(text: str, kinds: Collection[str], seen: Seen) -> Iterator[Found]:
    """What is found once the characters that take no room are out; the places are those of the text with them."""
    places = [at for at, char in enumerate(text) if _UNSEEN.match(char) is None]
    for kind, start, end in _found(_UNSEEN.sub("", text), kinds, seen):
        yield Found(kind, places[start], places[end - 1] + 1)


def _longest(hits: list[Found]) -> list[Found]:
    """Of those that overlap only the longest, in the text's order."""
    taken = _Places()
    for hit in sorted(hits, key=lambda hit: hit.start - hit.end):
        taken.add(*hit)
    return taken.found


def _found(text: str, kinds: Collection[str], seen: Seen) -> list[Found]:
    has_digits = _ENOUGH_DIGITS.search(text) is not None
    taken = _Places()
    for kind in KINDS:
        if kind in kinds and (has_digits or kind == "email"):
            for start, end in FINDERS[kind](text, seen):
                taken.add(kind, start, end)
    for run in _LONG_RUN.finditer(text) if has_digits else ():
        for kind, start, end in find_planted(run[0], kinds):
            taken.add(kind, run.start() + start, run.start() + end)
    return taken.found


class _Places:
    """What was found, in its order; where two claim the same place, the first who came has it."""

    __slots__ = ("_starts", "found")

    def __init__(self) -> None:
        self.found: list[Found] = []
        self._starts: list[int] = []

    def add(self, kind: str, start: int, end: int) -> None:
        if not self.found or self.found[-1].end <= start:
            self._starts.append(start)
            self.found.append(Found(kind, start, end))
            return
        at = bisect_left(self._starts, end)  # before it stand all that begin before this ends; they do not overlap
        if at and self.found[at - 1].end > start:
            return
        self._starts.insert(at, start)
        self.found.insert(at, Found(kind, start, end))


def _emails(text: str, _: Seen) -> Iterator[tuple[int, int]]:
    if "40" in text and "%" in text:
        for match in _IN_A_URL.finditer(text):
            if match["end"].casefold() not in NO_ENDINGS:
                yield match.span()
    at, free = text.find("@"), 0
    while at >= 0:
        run = _LOCAL_BACKWARDS.match(text[max(free, at - MOST_LOCAL_CHARS - 1) : at][::-1])
        domain = _DOMAIN.match(text, at + 1) if run is not None else None
        if run is not None and domain is not None and domain["end"].casefold() not in NO_ENDINGS:
            start = at - run.end()
            before = text[start - 1 : start]
            is_whole = before not in ("@", ".") or start == free
            if is_whole and len(run[0]) <= MOST_LOCAL_CHARS and not _is_user_of_url(text, start):
                while start == free and free and not text[start].isalnum():
                    start = free = start + 1  # what parts it from the address before it
                if start < at:
                    yield start, domain.end()
                    free = domain.end()
        at = text.find("@", at + 1)


def _is_user_of_url(text: str, start: int) -> bool:
    """As in ssh://git@host."""
    scheme = text.rfind("://", max(0, start - URL_CHARS), start)
    return scheme > 0 and _URL_BEFORE.match(text, scheme - 1, start) is not None


def _ibans(text: str, seen: Seen) -> Iterator[tuple[int, int]]:
    for match in _IBAN.finditer(text):
        wanted = IBAN_CHARS.get(match[0][:2].upper())
        rest = _IBAN_REST.match(text, match.end()) if wanted else None
        if wanted is None or rest is None:
            continue
        end = _after(text, match.start(), rest.end(), wanted)
        if end and not text[end : end + 1].isalnum() and seen.of(is_iban, text[match.start() : end]):
            yield match.start(), end


def _after(text: str, start: int, limit: int, chars: int) -> int:
    """Where so many letters and digits from `start` on have gone by; 0 where there are fewer."""
    if text[start : start + chars].isalnum():  # one without blanks
        return start + chars if start + chars <= limit else 0
    for at in range(start, limit):
        chars -= text[at].isalnum()
        if not chars:
            return at + 1
    return 0


def is_iban(text: str) -> bool:
    """Whether its check digits are right (ISO 7064, mod 97-10).

    >>> is_iban("DE89 3704 0044 0532 0130 00"), is_iban("DE88 3704 0044 0532 0130 00")
    (True, False)
    """
    compact = text.upper() if text.isalnum() else _NO_WORD.sub("", text).upper()
    return compact.isascii() and int((compact[4:] + compact[:4]).translate(_AS_NUMBERS)) % 97 == 1


def _cards(text: str, seen: Seen) -> Iterator[tuple[int, int]]:
    for dotted in _DOTTED_CARD.finditer(text):
        if seen.of(_end_of_card, dotted[0]):
            yield dotted.span()
    at = 0
    while match := _CARD.search(text, at):
        if end := seen.of(_end_of_card, match[0]):
            yield match.start(), match.start() + end
            at = match.start() + end
        else:  # it may begin with a later group: what stands before that is another number
            group = _NEXT_GROUP.search(match[0])
            at = match.start() + group.end() if group else match.end()


def _end_of_card(found: str) -> int:
    """Where a card's number ends in what was found: groups behind it may be its date or its code. 0: it is none."""
    while len(digits := found if found.isdecimal() else _NO_DIGIT.sub("", found)) >= FEWEST_CARD_DIGITS:
        if _BRANDS.fullmatch(digits) and len(set(digits)) > 1 and luhn.is_valid(digits):
            return len(found)
        shorter = _LAST_GROUP.search(found)
        if shorter is None:
            break
        found = found[: shorter.start()]
    return 0


def find_planted(text: str, kinds: Collection[str] = KINDS) -> list[Found]:
    """What stands within letters and digits that are base64, or pretend to be: accounts in capitals without blanks, and
    card numbers. Hexadecimal digits are full of numbers that look like cards'; only accounts are looked for in them.

    Blocks: 0.1 ms for 4 kB, 10 ms where it is full of digits.

    >>> find_planted("QUJD" * 128 + "DE89370400440532013000" + "QUJD")
    [Found(kind='iban', start=512, end=534)]
    """
    found: list[Found] = []
    has_cards = "credit_card" in kinds and _HEXADECIMAL.fullmatch(text) is None
    free = 0
    for digits in _MANY_DIGITS.finditer(text):
        hit = _planted_iban(text, digits, free) if "iban" in kinds else None
        if hit is None and has_cards and digits.start() >= free and _end_of_card(digits[0]) == len(digits[0]):
            hit = Found("credit_card", *digits.span())
        if hit is not None:
            found.append(hit)
            free = hit.end
    return found


def _planted_iban(text: str, digits: re.Match[str], free: int) -> Found | None:
    """The account that these digits are of, if it begins in what is free yet."""
    for letters in _IBAN_BEGINS.finditer(text, max(free, digits.start() - MOST_IBAN_CHARS), digits.start() + 2):
        start = letters.start()
        end = start + IBAN_CHARS.get(letters[1], 0)
        is_long = digits.start() < end <= len(text) and _IBAN_CHARS_ONLY.fullmatch(text, start, end) is not None
        if is_long and is_iban(text[start:end]):
            return Found("iban", start, end)
    return None


FINDERS: Final[Mapping[str, Callable[[str, Seen], Iterator[tuple[int, int]]]]] = {
    "email": _emails,
    "iban": _ibans,
    "credit_card": _cards,
    "national_id": national_ids.find,
    "phone": phone_numbers.find,
}
