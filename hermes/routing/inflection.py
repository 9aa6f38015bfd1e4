"""The -s, -es, -ed, -d, -ing and -er forms of an English word, as they are spelled.

Rules of spelling instead of mere suffixes keep other words out: `not` has no form `notes`, `plan` none `planes`.
"""

from __future__ import annotations

import re

VOWELS = frozenset("aeiouy")
SIBILANTS = ("s", "x", "z", "ch", "sh")
LEAST_LETTERS = 3
"""Shorter words have no forms: *hi* must not match *his*, nor *on* *ones*."""

_VOWEL_GROUP = re.compile("[aeiouy]+")


def inflections(word: str) -> set[str]:
    """The forms of a lower-case word of letters a-z, without the word itself; none for any other word.

    >>> sorted(inflections("debug"))
    ['debuged', 'debuger', 'debugged', 'debugger', 'debugging', 'debuging', 'debugs']
    >>> sorted(inflections("configure"))
    ['configured', 'configurer', 'configures', 'configuring']
    """
    if len(word) < LEAST_LETTERS or not (word.isascii() and word.isalpha()):
        return set()
    return _plurals(word) | _verbal(word)


def _plurals(word: str) -> set[str]:
    """-s and -es. The bare -s is also what an apostrophe leaves: the copy's, the fix's."""
    forms = set() if word.endswith("s") else {word + "s"}
    if word.endswith((*SIBILANTS, "o")):
        forms.add(word + "es")
    if _ends_in_consonant_y(word):
        forms.add(word[:-1] + "ies")
    return forms


def _verbal(word: str) -> set[str]:
    """-ed, -d, -er and -ing."""
    if word.endswith("ie"):
        return {word + "d", word + "r", word[:-2] + "ying"}
    if word.endswith("e"):
        stem = word if word.endswith(("ee", "oe", "ye")) else word[:-1]
        return {word + "d", word + "r", stem + "ing"}
    if _ends_in_consonant_y(word):
        return {word[:-1] + "ied", word[:-1] + "ier", word + "ing"}
    stems = _doubled(word) or {word}
    forms = {stem + suffix for stem in stems for suffix in ("ed", "er", "ing")}
    if word.endswith(("s", "z")):
        forms |= {stem + "es" for stem in stems}
    return forms


def _doubled(word: str) -> set[str]:
    """The stems before a vowel where the last consonant doubles: always in one syllable, perhaps in several."""
    if word.endswith("ic"):
        return {word, word + "k"}
    before, vowel, last = word[-3], word[-2], word[-1]
    after_qu = vowel in "iae" and word[-4:-2] == "qu"
    closed = last not in VOWELS and last not in "wx" and vowel in VOWELS and (before not in VOWELS or after_qu)
    if not closed:
        return set()
    twice = word + last
    return {twice} if len(_VOWEL_GROUP.findall(word)) == 1 else {word, twice}


def _ends_in_consonant_y(word: str) -> bool:
    return word[-1] == "y" and word[-2] not in VOWELS
