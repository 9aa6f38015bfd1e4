"""The filters of the usage log, as a URL's query gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, ClassVar, Final, get_args

from hermes.errors import InvalidRequest
from hermes.metadata import whole
from hermes.types import TIERS, Source, Status

LIMIT_MAX: Final = 1000
PAGE_MAX: Final = 1_000_000

FAILED: Final = "failed"
"""Asked as a status: what ended badly in one way or another."""

FAILURES: Final[tuple[Status, ...]] = ("error", "interrupted")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "tier": TIERS,
    "status": (*get_args(Status), FAILED),
    "decision": get_args(Source),
    "fallback": ("0", "1"),
}
DURATION_MAX_MS: Final = 86_400_000


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

    EXACT: ClassVar[tuple[str, ...]] = (
        "request_id", "user_id", "function_name", "model", "tier", "status", "key_id", "session_key", "decision",
    )  # fmt: skip
    OTHERS: ClassVar[tuple[str, ...]] = ("fallback", "min_duration_ms", "from", "to", "limit", "page")

    request_id: str | None = None
    user_id: str | None = None
    function_name: str | None = None
    model: str | None = None
    tier: str | None = None
    status: str | None = None
    """One of `Status`, or `FAILED`."""

    key_id: str | None = None
    session_key: str | None = None
    decision: str | None = None
    fallback: bool = False
    """Only what another endpoint than the first one of its cascade has answered."""

    min_duration_ms: int | None = None
    any_of: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    """Columns with values, one of which at least must be there: what a search may mean. Empty: nothing fits."""

    since: str | None = None
    """The earliest `created_at` that counts, in its form."""

    until: str | None = None
    """The latest `created_at` that counts."""

    limit: int = 100
    page: int = 1

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> UsageFilter:
        """Reads a query: the names of `EXACT` and of `OTHERS` (`from` and `to` are inclusive); empty is not given.

        Raises:
            InvalidRequest: a parameter is not known or its value cannot be used; `param` names it.
        """
        known = (*cls.EXACT, *cls.OTHERS)
        for name in args:
            if name not in known:
                raise InvalidRequest(f"unknown parameter {name[:100]!r}{_suggestion(name, known)}", param=name[:100])
        given = {name: value.strip() for name, value in args.items() if value.strip()}
        exact: dict[str, Any] = {name: _exact(name, given[name]) for name in cls.EXACT if name in given}
        return cls(
            **exact,
            fallback=_exact("fallback", given.get("fallback", "0")) == "1",
            min_duration_ms=_duration(given.get("min_duration_ms")),
            since=_moment("from", given["from"]) if "from" in given else None,
            until=_moment("to", given["to"], is_end=True) if "to" in given else None,
            limit=_whole_number("limit", given.get("limit", "100"), LIMIT_MAX),
            page=_whole_number("page", given.get("page", "1"), PAGE_MAX),
        )

    def meets(self, name: str, columns: Any) -> Any:
        """The condition of one filter, or None where it does not matter.

        Args:
            name: of a field of this class, but for `since`, `until`, `limit`, `page`.
            columns: has the columns as attributes.
        """
        value = getattr(self, name)
        if name == "any_of" and value is not None:
            return _one_of(columns, value)
        if value is None or value is False:
            return None
        if name == "fallback":
            return columns.fallback_level > 0
        if name == "min_duration_ms":
            return columns.duration_ms >= value
        if name == "status" and value == FAILED:
            return columns.status.in_(FAILURES)
        return getattr(columns, name) == value


def _one_of(columns: Any, wanted: tuple[tuple[str, tuple[str, ...]], ...]) -> Any:
    met: Any = None
    for name, values in wanted:
        one = getattr(columns, name).in_(values)
        met = one if met is None else met | one
    return columns.id.is_null() if met is None else met


def _duration(value: str | None) -> int | None:
    return None if value is None else _whole_number("min_duration_ms", value, DURATION_MAX_MS)


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
