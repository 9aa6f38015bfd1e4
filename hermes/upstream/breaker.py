"""A circuit breaker for each endpoint, its state shared by all workers.

    closed ──(failure_threshold failures in a row within window_sec)──► open
    open ──(recovery_timeout_sec later, for exactly one request)──► half_open
    half_open ──(that probe succeeds)──► closed        half_open ──(it fails)──► open

The state is `broken:ID` (when it opened), `shut:ID` (the pause until it may be tried), `probe:ID` (who may try), and a
key for each failure that lives for the window, so that it is always the last window that counts. No moment of the wall
clock decides anything: that of `broken:ID` is only shown. A probe is a claim with a lifetime, so one that never
reports back cannot keep an endpoint shut for ever. A request counts once, however often it asked. What says nothing
about the endpoint's health (the caller's own 4xx, a caller who left) is *undecided*: it only gives a probe back.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil
from types import TracebackType
from typing import Any, Literal

from hermes.policy import BreakerPolicy
from hermes.state.pauses import Pauses
from hermes.state.store import StateStore, number_of
from hermes.types import Endpoint

State = Literal["closed", "open", "half_open"]
OPEN_TTL_S = 86_400.0
PROBE_SPARE_S = 5.0
"""How much longer than its request a probe's claim lives."""

Changed = Callable[[Endpoint, State, State, int], None]


@dataclass(frozen=True, slots=True)
class Circuit:
    """One endpoint's breaker as operators see it."""

    endpoint: Endpoint
    state: State
    failures: int
    opened_at: float | None
    retry_in_s: float

    def shown(self) -> dict[str, Any]:
        """The object of `GET /circuits`."""
        opened = None if self.opened_at is None else datetime.fromtimestamp(self.opened_at, UTC)
        return {
            "endpoint": self.endpoint.id,
            "base_url": self.endpoint.shown_url,
            "model": self.endpoint.model,
            "state": self.state,
            "failures": self.failures,
            "opened_at": opened.isoformat(timespec="milliseconds").replace("+00:00", "Z") if opened else None,
            "retry_in_sec": ceil(self.retry_in_s * 10) / 10,  # 0.0 only where it is ready
        }


