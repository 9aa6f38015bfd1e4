"""What the surrogate sees of a text, for fitting and for serving alike: a prepared text, its terms, and its surface.

The text is clipped to its beginning and end, in lower case, with every digit a 0. Its terms are words and pairs of
words, and pieces of words of 2 to 5 characters. Its surface is a few dozen numbers: how long it is, how much of it is
pasted beside a small instruction, how it opens, what it holds of code, of numbers with units, and of cue words.

`words`, `word_pairs` and `pieces` give exactly the terms of scikit-learn's analyzers `word` (1, 2) and `char_wb` (2, 5)
with `prepare` as their preprocessor; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import log1p
from typing import Final

from hermes.routing.cues import HAN, Counts, cues

VERSION: Final = 1
"""Of the terms and the surface: a model fitted with another version is refused."""

HEAD_CHARS = 1500
TAIL_CHARS = 500
"""So much of a long text is read: a longer one costs no more."""

SHORTEST, LONGEST = 2, 5
"""Characters of a piece of a word."""

LEAST_INSTRUCTION = 4
"""A colon or a quote before this character begins no pasted text."""

WORD_PATTERN = r"(?u)\b\w+\b"
_WORD = re.compile(r"\w+")  # the same words, a quarter quicker

# A pattern begins with the characters that it is about, so that the rest of a text is skipped at once; and none may
# look back and forth over a run of characters: a text of one long word would take for ever.
_DIGIT = re.compile(r"\d")
_CODE = re.compile(
    r"[{};=#$:(</&|!+\-](?:(?<=[{};])\s*$|(?<==)[>=]|(?<=#)include|(?<=\$) |(?<=:):|(?<=\()\)|(?<=<)/|(?<=/)>|(?<=&)&"
    r"|(?<=\|)\||(?<=!)=|(?<=\+)\+|(?<=-)>)",
    re.MULTILINE,
)
_PASTE = re.compile(r"[:：\n\"“«'](?<!\w')")
_QUANTITY = re.compile(
    r"\d(?:\s?(?:%|k\b|m\b|ms\b|s\b|gb|mb|tb|million|mio|rows|users|writes|euros?|usd|€|\$|年|万)"
    r"|[- ](?:day|week|month|year|line|node|region|zone))"
)
_IDENTIFIER = re.compile(
    r"[_A-Z.(/-](?:(?<=[^\W_]_)(?=[^\W_])|(?<=[a-z][A-Z])|(?<=\w\()\)|(?<=-)-\w|(?<=/)\w+/\w"
    r"|(?<=\.)(?:\w+\(|(?:py|js|ts|go|java|c|sql|yaml|json|log)\b))"
)
_FORMULA = re.compile(
    r"[\^\\<>(=∫∑√≤≥≠∈∀∃→∞π](?:(?<=[\^∫∑√≤≥≠∈∀∃→∞π])|(?<=\\)[a-z]+\{|(?<=[<>])=|(?<=\b[a-z]\()[a-z]\)"
    r"|(?:(?<=[a-z]=)|(?<=[a-z]\s=))\s?[-\d(])"
)
_QUOTED = re.compile(
    r"[\"“«'](?:(?<=\")[^\"\n]{1,200}\"|(?<=“)[^”\n]{1,200}”|(?<=«)[^»\n]{1,200}»|(?<=')(?<!\w')[^'\n]{1,200}'(?!\w))"
)
_MARKED = re.compile(
    r"[{};=#$:：(</&|+\\^>∫∑√≤≥≠∈∀∃→∞π\n\"“«_]|!=|\.\w|-[->]|(?<!\w)'|[a-z][A-Z]|def |function |SELECT "
)
"""What code, identifiers, formulas, quotes and pastes cannot be without: most messages have nothing of it."""

_ASKS_A_FACT = re.compile(
    r"\s*(?:what(?:'s| is| are| does| do)|whats|who|when|where|define"
    r"|how (?:many|much|old|far|long|tall|do you (?:say|spell|pronounce))|is it|is there|does"
    r"|was ist|was bedeutet|wer|wann|wo |wie (?:viele|heißt|hoch|sagt|schreibt)"
    r"|qué|¿qué|¿quién|¿cuál|¿cuánt|¿cuándo|¿dónde|¿cómo se"
    r"|qu'est|qui |que veut|quel|combien|ما |من |متى|أين|كم |谁|什么是|哪)"
)

SURFACE: Final[tuple[str, ...]] = (
    *("length", "words", "word_length", "digits", "non_ascii", "upper_case", "question_marks"),
    *("code_fence", "code", "identifiers", "formulas", "quantities", "quoted"),
    *("instruction", "light_with_paste", "asks_a_fact", "opens_light", "opens_build", "opens_reason"),
    *("opens_chat", "opens_expert", "build", "reason", "light", "chat", "tech", "expert", "limits"),
    *("jargon", "jargon_unless_easy", "nothing_hard", "chat_and_task"),
)
"""The names of the surface's numbers, in their order."""

