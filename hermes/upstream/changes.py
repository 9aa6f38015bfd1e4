"""What has happened to circuits lately, as all workers have seen it: for operators, who come after the event.

Changes are kept an hour, an endpoint's last failure a week, in the state store. A failure is stored once a second at
most: while an endpoint fails, it fails often.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from hermes.state.store import StateStore
from hermes.types import Endpoint

KEPT_S: Final = 3600.0
FAILURE_KEPT_S: Final = 7 * 86_400.0
FAILURE_EVERY_S: Final = 1.0

Changed = Callable[[Endpoint, str, str, int], None]


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a circuit's state."""

    at: float
    """Seconds since 1970."""

    endpoint: str
    old: str
    new: str
    failures: int


@dataclass(frozen=True, slots=True)
class Failure:
    """An endpoint's last failure that its breaker counted."""

    at: float
    message: str


class CircuitChanges:
    """Remembers; `changed` is what breakers call."""

    def __init__(self, store: StateStore, tell: Changed, clock: Callable[[], float] = time.time) -> None:
        """
        Args:
            tell: who else is told of a change.
        """
        self._store = store
        self._tell = tell
        self._clock = clock
        self._stored_at: dict[str, float] = {}

    def changed(self, endpoint: Endpoint, old: str, new: str, failures: int) -> None:
        """A circuit has changed its state."""
        self._tell(endpoint, old, new, failures)
        change = Change(self._clock(), endpoint.id, old, new, failures)
        self._store.put(f"circuit-change:{secrets.token_hex(8)}", orjson.dumps(asdict(change)).decode(), KEPT_S)

    def failed(self, endpoint: Endpoint, message: str) -> None:
        """An endpoint has failed in a way that its breaker counts.

        Args:
            message: fit to be shown.
        """
        now = self._clock()
        if 0 <= now - self._stored_at.get(endpoint.id, 0.0) < FAILURE_EVERY_S:
            return
        self._stored_at[endpoint.id] = now
        text = orjson.dumps(asdict(Failure(now, message))).decode()
        self._store.put(f"last-failure:{endpoint.id}", text, FAILURE_KEPT_S)

    def recent(self) -> list[Change]:
        """The changes of the last hour, newest first."""
        found = [Change(**orjson.loads(text)) for _, text in self._store.items("circuit-change")]
        return sorted(found, key=lambda change: -change.at)

    def last_failure(self, endpoint: Endpoint) -> Failure | None:
        """The last failure, or None within a week."""
        text = self._store.get(f"last-failure:{endpoint.id}")
        return None if text is None else Failure(**orjson.loads(text))
