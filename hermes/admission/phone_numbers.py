"""Telephone numbers, believed for the numbering plans of phonenumbers' tables.

A number with its country's code stands for itself. One without is found where it is written as telephone numbers are (a
leading nought or an area code in brackets, and groups) and some country has such numbers; or where a word before it
says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

from hermes.admission.nearby import Nearby
from hermes.admission.seen import Seen

BEFORE_CHARS: Final = 28
FEWEST_DIGITS, MOST_DIGITS = 7, 15

KINDS_OF_NUMBERS: Final = (
    "fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost", "personal_number", "voip", "uan", "pager",
)  # fmt: skip
HOME_CODES: Final = (49, 44, 33, 39, 31, 41, 43, 32, 46, 47, 61, 64, 91, 81, 82, 86, 27, 90, 20, 966, 971, 353, 55, 48)
"""Of countries whose own numbers begin with a nought, or are dialled with one, and are written without the code."""

_S: Final = r"[ \u00a0\u202f./-]"
_ABROAD = re.compile(
    rf"[+0](?<![\w.@/+-].)(?:(?<=\+)|(?<=0)0)(?:{_S}|\()?[1-9](?:(?:{_S}|[()]){{0,3}}\d){{6,14}}(?!\w|[.:]\d)"
)
_AT_HOME = re.compile(
    rf"[(0](?<![\w.:@/+-].)(?:(?:(?<=\()0\d{{1,5}}\)|(?<=0)\d{{1,5}})(?:{_S}{{1,3}}\d{{2,8}}){{1,5}}"
    rf"|(?<=0)[1-9]\d{{8,9}})(?!\w|[.:/-]\d)"
)
_AMERICAN = re.compile(
    r"[1-9(](?<![\w.:@/+-].)(?:(?<=1)[ .-](?:\([2-9]\d\d\) ?|[2-9]\d\d([ .-]))|(?<=\()[2-9]\d\d\) ?"
    r"|(?<=[2-9])\d\d([ .-]))[2-9]\d\d(?(1)\1|(?(2)\2|[ .-]))\d{4}(?!\w|[.:/-]\d)"
)
_SAID = re.compile(rf"[(\d](?<![\w.:@/+-].)(?:(?<=\d)|(?<=\()\d)(?:(?:{_S}|[()]){{0,2}}\d){{6,13}}(?!\w|[.:/-]\d)")
_WORDS = re.compile(
    r"\b(?:tele?(?:phone|fon|fono|foon|fonnummer)?|t[ée]l[ée]phone|t[ée]l|phone|ph|mobile?|mobil|m[óo]vil|cell(?:phone)?"
    r"|celular|whats ?app|sms|fax|handy|rufnummer|ligne directe|portable|gsm|ring(?: me)?|dial|text me(?: on| at)?"
    r"|call(?:ed|s)?(?: me| him| her| us)?(?: back)?(?: on| at)?|numero di telefono|cellulare|numer telefonu"
    r"|telefonnummer|puhelin)\b"
    r"|تلفون|هاتف|جوال|موبايل|رقمي هو|رقمي|اتصل|واتساب|电话|手机|電話|전화"
)
_BETWEEN = re.compile(r"\W{0,3}(?:\w{1,10}\W{1,3}){0,2}")
"""What may stand between such a word and the number: "my mobile is", "WhatsApp (Dana)"."""

_NO_DIGIT = re.compile(r"\D")
_DATE = re.compile(
    r"(?:(?:0?[1-9]|[12]\d|3[01])([./-])(?:0?[1-9]|1[0-2])\1(?:\d{4}|\d\d)|\d{4}([./-])\d{1,2}\2\d{1,2})(?![./-]?\d)"
)


def find(text: str, seen: Seen) -> Iterator[tuple[int, int]]:
    """Where telephone numbers stand; the same place may come twice.

    Args:
        text: with ASCII digits.
        seen: what is known of the values of other texts of the same request.
    """
    words = Nearby(_WORDS, text)
    for match in _ABROAD.finditer(text):
        if end := seen.of(_end_of_international, match[0]):
            yield match.start(), match.start() + end
    for match in _AT_HOME.finditer(text):
        if not _DATE.match(match[0]) and seen.of(_is_somebodys, _digits(match[0])):
            yield match.span()
    for match in _AMERICAN.finditer(text):
        if seen.of(_is_american, _digits(match[0])[-10:]):
            yield match.span()
    for match in _SAID.finditer(text):
        word_end = words.before(match.start(), BEFORE_CHARS)
        if word_end is not None and not _DATE.match(match[0]) and _BETWEEN.fullmatch(text, word_end, match.start()):
            yield match.span()


def _end_of_international(found: str) -> int:
    """Where the number ends in what was found: groups behind it may be something else. 0: it is none."""
    end = len(found)
    while end > 0:
        digits = _digits(found[:end].replace("(0)", ""))
        digits = digits.removeprefix("00") if found.startswith("00") else digits
        if len(digits) < FEWEST_DIGITS:
            return 0
        if len(digits) <= MOST_DIGITS and _is_international(digits):
            return end
        shorter = re.match(rf"(.*\d){_S}+\d*$", found[:end], re.DOTALL)
        end = len(shorter[1]) if shorter else 0
    return 0


def _is_international(digits: str) -> bool:
    for length in (1, 2, 3):
        code = int(digits[:length])
        if code in COUNTRY_CODE_TO_REGION_CODE:
            national = digits[length:]
            return _is_of(code, national) or (national.startswith("0") and _is_of(code, national[1:]))
    return False


def _is_somebodys(digits: str) -> bool:
    return FEWEST_DIGITS <= len(digits) <= 12 and any(
        _is_of(code, digits.removeprefix("0")) or _is_of(code, digits) for code in HOME_CODES
    )


def _is_american(national: str) -> bool:
    return _is_of(1, national)


def _is_of(code: int, national: str) -> bool:
    pattern = _plan(code)
    return pattern is not None and pattern.fullmatch(national) is not None


@cache
def _plan(code: int) -> re.Pattern[str] | None:
    """All numbers of a country's code."""
    patterns: set[str] = set()
    for region in COUNTRY_CODE_TO_REGION_CODE[code]:
        metadata = PhoneMetadata.metadata_for_region(region, None)
        for name in KINDS_OF_NUMBERS if metadata is not None else ():
            described = getattr(metadata, name, None)
            if described is not None and described.national_number_pattern:
                patterns.add(described.national_number_pattern)
    return re.compile("|".join(f"(?:{pattern})" for pattern in sorted(patterns))) if patterns else None


def _digits(found: str) -> str:
    return found if found.isdecimal() else _NO_DIGIT.sub("", found)
