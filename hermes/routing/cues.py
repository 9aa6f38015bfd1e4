"""Words that hint at how hard a message is: verbs of building and of reasoning, technical terms, small talk.

A linear classifier learns a weight for a kind of word and so knows something about words that it never saw in training,
also in other languages. The list is `cues.txt` beside this module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

KINDS: Final = ("build", "reason", "light", "chat", "tech", "math", "expert", "limits")
"""The kinds of cues, in the order in which they are counted: verbs of building and of reasoning, of small tasks, small
talk, technical, mathematical and other experts' terms, and words that set conditions.
"""

CUES = Path(__file__).resolve().parent / "cues.txt"

HAN = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Chinese characters and kana, as ranges for a character class."""

OPENING_WORDS = 5
OPENING_CHARS = 8
"""So far reaches the opening of a message, in words or in Chinese characters."""

LEAST_STEM = 4
LONGEST_STEM = 16
ARABIC_PREFIXES = ("ال", "و", "ب", "ل", "ف", "لل", "وال", "بال")
CACHE_WORDS = 8192

_HAN = re.compile(f"[{HAN}]")


@dataclass(slots=True)
class Counts:
    """How many cues of each kind a text has, and whether its opening has one."""

    total: list[int]
    opening: list[bool]


@dataclass(slots=True)
class Cues:
    """The cue words, made ready. A kind is a number, its place in `KINDS`."""

    fingerprint: str = ""
    """Of the list: a model fitted with another list does not fit this one."""

    _words: dict[str, list[int]] = field(default_factory=dict)
    _stems: dict[str, list[int]] = field(default_factory=dict)
    _han: dict[str, list[int]] = field(default_factory=dict)
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Cues:
        """Reads the format of `cues.txt`.

        >>> cues = Cues.parse("[build]\\nimplement code.\\n[chat]\\nhi thanks")
        >>> cues.count("hi, implementing codes", ["hi", "implementing", "codes"]).total
        [1, 0, 0, 1, 0, 0, 0, 0]
        """
        cues = cls(fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16])
        kind = -1
        for line in text.splitlines():
            if line.startswith("["):
                kind = KINDS.index(line.strip("[]"))
            elif line and not line.startswith("#"):
                for word in line.split():
                    cues._add(word, kind)
        return cues

    def count(self, text: str, words: Sequence[str]) -> Counts:
        """The cues in a text in lower case, given with its words.

        Blocks: 5 µs for a short text, 0.1 ms for 1,000 Chinese characters.
        """
        counts = Counts([0] * len(KINDS), [False] * len(KINDS))
        known = self._known
        for at, word in enumerate(words):
            for kind in known[word] if word in known else self._kinds_of(word):
                counts.total[kind] += 1
                if at < OPENING_WORDS:
                    counts.opening[kind] = True
        if not text.isascii() and _HAN.search(text):
            self._count_han(text, counts)
        return counts

    def _count_han(self, text: str, counts: Counts) -> None:
        for word, kinds in self._han.items():
            if times := text.count(word):
                is_opening = text.find(word) < OPENING_CHARS
                for kind in kinds:
                    counts.total[kind] += times
                    counts.opening[kind] |= is_opening

    def _add(self, word: str, kind: int) -> None:
        if _HAN.search(word):
            table = self._han
        else:
            table = self._words if word.endswith(".") or len(word) < LEAST_STEM else self._stems
        table.setdefault(word.rstrip("."), []).append(kind)

    def _kinds_of(self, word: str) -> tuple[int, ...]:
        kinds = self._look_up(word)
        if len(self._known) < CACHE_WORDS and len(word) <= LONGEST_STEM:
            self._known[word] = kinds
        return kinds

    def _look_up(self, word: str) -> tuple[int, ...]:
        kinds = set(self._words.get(word, ()))
        for length in range(LEAST_STEM, min(len(word), LONGEST_STEM) + 1):
            kinds.update(self._stems.get(word[:length], ()))
        if "\u0600" <= word[0] <= "\u06ff":
            for prefix in ARABIC_PREFIXES:
                if word.startswith(prefix):
                    bare = word[len(prefix) :]
                    kinds.update(self._words.get(bare, ()), self._stems.get(bare, ()))
        return tuple(sorted(kinds))


@lru_cache(maxsize=1)
def cues() -> Cues:
    """The list that ships; read once."""
    return Cues.parse(CUES.read_text(encoding="utf-8"))
