"""What Hermes reads of a request's `metadata`, within bounds: names, a session, classes of data.

A name is cut, as it is only shown and counted. A session or a class of data is refused instead where it is too long:
cut, two conversations would be taken for one, or a rule would miss what it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes.errors import InvalidRequest

MAX_NAME_CHARS: Final = 256
"""Fits every index of a database."""

MAX_SESSION_CHARS: Final = 512
MAX_CLASSES: Final = 64


def name_of(source: Mapping[str, Any], *spellings: str) -> str | None:
    """A name in one of its spellings, cut; numbers count as their text. NUL characters, which no row can hold, are left
    out here already: budgets and limits must count for the name that the rows have.

    >>> name_of({"userId": " alice "}, "user_id", "userId"), name_of({"user_id": 7}, "user_id"), name_of({}, "user_id")
    ('alice', '7', None)
    """
    for spelling in spellings:
        value = source.get(spelling)
        if isinstance(value, str | int) and not isinstance(value, bool):
            text = str(value).replace("\0", "").strip()[:MAX_NAME_CHARS].rstrip()
            if text:
                return whole(text)
    return None


def whole(text: str) -> str:
    """The text with halves of surrogate pairs replaced: JSON can spell them, but nothing else takes them.

    >>> whole("a\\ud800b"), whole("\\ud83d\\ude00")
    ('a�b', '😀')
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def session_of(metadata: Mapping[str, Any]) -> str | None:
    """The session that the caller names; None where none is.

    Raises:
        InvalidRequest: it is no text or number, or too long.
    """
    value = metadata.get("session_id")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidRequest("metadata.session_id must be a text.", param="metadata.session_id")
    if len(text := str(value)) > MAX_SESSION_CHARS:
        raise InvalidRequest(
            f"metadata.session_id must have {MAX_SESSION_CHARS} characters at most.", param="metadata.session_id"
        )
    return text


def classes_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes of data that a request says it holds: a list, or one text with commas between them.

    OpenAI's own metadata takes texts only, hence the second form. Where both spellings are there, both count: an empty
    one must not hide the other.

    Raises:
        InvalidRequest: they are something else, or too many, or too long.

    >>> classes_of({"data_classes": None, "dataClasses": "customer, staff"})
    ('customer', 'staff')
    """
    if "dataClasses" not in metadata:
        return _classes(metadata.get("data_classes"))
    return tuple(dict.fromkeys(_classes(metadata.get("data_classes")) + _classes(metadata["dataClasses"])))


def _classes(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = value.split(",", MAX_CLASSES) if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise _wrong_classes("must be a list of texts")
    if len(listed) > MAX_CLASSES:
        raise _wrong_classes(f"must have {MAX_CLASSES} entries at most")
    if any(len(item) > MAX_NAME_CHARS for item in listed):
        raise _wrong_classes(f"must hold texts of {MAX_NAME_CHARS} characters at most")
    return tuple(whole(name) for item in listed if (name := item.strip()))


def _wrong_classes(what: str) -> InvalidRequest:
    return InvalidRequest(f"metadata.data_classes {what}.", param="metadata.data_classes")
