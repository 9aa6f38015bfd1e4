"""Provider keys in turn: which one is asked, and which ones rest after a 429. Shared by all workers.

A rest is only ever lengthened: a late 429 with a short `Retry-After` must not wake a key that another answer has put to
rest for an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from hermes.state.pauses import Pauses
from hermes.state.store import StateStore
from hermes.types import Endpoint, ProviderKey

DEFAULT_REST_S = 60.0
LONGEST_REST_S = 3600.0


class Keyring:
    """Chooses among an endpoint's keys."""

    def __init__(self, store: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._pauses = Pauses(store, clock)

    def usable(self, endpoint: Endpoint) -> list[ProviderKey | None]:
        """The keys that do not rest, in order; `[None]` for an endpoint that needs none."""
        if not endpoint.keys:
            return [] if endpoint.needs_key else ([None] if self._rest_left(endpoint, None) <= 0 else [])
        return [key for key in endpoint.keys if self._rest_left(endpoint, key) <= 0]

    def rest(self, endpoint: Endpoint, key: ProviderKey | None, seconds: float) -> None:
        """Lets the key rest for at least so long."""
        if seconds > self._rest_left(endpoint, key):
            self._pauses.begin(_name(endpoint, key), seconds)

    def shortest_rest_s(self, endpoint: Endpoint) -> float | None:
        """When the first of the resting keys comes back, in seconds; None where none rests."""
        keys: tuple[ProviderKey | None, ...] = endpoint.keys or (None,)
        lefts = [left for key in keys if (left := self._rest_left(endpoint, key)) > 0]
        return min(lefts, default=None)

    def _rest_left(self, endpoint: Endpoint, key: ProviderKey | None) -> float:
        return self._pauses.left_s(_name(endpoint, key))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that an answer asks to wait: `Retry-After` as seconds or as a date, or OpenAI's `retry-after-ms`.

    Returns:
        None where there is none, or one that makes no sense (a date in the past too); at most an hour.

    >>> retry_after_s({"retry-after": "7"}, 0.0), retry_after_s({"retry-after": "soon"}, 0.0)
    (7.0, None)

    Source: RFC 9110, section 10.2.3.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return min(milliseconds / 1000, LONGEST_REST_S)
    text = headers.get("retry-after", "").strip()
    seconds = _number(text)
    if seconds is None and text and not _is_numeric(text):
        seconds = _until_date(text, now)
    return None if seconds is None else min(seconds, LONGEST_REST_S)


def _until_date(text: str, now: float) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if seconds > 0 else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _is_numeric(text: str) -> bool:
    return text.lstrip("+-").replace(".", "", 1).isdigit()


def _name(endpoint: Endpoint, key: ProviderKey | None) -> str:
    """By endpoint, not by provider: providers limit a key for each model by itself."""
    return f"rest:{endpoint.id}:{key.env if key else '-'}"
