"""Numbers that states give to people: found by their shape, and believed for their check digits.

A candidate's shape (its digits as 9, its letters as A) says which countries could have given it; their checks, most of
them python-stdnum's, decide. Where a shape is common and a check is weak (nine digits of which every eleventh passes),
a word of that kind must stand before it: without, an order number would be a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stdnum import luhn
from stdnum.ar import cuit
from stdnum.at import vnr
from stdnum.au import tfn
from stdnum.be import nn
from stdnum.bg import egn
from stdnum.br import cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.cl import rut
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.dk import cpr
from stdnum.ee import ik
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.gr import amka
from stdnum.hr import oib
from stdnum.ie import pps
from stdnum.il import idnr as il_idnr
from stdnum.in_ import aadhaar, pan
from stdnum.it import codicefiscale
from stdnum.jp import in_ as my_number
from stdnum.kr import rrn
from stdnum.lt import asmens
from stdnum.mx import curp
from stdnum.my import nric
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.pt import cc, nif
from stdnum.ro import cnp
from stdnum.se import personnummer
from stdnum.th import pin
from stdnum.tr import tckimlik
from stdnum.us import itin, ssn
from stdnum.za import idnr as za_idnr

from hermes.admission.nearby import Nearby
from hermes.admission.seen import Seen

Check = Callable[[str], bool]

MOST_SHAPES: Final = 4096
"""So many shapes of stretches are remembered; nothing of a value is in them."""

BEFORE_CHARS: Final = 40
"""So far before a number a word may stand that says what it is."""

_DIGITS = re.compile(r"\d(?<![\w+/.-].)(?:[ ./+-]?\d){6,20}(?:-[kK])?(?!\w|\.\d)")
_MIXED = re.compile(
    r"[A-Za-z\d](?<![\w/.-].)(?:(?<=\d)(?=[A-Za-z\d-]*[A-Za-z])|(?<=[A-Za-z])(?=[A-Za-z]{0,5}-?\d))"
    r"[A-Za-z\d-]{6,18}(?![\w-])"
)
_SPACED = re.compile(
    r"[A-Z\d](?<!\w.)(?:(?<=[A-CEGHJ-PR-TW-Z])[A-CEGHJ-NPR-TW-Z](?: ?\d\d){3} ?[A-D]|(?<=\d)\d{7} \d [A-Z]{2}\d"
    r"|(?<=\d)\d \d{6} [A-Z] \d{3}|(?<=[12]) \d\d \d\d \d[\dAB] \d{3} \d{3}(?: \d\d)?)(?!\w)"
)
_WORDS = re.compile(
    r"\b(?:ssn|social[ -]security|itin|sin|social[ -]insurance|nhs|nino?|national[ -](?:id|identity|insurance)"
    r"|(?:civil|emirates|citizen|personal|identity|tax(?:payer)?)[ -](?:id|number|no\b|code|card|file)"
    r"|id[ -](?:card|number|no\b|nummer)|identification[ -](?:number|no\b)|tfn|bsn|burgerservicenummer|sofinummer"
    r"|pesel|nif|nie|dni|c[ée]dula|cuit|cuil|rut|cpf|curp|iqama|aadhaar|aadhar|my[ -]number|egn|amka|oib|svnr"
    r"|sozialversicherung\w*|steuer[ -]?(?:id|identifikationsnummer|nummer)|idnr|personnummer|personnr"
    r"|cpr(?:[ -]nummer)?|f[øo]dselsnummer|henkil[öo]tunnus|hetu|rijksregister\w*|isikukood|asmens kodas"
    r"|rodn[ée] [čc][íi]slo|(?:t\.?c\.? ?)?kimlik|teudat zehut|codice fiscale|personalausweis\w*|ausweisnummer"
    r"|num[ée]ro de s[ée]curit[ée] sociale)\b"
    r"|الرقم المدني|رقم الهوية|الهوية|رقم الإقامة|الرقم القومي|身份证|マイナンバー|주민등록번호",
)
_GROUP = re.compile(r"[^ ]+")
_SHAPES: Final = str.maketrans({**dict.fromkeys("0123456789", "9"), **{chr(65 + n): "A" for n in range(26)}})
_NO_SEPARATORS: Final = str.maketrans(dict.fromkeys(" ./-"))


class Candidate(NamedTuple):
    """A stretch of a text, and what it looks like."""

    start: int
    end: int
    shape: str
    compact: str
    """Without separators, in capitals."""


def find(text: str, seen: Seen) -> Iterator[tuple[int, int]]:
    """Where national ids stand.

    Args:
        text: with ASCII digits.
        seen: what is known of the values of other texts of the same request.
    """
    words = Nearby(_WORDS, text)
    for match in _DIGITS.finditer(text):
        yield from _first_known(words, seen, match.start(), match[0])
    for match in _MIXED.finditer(text):
        candidate = _candidate(match.start(), match[0])
        is_spelled_as_usual = match[0].isupper()
        if _is_one(words, seen, candidate, is_usual=is_spelled_as_usual):
            yield match.span()
    for match in _SPACED.finditer(text):
        candidate = _candidate(match.start(), match[0])
        if any(seen.of(check, candidate.compact) for check in SPACED.get(candidate.shape, ())):
            yield match.span()


def _first_known(words: Nearby, seen: Seen, start: int, found: str) -> Iterator[tuple[int, int]]:
    """The whole stretch, or the longest run of its groups that is a number of somebody's."""
    shape = _shape(found)
    free = 0
    for first, lasts in _runs(shape):
        if first < free:
            continue
        for last in lasts:
            candidate = Candidate(start + first, start + last, shape[first:last], _compact(found[first:last]))
            if _is_one(words, seen, candidate, is_usual=True):
                yield candidate.start, candidate.end
                free = last
                break


