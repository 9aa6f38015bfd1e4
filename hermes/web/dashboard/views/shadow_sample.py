"""A sample of a shadow run: both answers side by side, and what each has that the other has not."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from hermes.trials import ShadowReply, Side
from hermes.web.dashboard.marks import duration_text, money_text

MOST_WORDS: Final = 400
"""Of each answer in which words are marked that the other has not."""


@dataclass(frozen=True, slots=True)
class Word:
    """Words of an answer; marked where the other answer has not got them."""

    text: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One side of a sample."""

    model: str
    facts: str
    words: tuple[Word, ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class SamplePane:
    """The sample that is shown."""

    reply: ShadowReply
    primary: Answer
    target: Answer
    orders: str
    at: int
    of: int


def sample_of(reply: ShadowReply, at: int, of: int) -> SamplePane:
    """A sample, its answers side by side."""
    ours, theirs = marked(reply.primary.answer or "", reply.target.answer or "")
    orders = {"": "", "pt": "A was read first", "tp": "B was read first"}.get(reply.orders, "read in both orders")
    return SamplePane(reply, _answer(reply.primary, ours), _answer(reply.target, theirs), orders, at, of)


def marked(one: str, other: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Both texts in pieces; those that the other has not got are marked. Long texts are not marked.

    >>> [word.text for word in marked("we meet on Friday", "we meet by Friday")[1] if word.is_own]
    ['by ']
    """
    words, others = _split(one), _split(other)
    if not one or not other or max(len(words), len(others)) > MOST_WORDS:
        return (Word(one, False),), (Word(other, False),)
    ours: list[Word] = []
    theirs: list[Word] = []
    matcher = SequenceMatcher(None, [w.strip() for w in words], [w.strip() for w in others], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if a < b:
            ours.append(Word("".join(words[a:b]), tag != "equal"))
        if c < d:
            theirs.append(Word("".join(others[c:d]), tag != "equal"))
    return tuple(ours), tuple(theirs)


def _split(text: str) -> list[str]:
    """Words, each with the white space behind it."""
    words: list[str] = []
    for line in text.splitlines(keepends=True):
        for word in line.split(" "):
            words.append(f"{word} ")
        words[-1] = words[-1][:-1]
    return words


def _answer(side: Side, words: tuple[Word, ...]) -> Answer:
    facts = [duration_text(side.latency_ms)] if side.latency_ms is not None else []
    facts += [money_text(side.nanousd / 1e9)] if side.nanousd is not None else []
    facts += [f"{side.completion_tokens:,} tokens"] if side.completion_tokens is not None else []
    return Answer(side.model, ", ".join(facts), words, side.error)
