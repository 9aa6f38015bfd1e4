"""Cuts a text into the word pieces that BERT's models read: its beginning and its end, as numbers.

The rules are those of the uncased model: lower case without accents, every punctuation mark and Chinese character by
itself, then the longest known beginning again and again. A test compares it with the tokenizers library, which is not
needed here: that would bring a dozen packages for sixty lines.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

PIECES = Path(__file__).resolve().parent / "wordpieces.txt"
"""BERT's uncased vocabulary; see NOTICE."""

HEAD_PIECES: Final = 48
TAIL_PIECES: Final = 16
"""So much of a long text is read: more of it tells no more about its tier, and takes longer."""

HEAD_CHARS: Final = 600
TAIL_CHARS: Final = 300
"""Where these pieces are looked for."""

MOST_WORD_CHARS: Final = 100
CACHED_WORDS: Final = 20_000

HAN: Final = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0xF900, 0xFAFF))


class WordPieces:
    """A vocabulary, and the pieces of the words that were seen lately. Not for two threads at once."""

    def __init__(self, path: Path = PIECES) -> None:
        self._numbers = {piece: number for number, piece in enumerate(path.read_text(encoding="utf-8").splitlines())}
        self._unknown, self._begin, self._end = (self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self._cached: dict[str, list[int]] = {}

    def numbers(self, text: str) -> list[int]:
        """The pieces between the marks of beginning and end: all of a short text, else head and tail.

        Blocks: 0.1 ms.
        """
        if len(text) <= HEAD_CHARS + TAIL_CHARS:
            found = self._pieces(text)
            if len(found) > HEAD_PIECES + TAIL_PIECES:
                found = [*found[:HEAD_PIECES], *found[-TAIL_PIECES:]]
        else:
            head, tail = self._pieces(text[:HEAD_CHARS]), self._pieces(text[-TAIL_CHARS:])
            found = [*head[:HEAD_PIECES], *tail[-TAIL_PIECES:]]
        return [self._begin, *found, self._end]

    def _pieces(self, text: str) -> list[int]:
        return [number for word in words(text) for number in self._of(word)]

    def _of(self, word: str) -> list[int]:
        known = self._cached.get(word)
        if known is None:
            known = self._cut(word)
            if len(self._cached) < CACHED_WORDS:
                self._cached[word] = known
        return known

    def _cut(self, word: str) -> list[int]:
        if len(word) > MOST_WORD_CHARS:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._numbers.get(word[start:end] if start == 0 else f"##{word[start:end]}")
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers


def words(text: str) -> Iterator[str]:
    """The words of a text, punctuation marks and Chinese characters each one of its own.

    >>> list(words("Café's 中文?"))
    ['cafe', "'", 's', '中', '文', '?']
    """
    word: list[str] = []
    for char in unicodedata.normalize("NFD", text.lower()):
        kind = _kind(char)
        if kind == "letter":
            word.append(char)
        elif kind != "nothing":
            if word:
                yield "".join(word)
                word.clear()
            if kind == "alone":
                yield char
    if word:
        yield "".join(word)


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    code, category = ord(char), unicodedata.category(char)
    if char in " \t\n\r" or category == "Zs":
        return "space"
    if category == "Mn" or category[0] == "C" or code == 0xFFFD:
        return "nothing"
    is_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126 or category[0] == "P"
    if is_mark or any(first <= code <= last for first, last in HAN):
        return "alone"
    return "letter"