_ASCII_DIGIT = re.compile(r"[0-9]")
_UPPER = re.compile(r"[A-Z]")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_IS_HAN = re.compile(f"[{HAN}]+")


def fingerprint() -> str:
    """What a model must have been fitted with to be served here."""
    return f"{VERSION}:{cues().fingerprint}"


def clip(text: str) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= HEAD_CHARS + TAIL_CHARS else f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"


def prepare(text: str) -> str:
    """A clipped text as its terms are read from it.

    >>> prepare("In 1998, HTTP/1.1")
    'in 0000, http/0.0'
    """
    return _DIGIT.sub("0", text.lower())


def words(prepared: str) -> list[str]:
    """The words of a prepared text; a run of Chinese is one word."""
    return _WORD.findall(prepared)


def word_pairs(listed: list[str]) -> Iterator[str]:
    """Neighbouring words, joined by a space."""
    return (f"{first} {second}" for first, second in pairwise(listed))


def pieces(word: str) -> list[str]:
    """The pieces of a word of a prepared text, spaces at its ends included.

    >>> pieces("is")
    [' i', 'is', 's ', ' is', 'is ', ' is ']
    """
    padded = f" {word} "
    cut: list[str] = []
    for size in range(SHORTEST, LONGEST + 1):
        if len(padded) <= size:
            return [*cut, padded]
        cut += [padded[start : start + size] for start in range(len(padded) - size + 1)]
    return cut


def surface(text: str, prepared: str, listed: list[str]) -> tuple[float, ...]:
    """The numbers of `SURFACE` for a clipped text, its prepared form and its words."""
    length = max(len(text), 1)
    is_ascii, has_digits = text.isascii(), "0" in prepared
    non_ascii = 0 if is_ascii else len(_NON_ASCII.findall(text))
    # A Chinese character says about as much as three letters.
    han = 0 if is_ascii else sum(map(len, _IS_HAN.findall(text)))
    counts = cues().count(prepared, listed)
    is_marked = _MARKED.search(text) is not None
    paste = _PASTE.search(text, LEAST_INSTRUCTION) if is_marked else None
    instruction = paste.start() if paste else len(text)
    asks_a_fact = _ASKS_A_FACT.match(prepared) is not None
    return (
        log1p(len(text) + 2 * han),
        log1p(len(listed) + han / 2),
        log1p(sum(map(len, listed)) / max(len(listed), 1)),
        log1p(len(_ASCII_DIGIT.findall(text))) if has_digits else 0.0,
        non_ascii / length,
        len(_UPPER.findall(text)) / length,
        log1p(text.count("?") + text.count("？") + text.count("؟")),
        float("```" in text),
        float(is_marked and _has_code(text)),
        log1p(len(_IDENTIFIER.findall(text))) if is_marked else 0.0,
        log1p(len(_FORMULA.findall(text))) if is_marked else 0.0,
        log1p(len(_QUANTITY.findall(prepared))) if has_digits else 0.0,
        sum(map(len, _QUOTED.findall(text))) / length if is_marked else 0.0,
        log1p(instruction),
        *_hints(counts, asks_a_fact, 1 - instruction / length, len(listed) + han / 2),
    )


def _has_code(text: str) -> bool:
    return "def " in text or "function " in text or "SELECT " in text or _CODE.search(text) is not None


def _hints(counts: Counts, asks_a_fact: bool, pasted: float, length_words: float) -> tuple[float, ...]:
    """The numbers that are made of cue words."""
    build, reason, light, chat, tech, math, expert, limits = counts.total
    opens_build, opens_reason, opens_light, opens_chat, _, _, opens_expert, _ = counts.opening
    is_easy = asks_a_fact or opens_light
    jargon, work = tech + math + expert, build + reason
    return (
        opens_light * pasted,
        float(asks_a_fact),
        *map(float, (opens_light, opens_build, opens_reason, opens_chat, opens_expert)),
        *map(log1p, (build, reason, light, chat, tech, expert, limits, jargon)),
        0.0 if is_easy else jargon / max(length_words, 1),
        float(not is_easy and jargon == 0 and work == 0),
        float(opens_chat and work + jargon > 1),
    )
