"""Numbers as the most lenient of providers would read them: what one of them takes for a number is billed as one.

Texts are read as Python (and so pydantic), JavaScript's `Number()` and Go read them: with blanks around them, signs,
underscores, other bases, exponents, digits of other scripts. Where they differ, the largest reading counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

MOST_CHARS: Final = 400
"""Of a text that is read: with more digits than that it is beyond every number, but for zeros."""

MOST_LISTS: Final = 8
"""Of lists within each other. JavaScript reads a list of one thing as that thing."""

MARK: Final = "\ufeff"
"""A byte order mark, which JavaScript counts among the blanks, and Python does not."""


def figure_of(value: object, otherwise: int, unread: int) -> int:
    """The number that a provider may see in a JSON value, rounded up; `unread` at most.

    Args:
        otherwise: for null, for false and true, and for numbers that are not over 0.
        unread: for what nobody reads as a number, and for what is not finite.

    >>> [figure_of(text, 1, 9999) for text in (20, " +20 ", "2_0", "2e1", "0x14", "020.0", [[20]])]
    [20, 20, 20, 20, 20, 20, 20]
    >>> figure_of(None, 1, 9999), figure_of("-1", 1, 9999), figure_of("many", 1, 9999), figure_of("inf", 1, 9999)
    (1, 1, 9999, 9999)
    """
    for _ in range(MOST_LISTS):
        if not (isinstance(value, list) and len(value) == 1):
            break
        value = value[0]
    if value is None or isinstance(value, bool) or value == []:
        return otherwise
    number = _read(value) if isinstance(value, str) else value
    if not isinstance(number, (int, float)) or (isinstance(number, float) and math.isnan(number)):
        return unread
    if number <= 0:
        return otherwise
    return unread if number >= unread else math.ceil(number)


def _read(text: str) -> float | None:
    """The largest number that anybody reads in a text; None where nobody reads one."""
    text = text.strip().strip(MARK).strip()
    if not text:
        return 0  # JavaScript's
    if len(text) > MOST_CHARS:
        text = text.lstrip("+0_") or "0"  # it may be mostly zeros
        if len(text) > MOST_CHARS:
            return math.inf
    readings = [_tried(read, text) for read in _READERS]
    return max((reading for reading in readings if reading is not None), default=None)


def _tried(read: Callable[[str], float], text: str) -> float | None:
    try:
        return read(text)
    except OverflowError:
        return math.inf
    except ValueError:
        return None


def _as_octal(text: str) -> float:
    """Go's, of a base that the text is to tell: 0777 is 511."""
    return int(text, 8)


def _as_told(text: str) -> float:
    """Go's and JavaScript's 0x, 0o and 0b."""
    return int(text, 0)


def _as_hexadecimal(text: str) -> float:
    """Go's, with an exponent: 0x1p4 is 16. Without an 0x it would be another number than everybody's."""
    if "x" not in text.lower():
        raise ValueError
    return float.fromhex(text.replace("_", ""))


_READERS: Final[tuple[Callable[[str], float], ...]] = (int, float, _as_told, _as_octal, _as_hexadecimal)