class Breakers:
    """May this endpoint be asked, and what came of it."""

    def __init__(self, store: StateStore, changed: Changed, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._changed = changed
        self._clock = clock
        self._pauses = Pauses(store, clock)

    def permit(self, endpoint: Endpoint, policy: BreakerPolicy, lease_s: float) -> Permit | None:
        """Leave for one request to ask the endpoint, or None while it is left alone.

        Args:
            lease_s: how long that request may take at most; a probe that has not reported back by then has none.
        """
        if number_of(self._store.get(f"broken:{endpoint.id}")) is None:
            return Permit(self, endpoint, policy, is_probe=False)
        if self._pauses.left_s(f"shut:{endpoint.id}") > 0:
            return None
        if not self._store.claim(f"probe:{endpoint.id}", max(0.0, lease_s) + PROBE_SPARE_S):
            return None
        self._changed(endpoint, "open", "half_open", self._failures(endpoint))
        return Permit(self, endpoint, policy, is_probe=True)

    def circuit(self, endpoint: Endpoint, policy: BreakerPolicy) -> Circuit:
        """The breaker's state now."""
        opened = number_of(self._store.get(f"broken:{endpoint.id}"))
        failures = self._failures(endpoint)
        if opened is None:
            return Circuit(endpoint, "closed", failures, None, 0.0)
        left = self._pauses.left_s(f"shut:{endpoint.id}")
        probing = self._store.get(f"probe:{endpoint.id}") is not None
        failures = max(failures, policy.failure_threshold)  # those that opened it, though their window may be over
        return Circuit(endpoint, "half_open" if probing else "open", failures, opened, left)

    def open_count(self, endpoints: Iterable[Endpoint], policy: BreakerPolicy) -> int:
        """How many are not closed."""
        return sum(self.circuit(endpoint, policy).state != "closed" for endpoint in endpoints)

    def reset(self, endpoint: Endpoint, policy: BreakerPolicy) -> None:
        """Closes the breaker and forgets its failures."""
        before = self.circuit(endpoint, policy).state
        self._close(endpoint)
        if before != "closed":
            self._changed(endpoint, before, "closed", 0)

    def _failures(self, endpoint: Endpoint) -> int:
        return self._store.count(_failures_of(endpoint))

    def _forget_failures(self, endpoint: Endpoint) -> None:
        for key, _ in self._store.items(_failures_of(endpoint)):
            self._store.delete(key)

    def _close(self, endpoint: Endpoint) -> None:
        for noun in ("broken", "shut", "probe"):
            self._store.delete(f"{noun}:{endpoint.id}")
        self._forget_failures(endpoint)

    def _add_failures(self, endpoint: Endpoint, number: int, window_s: float) -> None:
        for _ in range(number):
            self._store.put(f"{_failures_of(endpoint)}:{secrets.token_hex(8)}", "1", window_s)

    def _failed(self, endpoint: Endpoint, policy: BreakerPolicy, *, is_probe: bool) -> None:
        self._add_failures(endpoint, 1, policy.window_s)
        failures = self._failures(endpoint)
        was_open = self._store.get(f"broken:{endpoint.id}") is not None
        if is_probe or (failures >= policy.failure_threshold and not was_open):
            self._pauses.begin(f"shut:{endpoint.id}", policy.recovery_timeout_s)  # first: nobody may try in between
            self._store.put(f"broken:{endpoint.id}", repr(self._clock()), OPEN_TTL_S)
            self._changed(endpoint, "half_open" if is_probe else "closed", "open", failures)
        if is_probe:
            self._store.delete(f"probe:{endpoint.id}")

    def _succeeded(self, endpoint: Endpoint, *, is_probe: bool) -> None:
        if is_probe:
            self._close(endpoint)
            self._changed(endpoint, "half_open", "closed", 0)
        elif self._failures(endpoint):
            self._forget_failures(endpoint)

    def _promised(self, endpoint: Endpoint, policy: BreakerPolicy) -> None:
        """A stream that has begun lets the others in, but one more failure shuts the endpoint again."""
        self._close(endpoint)
        self._add_failures(endpoint, policy.failure_threshold - 1, policy.window_s)
        self._changed(endpoint, "half_open", "closed", policy.failure_threshold - 1)

    def _undecided(self, endpoint: Endpoint) -> None:
        self._store.delete(f"probe:{endpoint.id}")


def _failures_of(endpoint: Endpoint) -> str:
    """The noun under which an endpoint's failures are counted."""
    return _failures_of_id(endpoint.id)


@lru_cache(maxsize=1024)
def _failures_of_id(endpoint_id: str) -> str:
    """An id has colons, which a noun may not have."""
    return f"failed-{hashlib.sha256(endpoint_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


class Permit:
    """Leave to ask one endpoint. It is settled once; leaving the block unsettled counts as undecided."""

    __slots__ = ("_breakers", "_endpoint", "_is_probe", "_policy", "_settled")

    def __init__(self, breakers: Breakers, endpoint: Endpoint, policy: BreakerPolicy, *, is_probe: bool) -> None:
        self._breakers = breakers
        self._endpoint = endpoint
        self._policy = policy
        self._is_probe = is_probe
        self._settled = False

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undecided()

    def failed(self) -> None:
        """The endpoint is unwell: 429, 5xx, no connection, no usable answer."""
        if self._settle():
            self._breakers._failed(self._endpoint, self._policy, is_probe=self._is_probe)

    def succeeded(self) -> None:
        """The endpoint has given a whole answer."""
        if self._settle():
            self._breakers._succeeded(self._endpoint, is_probe=self._is_probe)

    def promising(self) -> None:
        """A stream has given its first content; how it ends is still open."""
        if self._is_probe and not self._settled:
            self._is_probe = False
            self._breakers._promised(self._endpoint, self._policy)

    def undecided(self) -> None:
        """What happened says nothing about the endpoint."""
        if self._settle() and self._is_probe:
            self._breakers._undecided(self._endpoint)

    def _settle(self) -> bool:
        settled, self._settled = self._settled, True
        return not settled
