"""Which rows belong together: what one of them teaches is known of the others too, so no split may part them.

Variations of one text (with other numbers, say) are a family, and so are the messages of one conversation. A caller
that names the same conversation for ever would be a single family, though: of a long one, so many messages in a row
are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from hermes.learning.traffic import Row

LONGEST: Final = 50
"""Messages of one conversation that stay together."""

LEAST_PARTS: Final = 20
"""Into so many parts all rows can be split at least, even if they are one conversation."""

_DIGITS = re.compile(r"\d+")


def families_of(rows: Sequence[Row]) -> list[str]:
    """The family of each row; rows of one conversation stand in the order of time, whichever way."""
    plain = [_DIGITS.sub("0", row.text.casefold()) for row in rows]
    head = {text: text for text in plain}
    for members in _conversations(rows):
        for one, other in pairwise(members):
            a, b = sorted((_found(head, plain[one]), _found(head, plain[other])))
            head[b] = a
    return [_found(head, text) for text in plain]


def _conversations(rows: Sequence[Row]) -> list[list[int]]:
    at: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.conversation:
            at[row.conversation].append(number)
    longest = max(1, min(LONGEST, len(rows) // LEAST_PARTS))
    return [members[start : start + longest] for members in at.values() for start in range(0, len(members), longest)]


def _found(head: dict[str, str], text: str) -> str:
    """The head of a text's family; the way to it is made shorter."""
    while head[text] != text:
        head[text] = head[head[text]]
        text = head[text]
    return text