@lru_cache(maxsize=MOST_SHAPES)
def _runs(shape: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Where numbers may begin in a stretch of such a shape, and where each may end, the last place first."""
    groups = [match.span() for match in _GROUP.finditer(shape)]
    runs = []
    for at, (first, end) in enumerate(groups):
        numbers = (number for number in RUNS.get(shape[first:end], ()) if at + number <= len(groups))
        lasts = (groups[at + number - 1][1] for number in numbers)
        if known := tuple(last for last in lasts if shape[first:last] in SHAPES):
            runs.append((first, known))
    return tuple(runs)


def _candidate(start: int, found: str) -> Candidate:
    return Candidate(start, start + len(found), _shape(found), _compact(found))


def _shape(found: str) -> str:
    return found.upper().translate(_SHAPES)


def _compact(found: str) -> str:
    return found.upper().translate(_NO_SEPARATORS)


def _is_one(words: Nearby, seen: Seen, candidate: Candidate, *, is_usual: bool) -> bool:
    if is_usual and any(seen.of(check, candidate.compact) for check in PLAIN.get(candidate.shape, ())):
        return True
    checks: Sequence[Check] = (*NAMED.get(candidate.shape, ()), *(() if is_usual else PLAIN.get(candidate.shape, ())))
    # The word first: a column of nine-digit numbers would otherwise be put through every check of the table.
    if not checks or words.before(candidate.start, BEFORE_CHARS) is None:
        return False
    return any(seen.of(check, candidate.compact) for check in checks)


# -- checks that python-stdnum has not


def kuwait(number: str) -> bool:
    """Civil id: century, date of birth, serial, check digit.

    >>> kuwait("285010112358"), kuwait("285010112357")
    (True, False)
    """
    weights = (2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    check = 11 - sum(int(digit) * weight for digit, weight in zip(number, weights, strict=False)) % 11
    return number[0] in "123" and _has_date(number, 3) and check == int(number[11])


def emirates(number: str) -> bool:
    """Emirates id: 784, year of birth, serial, Luhn."""
    return number.startswith("784") and number[3:5] in ("19", "20") and bool(luhn.is_valid(number))


def saudi(number: str) -> bool:
    """National id (1) or iqama (2), Luhn."""
    return number[0] in "12" and bool(luhn.is_valid(number))


def egypt(number: str) -> bool:
    """National id: century, date of birth, governorate. Its check digit is not public."""
    return number[0] in "23" and _has_date(number, 3) and (1 <= int(number[7:9]) <= 35 or number[7:9] == "88")


def singapore(number: str) -> bool:
    """NRIC or FIN.

    >>> singapore("S1234567D"), singapore("S1234567A")
    (True, False)
    """
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "XWUTRQPNJLK"}
    if number[0] not in letters:
        return False
    total = sum(int(digit) * weight for digit, weight in zip(number[1:8], (2, 7, 6, 5, 4, 3, 2), strict=True))
    total += {"T": 4, "G": 4, "M": 3}.get(number[0], 0)
    place = 10 - total % 11 if number[0] == "M" else total % 11
    return letters[number[0]][place] == number[8]


def german_pension(number: str) -> bool:
    """Versicherungsnummer: area, date of birth, initial, serial, check digit.

    >>> german_pension("15070649C103"), german_pension("15070649C104")
    (True, False)
    """
    digits = f"{number[:8]}{ord(number[8]) - 64:02d}{number[9:11]}"
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(sum(divmod(int(digit) * weight, 10)) for digit, weight in zip(digits, weights, strict=True))
    return total % 10 == int(number[11])


def british(number: str) -> bool:
    """National insurance number; it has no check digit, only letters that are never used."""
    return number[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ") and number[0] not in "DFIQUV" and (
        number[1] not in "DFIOQUV" and number[8] in "ABCD"
    )  # fmt: skip


def finnish(number: str) -> bool:
    """Henkilötunnus; a hyphen between date and serial says that the century was the last one."""
    return bool(hetu.is_valid(number if len(number) == 11 else f"{number[:6]}-{number[6:]}"))


def _has_date(number: str, month_at: int) -> bool:
    month, day = int(number[month_at : month_at + 2]), int(number[month_at + 2 : month_at + 4])
    return 1 <= month <= 12 and 1 <= day <= 31


def _of(module: Any) -> Check:
    return lambda number: _is_valid(module, number)


def _is_valid(module: Any, number: str) -> bool:
    try:
        return bool(module.is_valid(number))
    except (LookupError, ValueError):  # the module's tables have gaps, in which the number may be somebody's
        return True


def _dated(module: Any, month_at: int) -> Check:
    """The same where a month and a day stand in the number: most numbers are ruled out by a glance at those."""
    return lambda number: _has_date(number, month_at) and _is_valid(module, number)


def _begins(module: Any, *starts: str) -> Check:
    return lambda number: number.startswith(starts) and _is_valid(module, number)


PLAIN: Final[Mapping[str, Sequence[Check]]] = {
    # strong by their length, or by separators that nothing else has
    "9" * 12: (kuwait,),
    "9" * 13: (_dated(za_idnr, 2), _dated(cnp, 3), _begins(ahv, "756")),
    "9" * 14: (egypt,),
    "9" * 15: (_begins(nir, *"123478"), emirates),
    "9" * 18: (_dated(ric, 10),),
    "9" * 17 + "A": (_dated(ric, 10),),
    "999-99-9999": (_of(ssn), _of(itin)),
    "999.9999.9999.99": (_of(ahv),),
    "999 9999 9999 99": (_of(ahv),),
    "999-9999-9999999-9": (emirates,),
    "999 9999 9999999 9": (emirates,),
    "999.999.999-99": (_of(cpf),),
    "99.99.99-999.99": (_of(nn),),
    "9999 9999 9999": (_of(aadhaar),),
    "999999-9999": (_of(personnummer), finnish),
    "999999+9999": (_of(personnummer),),
    "99999999-9999": (_of(personnummer),),
    "999999/9999": (_of(rc),),
    "999999/999": (_of(rc),),
    "999999-9999999": (_of(rrn),),
    "999999 99999": (_of(fodselsnummer),),
    "99 999 999 999": (_of(idnr),),
    "99.999.999-9": (_of(rut),),
    "9.999.999-9": (_of(rut),),
    "99.999.999-A": (_of(rut),),
    "9.999.999-A": (_of(rut),),
    "99-99999999-9": (_of(cuit),),
    "9-9999-99999-99-9": (_of(pin),),
    "999999-99-9999": (_of(nric),),
    # with letters
    "99999999A": (_of(dni),),
    "99999999-A": (_of(dni),),
    "A9999999A": (_of(nie), singapore),
    "A-9999999-A": (_of(nie),),
    "AAAAAA99A99A999A": (_of(codicefiscale),),
    "9999999A": (_of(pps),),
    "9999999AA": (_of(pps),),
    "AAAA999999AAAAAA99": (_of(curp),),
    "AAAA999999AAAAAAA9": (_of(curp),),
    "AAAAA9999A": (_of(pan),),
    "AA999999A": (british,),
    "99999999A999": (german_pension,),
    "999999-999A": (finnish,),
    "999999A999A": (finnish,),
    "999999A9999": (finnish,),
    "999999999AA9": (_of(cc),),
}
"""Shapes whose checks are enough."""

NAMED: Final[Mapping[str, Sequence[Check]]] = {
    # weak by themselves: only with a word before them
    "9" * 9: tuple(map(_of, (ssn, bsn, nif, sin, tfn, il_idnr))),
    "9" * 10: (*map(_of, (nhs, vnr, egn, personnummer, rc, cpr)), saudi),
    "9" * 11: tuple(map(_of, (idnr, pesel, ik, asmens, tckimlik, oib, fodselsnummer, nn, amka, cpf, cuit))),
    "9" * 12: tuple(map(_of, (aadhaar, personnummer, my_number))),
    "9" * 13: (_of(pin), _of(rrn)),
    "99999999": (_of(dni),),
    "999 999 9999": (_of(nhs), saudi),
    "999-999-9999": (_of(nhs),),
    "9999 999999": (_of(vnr),),
    "999 999 999": tuple(map(_of, (sin, tfn, nif, bsn))),
    "999-999-999": tuple(map(_of, (sin, tfn))),
    "999.999.999": (_of(bsn),),
    "9999.99.999": (_of(bsn),),
    "999 99 9999": (_of(ssn),),
    "999999-9999": (_of(cpr),),
    "9999 9999 9999": (_of(my_number),),
    "99.99.99-999-99": (_of(nn),),
    "999 999 999 99": (_of(tckimlik), _of(oib)),
}

SPACED: Final[Mapping[str, Sequence[Check]]] = {
    "AA 99 99 99 A": (british,),
    "AA999999A": (british,),
    "AA99 99 99A": (british,),
    "99999999 9 AA9": (_of(cc),),
    "99 999999 A 999": (german_pension,),
    "9 99 99 99 999 999 99": (_of(nir),),
    "9 99 99 9A 999 999 99": (_of(nir),),
}

SHAPES: Final = frozenset(PLAIN) | frozenset(NAMED)

RUNS: Final[Mapping[str, Sequence[int]]] = {
    first: sorted({shape.count(" ") + 1 for shape in SHAPES if shape.split(" ")[0] == first}, reverse=True)
    for first in {shape.split(" ")[0] for shape in SHAPES}
}
"""Of how many groups a number may be that begins with such a one, the longest first."""
