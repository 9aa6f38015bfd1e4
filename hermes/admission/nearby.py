"""Words that stand shortly before a number and say what it is."""

from __future__ import annotations

import re
from bisect import bisect_right


class Nearby:
    """The words of one kind in one text. They are looked for when somebody asks for the first time, and only once:
    a text may hold hundreds of numbers.
    """

    __slots__ = ("_ends", "_text", "_words")

    def __init__(self, words: re.Pattern[str], text: str) -> None:
        """
        Args:
            words: in small letters.
        """
        self._words = words
        self._text = text
        self._ends: list[int] | None = None

    def before(self, start: int, chars: int) -> int | None:
        """Where the last word ends that ends within so many characters before a place; None: there is none."""
        if self._ends is None:
            lowered = self._text.lower()
            same = lowered if len(lowered) == len(self._text) else self._text  # a few letters become two
            self._ends = [match.end() for match in self._words.finditer(same)]
        number = bisect_right(self._ends, start)
        return self._ends[number - 1] if number and self._ends[number - 1] >= start - chars else None
