"""How alike two answers are: texts by their words, tool calls by their structure.

The similarity of texts is Dice's over words and pairs of neighbouring words: 1 for equal texts, 0 where nothing is
shared. It is a figure for people who look for the samples that differ, and decides nothing: two good answers may share
few words. Tool calls are the same if names and arguments are, as JSON, in whatever order objects and calls stand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from hermes.trials import Spoken

MOST_CHARS: Final = 20_000
"""Of each text, for its words; the rest is not looked at. Of the arguments of all calls, to be read as JSON."""

LEAST_OF_A_CALL: Final = 50
"""So many characters a call counts at least: ten thousand short ones are as much work as a long one."""

MOST_SPLIT_CHARS: Final = 200_000
"""Longer texts are the same only to the character."""


def similarity(one: Spoken, other: Spoken) -> float:
    """0..1. Where tools are called, the mean of texts and calls; texts that both lack say nothing.

    Blocks: a few milliseconds for texts of `MOST_CHARS`.

    >>> similarity(Spoken("the red house"), Spoken("the red car"))
    0.6
    """
    shares = []
    if one.text.strip() or other.text.strip():
        shares.append(_dice(_words(one.text), _words(other.text)))
    if one.tools or other.tools:
        shares.append(_dice(_calls(one), _calls(other)))
    return round(sum(shares) / len(shares), 4) if shares else 1.0


def is_same(one: Spoken, other: Spoken) -> bool:
    """Whether nobody could prefer one of them: the same text but for white space, and the same calls. A text that comes
    along with the same calls is not compared.

    >>> is_same(Spoken(tools=(("look", '{"a":1,"b":[2]}'),)), Spoken("I look.", (("look", '{"b": [2], "a": 1.0}'),)))
    True
    """
    if one.tools or other.tools:
        return _calls(one) == _calls(other)
    if one.text == other.text or max(len(one.text), len(other.text)) > MOST_SPLIT_CHARS:
        return one.text == other.text
    return one.text.split() == other.text.split()


def as_text(answer: Spoken) -> str:
    """The answer as people and judges read it: its text, then one line for each call."""
    lines = [answer.text] if answer.text else []
    lines += [f"[calls {name} with {arguments}]" for name, arguments in _written(answer)]
    return "\n".join(lines)


def _dice(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0


def _words(text: str) -> Counter[str]:
    words = text[:MOST_CHARS].casefold().split()
    return Counter([*words, *(f"{a} {b}" for a, b in pairwise(words))])


def _calls(answer: Spoken) -> Counter[str]:
    return Counter(f"{name} {arguments}" for name, arguments in _written(answer))


def _written(answer: Spoken) -> Iterator[tuple[str, str]]:
    """The calls with their arguments in the one form that equal ones share. What is no JSON, or comes after
    `MOST_CHARS`, stays as it is, and equals only itself.
    """
    left = MOST_CHARS
    for name, arguments in answer.tools:
        left -= max(LEAST_OF_A_CALL, len(arguments))
        yield name, _in_one_form(arguments) if left >= 0 else arguments


def _in_one_form(arguments: str) -> str:
    try:
        value = json.loads(arguments) if arguments.strip() else {}
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _plain(value: Any) -> Any:
    """Numbers that are equal are written alike: 1.0 as 1."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
