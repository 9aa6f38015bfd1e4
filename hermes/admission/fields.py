"""Reads the fields of a definition that an operator sends (a key, a budget), one after another.

Every reader names the field in its refusal, so that a script's author sees what to mend. What nobody has read is
unknown, and refused as well: a misspelt limit must not be no limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from hermes.errors import InvalidRequest

SHOWN_CHARS = 60
"""How much of an unknown name a refusal repeats."""


class Fields:
    """The fields of one JSON object. A field that is null counts as not given."""

    def __init__(self, body: object, known: Collection[str], where: str = "") -> None:
        """Takes an object whose fields are all among the known ones.

        Raises:
            InvalidRequest: it is no object, or has another field.
        """
        if not isinstance(body, Mapping):
            raise InvalidRequest(f"{where or 'The body'} must be a JSON object.", param=where or None)
        self._body = body
        self._prefix = f"{where}." if where else ""
        for name in body:
            if name not in known:
                shown = f"{self._prefix}{str(name)[:SHOWN_CHARS]}"
                close = get_close_matches(str(name)[:SHOWN_CHARS], known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}."
                raise InvalidRequest(f"{shown} is no field of this; {hint}", param=shown)

    def has(self, name: str) -> bool:
        """Whether the field is given."""
        return self._body.get(name) is not None

    def get(self, name: str) -> Any:
        """The field's value as it came."""
        return self._body.get(name)

    def text(self, name: str, max_chars: int) -> str:
        """A text with something in it, without blanks around it."""
        value = self._body.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(name, "must be a text that is not empty")
        return clean_text(value, f"{self._prefix}{name}", max_chars)

    def choice(self, name: str, choices: Collection[str], default: str | None = None) -> str:
        """One of the choices; the default where it is not given."""
        value = default if default is not None and not self.has(name) else self._body.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(name, f"must be one of {', '.join(choices)}")
        return value

    def choices(self, name: str, choices: Collection[str] | None) -> frozenset[str]:
        """At least one of the choices; where they are None, of any texts."""
        value = self._body.get(name)
        what = "texts" if choices is None else ", ".join(choices)
        if not isinstance(value, list) or not value:
            raise self.wrong(name, f"must be a list of at least one of {what}")
        for item in value:
            if not isinstance(item, str) or not item or (choices is not None and item not in choices):
                raise self.wrong(name, f"must only hold {what}")
        return frozenset(value)

    def whole_number(self, name: str, most: int, default: int | None = None) -> int:
        """A whole number from 0 to `most`."""
        value = default if default is not None and not self.has(name) else self._body.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.wrong(name, f"must be a whole number from 0 to {most}")
        return value

    def number(self, name: str, most: float, default: float | None = None) -> float | int:
        """A number from 0 to `most`, as precise as it came."""
        value = default if default is not None and not self.has(name) else self._body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, "must be a number")
        if not 0 <= value <= most:  # which is false of NaN too
            raise self.wrong(name, f"must be a number from 0 to {most}")
        return value

    def wrong(self, name: str, what: str) -> InvalidRequest:
        """The refusal of a field."""
        return InvalidRequest(f"{self._prefix}{name} {what}.", param=f"{self._prefix}{name}")


def clean_text(value: str, name: str, max_chars: int) -> str:
    """The text without blanks around it.

    Raises:
        InvalidRequest: it is too long, or holds characters that databases or log lines cannot take.
    """
    text = value.strip()
    if len(text) > max_chars:
        raise InvalidRequest(f"{name} must have {max_chars} characters at most.", param=name)
    if not text.isprintable():
        raise InvalidRequest(f"{name} must not hold control characters.", param=name)
    return text
