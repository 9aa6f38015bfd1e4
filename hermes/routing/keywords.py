"""Finds an operator's keywords in a message: whole words and phrases, their forms, and words with one typo.

All that can be known before a message comes is worked out once for a list: every form of every keyword word goes into a
dictionary. A single typo leaves one half of a word as it was, so the forms also stand under their first and second
halves: a few look-ups find what a misspelled word may be, and the Levenshtein distance decides. What a word of a text
means is kept, so that a common word costs one look-up. No regular expression is made of keywords: one text could hold
it up for seconds.

Three ways of matching:

* word by word: *good mornings*, *doesnt wrok* with a typo in each word;
* joined: the parts stand together or apart in another way, *step-bystep*, *set up* for *setup*;
* literally, for keywords with letters of a script without spaces or with symbols in them: *分析*, *c++*, *node.js*.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from Levenshtein import distance

from hermes.routing.inflection import inflections
from hermes.routing.reading import Reading
from hermes.routing.words import english

TYPO_LETTERS = 5
"""Words of fewer letters must be spelled rightly."""

CACHE_WORDS = 4096
LONGEST_WORD = 64
"""Letters; longer words of a text are neither matched with typos nor kept, so that no text can fill the memory."""

BEFORE_KEYWORD = " \t\r\n\"'`([{<*¿¡"
AFTER_KEYWORD = " \t\r\n\"'`)]}>*.,;:!?"
"""Punctuation that an operator may have written around a keyword without meaning it."""


@dataclass(frozen=True, slots=True)
class Match:
    """A keyword that was found, and where: words `start` to `end` (exclusive) of a run of the reading."""

    keyword: str
    run: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Word:
    """What one word of a text means."""

    parts: tuple[str, ...]
    """The keyword words that it stands for."""

    begins_more: bool
    """Whether a keyword that is written together begins with it."""


class KeywordSet:
    """A list of keywords, made ready.

    >>> keywords = KeywordSet(["error", "step by step", "hi"])
    >>> [keywords.find(text) for text in ("Two ERRORS", "a step-by-step guide", "this terror")]
    ['error', 'step by step', None]
    """

    def __init__(self, keywords: Iterable[str], dictionary: Container[str] | None = None) -> None:
        self._dictionary = english() if dictionary is None else dictionary
        self._forms: dict[str, set[str]] = {}
        self._heads: dict[str, list[str]] = {}
        self._tails: dict[str, list[str]] = {}
        self._joined: dict[str, str | None] = {}  # None: only the beginning of one
        self._phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self._literals: list[tuple[str, str]] = []
        self._meanings: dict[str, _Word | None] = {}
        for keyword in keywords:
            self._add(keyword)

    def find(self, text: str | Reading) -> str | None:
        """The first keyword in a text, as the operator wrote it; None where there is none."""
        reading = text if isinstance(text, Reading) else Reading.of(text)
        for match in self._matches(reading):
            return match.keyword
        for needle, keyword in self._literals:
            if needle in reading.squeezed and next(reading.occurrences(needle), None) is not None:
                return keyword
        return None

    def left_over(self, text: str | Reading, fillers: Container[str] = frozenset()) -> list[str]:
        """The words outside every keyword and filler.

        Where there are no spaces between words, two letters count as one.
        """
        reading = self._without_literals(text if isinstance(text, Reading) else Reading.of(text))
        covered = {(match.run, at) for match in self._matches(reading) for at in range(match.start, match.end)}
        words = [
            word
            for run, words in enumerate(reading.runs)
            for at, word in enumerate(words)
            if (run, at) not in covered and word not in fillers
        ]
        pieces = [piece for piece in reading.glued if piece not in fillers]
        return words + [piece[at : at + 2] for piece in pieces for at in range(0, len(piece), 2)]

    # -- making ready

    def _add(self, keyword: str) -> None:
        bare = keyword.lstrip(BEFORE_KEYWORD).rstrip(AFTER_KEYWORD)
        reading = Reading.of(bare if any(map(str.isalnum, bare)) else keyword)
        if not reading.squeezed:
            return
        words = reading.runs[0] if reading.runs else []
        if "".join(words) != reading.squeezed:
            self._literals.append((reading.squeezed, keyword))
            return
        whole = "".join(words)
        self._add_joined(whole, keyword)
        for parts in dict.fromkeys(((whole,), tuple(words))):
            self._phrases.setdefault(parts[0], []).append((parts, keyword))
            for part in parts:
                self._add_part(part)

    def _add_joined(self, whole: str, keyword: str) -> None:
        for form in (whole, *inflections(whole)):
            for length in range(1, len(form)):
                self._joined.setdefault(form[:length], None)
            self._joined[form] = self._joined.get(form) or keyword

    def _add_part(self, part: str) -> None:
        for form in {part, *inflections(part)}:
            owners = self._forms.setdefault(form, set())
            if _may_have_typo(part) and not any(map(_may_have_typo, owners)):
                middle = len(form) // 2
                self._heads.setdefault(form[:middle], []).append(form)
                self._tails.setdefault(form[middle:], []).append(form)
            owners.add(part)

    # -- matching

    def _matches(self, reading: Reading) -> Iterator[Match]:
        kept, meaning = self._meanings, self._meaning
        for run, words in enumerate(reading.runs):
            for start, text_word in enumerate(words):
                word = kept[text_word] if text_word in kept else meaning(text_word)
                if word is None:
                    continue
                if word.parts:
                    yield from self._phrases_at(word, words, run, start)
                if word.begins_more:
                    yield from self._joined_at(words, run, start)

    def _phrases_at(self, word: _Word, words: list[str], run: int, start: int) -> Iterator[Match]:
        for part in word.parts:
            for parts, keyword in self._phrases.get(part, ()):
                end = start + len(parts)
                if end <= len(words) and all(map(self._stands_for, words[start + 1 : end], parts[1:])):
                    yield Match(keyword, run, start, end)

    def _joined_at(self, words: list[str], run: int, start: int) -> Iterator[Match]:
        together = words[start]
        for end in range(start + 1, len(words)):
            if together[-1].isdigit() and words[end][0].isdigit():
                return  # 50 2 is not 502
            together += words[end]
            if together not in self._joined:
                return
            keyword = self._joined[together]
            if keyword is not None:
                yield Match(keyword, run, start, end + 1)

    def _stands_for(self, text_word: str, part: str) -> bool:
        word = self._meaning(text_word)
        return word is not None and part in word.parts

    def _meaning(self, text_word: str) -> _Word | None:
        if text_word in self._meanings:
            return self._meanings[text_word]
        parts = self._forms.get(text_word) or self._corrected(text_word)
        begins_more = text_word in self._joined
        word = _Word(tuple(sorted(parts)), begins_more) if parts or begins_more else None
        if len(text_word) <= LONGEST_WORD:
            if len(self._meanings) >= CACHE_WORDS:
                self._meanings.clear()
            self._meanings[text_word] = word
        return word

    def _corrected(self, text_word: str) -> set[str]:
        """The keyword words that it would be without one typo."""
        letters = len(text_word)
        if not TYPO_LETTERS - 1 <= letters <= LONGEST_WORD:
            return set()
        # The middle of a form that has one letter less, as many or one more is at one of two places, from either end.
        low, high = (letters - 1) // 2, (letters + 1) // 2
        heads, tails = self._heads, self._tails
        near = {
            form
            for forms in (
                heads.get(text_word[:low]),
                heads.get(text_word[:high]),
                tails.get(text_word[low:]),
                tails.get(text_word[high:]),
            )
            if forms
            for form in forms
            if -2 < len(form) - letters < 2 and distance(text_word, form, score_cutoff=1) <= 1
        }
        if not near or text_word in self._dictionary:
            return set()
        return {part for form in near for part in self._forms[form] if _may_have_typo(part)}

    def _without_literals(self, reading: Reading) -> Reading:
        for needle, _ in self._literals:
            for start, end in reading.occurrences(needle):
                hole = "\0" * (end - start)
                reading = Reading(reading.normal[:start] + hole + reading.normal[end:])
        return reading


def _may_have_typo(part: str) -> bool:
    return len(part) >= TYPO_LETTERS and part.isalpha()


@lru_cache(maxsize=64)
def keyword_set(keywords: tuple[str, ...]) -> KeywordSet:
    """The one KeywordSet of a list; an equal list is made ready once only.

    Blocks: 20 ms for 150 keywords the first time.
    """
    return KeywordSet(keywords)
