"""The filters of the usage log, as a URL's query gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import ClassVar, Final, get_args

from hermes.errors import InvalidRequest
from hermes.metadata import whole
from hermes.types import TIERS, Status

LIMIT_MAX: Final = 1000
PAGE_MAX: Final = 1_000_000

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {"tier": TIERS, "status": get_args(Status)}


def utc_text(moment: datetime) -> str:
    """A time as `created_at` has it: ISO 8601, UTC, milliseconds (the rest is cut), `Z`. Without a zone it is UTC.

    >>> utc_text(datetime(2026, 5, 10, 13, 33, 0, 123_999))
    '2026-05-10T13:33:00.123Z'
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which rows are wanted, newest first. What is None does not matter."""

    EXACT: ClassVar[tuple[str, ...]] = ("request_id", "user_id", "function_name", "model", "tier", "status")

    request_id: str | None = None
    user_id: str | None = None
    function_name: str | None = None
    model: str | None = None
    tier: str | None = None
    status: str | None = None
    since: str | None = None
    """The earliest `created_at` that counts, in its form."""

    until: str | None = None
    """The latest `created_at` that counts."""

    limit: int = 100
    page: int = 1

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> UsageFilter:
        """Reads a query: the names of `EXACT`, `from` and `to` (both inclusive), `limit`, `page`; empty is not given.

        Raises:
            InvalidRequest: a parameter is not known or its value cannot be used; `param` names it.
        """
        known = (*cls.EXACT, "from", "to", "limit", "page")
        for name in args:
            if name not in known:
                raise InvalidRequest(f"unknown parameter {name[:100]!r}{_suggestion(name, known)}", param=name[:100])
        given = {name: value.strip() for name, value in args.items() if value.strip()}
        return cls(
            **{name: _exact(name, given[name]) for name in cls.EXACT if name in given},
            since=_moment("from", given["from"]) if "from" in given else None,
            until=_moment("to", given["to"], is_end=True) if "to" in given else None,
            limit=_whole_number("limit", given.get("limit", "100"), LIMIT_MAX),
            page=_whole_number("page", given.get("page", "1"), PAGE_MAX),
        )


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(name.lower()[:100], known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def _exact(name: str, value: str) -> str:
    if "\0" in value or whole(value) != value:  # databases refuse the question
        raise InvalidRequest(f"{name} must not hold a NUL character or half of a surrogate pair", param=name)
    choices = CHOICES.get(name)
    if choices is not None and value not in choices:
        raise InvalidRequest(f"{name} must be one of {', '.join(choices)}", param=name)
    return value


def _whole_number(name: str, value: str, most: int) -> int:
    # isdecimal alone would let digits of any script through, int() also signs and underscores.
    if not (value.isascii() and value.isdecimal() and len(value) <= 9 and 1 <= int(value) <= most):
        raise InvalidRequest(f"{name} must be a whole number from 1 to {most}", param=name)
    return int(value)


def _moment(name: str, value: str, *, is_end: bool = False) -> str:
    """A time as the column has it. A bare date as an end means its last millisecond."""
    # In a query an unescaped "+" arrives as a blank: 2026-05-10T12:00:00 02:00.
    text = value.replace(" ", "+") if "T" in value else value
    try:
        moment = datetime.fromisoformat(text)
        if is_end and len(text) <= len("2026-05-10"):
            moment += timedelta(days=1, milliseconds=-1)
        return utc_text(moment)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{name} must be an ISO 8601 date or time, for instance 2026-05-10T12:00:00Z", param=name
        ) from None
