"""What was made of a value, remembered for one request: a conversation says the same numbers again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

MOST_SEEN: Final = 20_000
"""Values of one request; further ones are looked at each time."""


class Seen:
    """The results of checks by their values. Goes with the request: what is in it is personal data."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[tuple[Any, str], Any] = {}

    def of(self, check: Callable[[str], Result], value: str) -> Result:
        """What the check says of the value.

        Args:
            check: says the same of the same value each time.
        """
        key = check, value
        try:
            known: Result = self._results[key]
        except KeyError:
            known = check(value)
            if len(self._results) < MOST_SEEN:
                self._results[key] = known
        return known
