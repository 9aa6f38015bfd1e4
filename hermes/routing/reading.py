"""A text as keywords see it: case, accents and apostrophes are gone, and it is cut into runs of words.

Inside a run stand words with nothing but spaces, hyphens and underscores between them, so a phrase may lie across them.
Any other character ends a run. So does a letter of a script that puts no spaces around words, or glues particles to
them (Chinese, Japanese, Korean, Thai and others): such text is matched by substring, in `squeezed`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property

HEAD_CHARS = 6000
TAIL_CHARS = 2000
"""Of a huge paste the beginning and the end are read, so that it costs a few milliseconds at most."""

MOST_DECOMPOSED_CHARS = 3 * (HEAD_CHARS + TAIL_CHARS)
"""What Hangul becomes at most; single Arabic ligatures become 18 letters."""

BREAK = "\0"
"""Stands for whatever ends a run."""

GLUED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u109f"  # Tibetan, Myanmar
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # Hiragana, Katakana
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af"  # Han, and Bopomofo
    "\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar, extended
)
"""Letters of the scripts without word boundaries, as ranges for a character class."""

INNER_MARKS = "\u0483-\u0489\u0610-\u061a\u0656-\u065f\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
"""Vowel signs of scripts with spaces: parts of words that `\\w` does not know."""

SOFT = r"\s_\-\u2010-\u2013\u2212\u200b\u200c"
"""What may stand between the parts of a phrase."""

_PLAIN_PUNCTUATION = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\uff07"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u00ad\u200d\u200e\u200f\u2060\ufe0e\ufe0f\ufeff"), None),
    ord("\u00a0"): " ",
    ord("\u2014"): ";",
    ord("\u2026"): ".",
}
"""Typographic characters that are common in English texts; most of these texts are ASCII without them."""

_BARE_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Letters whose accent has no decomposition in Unicode; they stand after case folding."""

_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0655\u0670]+")
_MARK_FLOOD = re.compile(r"([^\w\s\0-\x7f]{16})[^\w\s\0-\x7f]+")
"""Unicode sorts the marks on a letter, which takes for ever when there are thousands."""

_ELISION = re.compile(r"(?<![^\W_])([cdjlmnst]|qu|dell|all|nell|sull|dall|un)'(?=[^\W\d_]{3})")
"""French and Italian: *l'erreur* are two words, while *doesn't* is one."""

_INNER_POINT = re.compile(r"[.,](?<=\d.)(?=\d)")
_WORD_GAP = re.compile(rf"[{SOFT}]+")
_RUN_GAP = re.compile(rf"[^\w{SOFT}{INNER_MARKS}]+|[{GLUED}]+")
_GLUED_RUN = re.compile(rf"[{GLUED}]+")
_WORD_CHARACTER = re.compile(rf"(?![{GLUED}_])[\w{INNER_MARKS}]")
_ASCII_SOFT = bytes(code for code in range(128) if re.match(rf"[{SOFT}]", chr(code)))
_ASCII_GAPS = bytes(
    ord(" ") if code in _ASCII_SOFT else code if chr(code).isalnum() else ord(BREAK) for code in range(128)
).ljust(256)
"""For `bytes.translate`, which is five times as fast as that of texts."""


class Reading:
    """A text that has been made ready once, for any number of keyword sets."""

    def __init__(self, normal: str) -> None:
        self.normal = normal
        """Folded, without apostrophes, all other characters in their places."""

        self.runs = _runs(normal)
        """The words, run by run. A number with a point or comma inside is one word: 502 is not in 1.502."""

    @classmethod
    def of(cls, text: str) -> Reading:
        """Reads a text of any length.

        Blocks: 60 µs for 200 English words, 2 ms for the longest text in another script.
        """
        return cls(normalise(clip(text)))

    @cached_property
    def squeezed(self) -> str:
        """The text without spaces, hyphens and underscores."""
        if self.normal.isascii():
            return self.normal.encode().translate(None, _ASCII_SOFT).decode()
        return _WORD_GAP.sub("", self.normal)

    @cached_property
    def glued(self) -> list[str]:
        """Its pieces in scripts without word boundaries."""
        return [] if self.normal.isascii() else _GLUED_RUN.findall(self.normal)

    def occurrences(self, needle: str) -> Iterator[tuple[int, int]]:
        """Where a squeezed needle stands in `normal`, unless it begins or ends inside a word."""
        at = self.squeezed.find(needle)
        while at >= 0:
            start, end = self._places[at], self._places[at + len(needle) - 1] + 1
            if not (_is_inside_word(self.normal, start) or _is_inside_word(self.normal, end)):
                yield start, end
            at = self.squeezed.find(needle, at + 1)

    @cached_property
    def _places(self) -> list[int]:
        """The index in `normal` of each character of `squeezed`."""
        places: list[int] = []
        start = 0
        for gap in _WORD_GAP.finditer(self.normal):
            places.extend(range(start, gap.start()))
            start = gap.end()
        places.extend(range(start, len(self.normal)))
        return places


def clip(text: str) -> str:
    """The first and the last part of a long text, cut between words."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    head, tail = HEAD_CHARS, len(text) - TAIL_CHARS
    while head > HEAD_CHARS - 64 and text[head - 1 : head + 1].isalnum():
        head -= 1
    while tail < len(text) - TAIL_CHARS + 64 and text[tail - 1 : tail + 1].isalnum():
        tail += 1
    return f"{text[:head]}{BREAK}{text[tail:]}"


def normalise(text: str) -> str:
    """Folds case and accents away and drops apostrophes. Texts that differ in these only become equal.

    >>> normalise("Déployez ça, it doesn’t WORK")
    'deployez ca, it doesnt work'
    """
    if not text.isascii():
        text = text.translate(_PLAIN_PUNCTUATION)
    text = text.lower() if text.isascii() else _fold(text)
    if "'" in text:
        text = _ELISION.sub(r"\1 ", text).replace("'", "")
    return text


def _runs(normal: str) -> list[list[str]]:
    text = _INNER_POINT.sub("x", normal)
    if text.isascii():
        spaced = text.encode().translate(_ASCII_GAPS).decode()
    else:
        spaced = _WORD_GAP.sub(" ", _RUN_GAP.sub(BREAK, text))
    return [words for run in spaced.split(BREAK) if (words := run.split())]


def _fold(text: str) -> str:
    """Only accents go: Hangul and kana, which decompose too, are put together again."""
    decomposed = unicodedata.normalize("NFKD", _MARK_FLOOD.sub(r"\1", text))[:MOST_DECOMPOSED_CHARS]
    bare = _ACCENTS.sub("", decomposed)
    return unicodedata.normalize("NFC", bare.casefold().translate(_BARE_LETTERS))


def _is_word_character(character: str) -> bool:
    """Whether it is part of a word in a script that has word boundaries."""
    return _WORD_CHARACTER.match(character) is not None


def _is_inside_word(text: str, place: int) -> bool:
    """Whether the characters on both sides of a place belong to one word."""
    return 0 < place < len(text) and _is_word_character(text[place - 1]) and _is_word_character(text[place])
