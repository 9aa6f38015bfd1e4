"""What operators do to the running router, by the admin API and by the dashboard alike: each act with its audit row.

The directory's changes (keys, pins, budgets) are `admission.editor`'s. What is here changes shared state, not the
database; so the act comes first, and a database that is away keeps no operator from closing a circuit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hermes.errors import NotFound
from hermes.policy import Policy
from hermes.types import Endpoint

log = logging.getLogger("hermes-router")

Values = Mapping[str, Any]


class Circuits(Protocol):
    """`hermes.upstream.breaker.Breakers`."""

    def circuit(self, endpoint: Endpoint, policy: Any) -> Any: ...

    def reset(self, endpoint: Endpoint, policy: Any) -> None: ...


class KnownSessions(Protocol):
    """`hermes.routing.sessions.Sessions`."""

    def get(self, key: str) -> Any: ...

    def evict(self, key: str, undo_s: float = 0.0) -> bool: ...

    def restore(self, key: str, timeout_s: float) -> bool: ...

    def evict_all(self) -> int: ...


Note = Callable[[str, str, str, Values | None, Values | None], None]
"""Puts on record: actor, action, target, before, after; never raises (`storage.trail.Trail.note`)."""


class Operations:
    """Resets circuits, evicts sessions. The actor is who does it, as audit rows have it."""

    def __init__(self, policy: Callable[[], Policy], circuits: Circuits, sessions: KnownSessions, note: Note) -> None:
        self._policy = policy
        self._circuits = circuits
        self._sessions = sessions
        self._note = note

    def reset_circuits(self, endpoint: str | None, actor: str) -> list[str]:
        """Closes one endpoint's circuit, or all; the ids of those it was done to.

        Raises:
            NotFound: there is no such endpoint.
        """
        policy = self._policy()
        endpoints = policy.endpoints()
        if endpoint is not None and endpoint not in endpoints:
            raise NotFound(f"There is no endpoint {endpoint}; GET /circuits lists those that are.")
        names = [endpoint] if endpoint is not None else list(endpoints)
        before = {name: self._circuits.circuit(endpoints[name], policy.breaker).state for name in names}
        for name in names:
            self._circuits.reset(endpoints[name], policy.breaker)
        closed = {"state": "closed"}
        target = endpoint if endpoint is not None else "*"
        self._record("circuit.reset", target, actor, {"state": before[endpoint]} if endpoint else before, closed)
        return names

    def evict_session(self, key: str, actor: str, undo_s: float = 0.0) -> None:
        """Forgets a session's tier; `restore_session` brings it back within `undo_s`.

        Raises:
            NotFound: there is no such session.
        """
        session = self._sessions.get(key)
        if not self._sessions.evict(key, undo_s):
            raise NotFound(f"There is no session {key}; GET /admin/sessions lists those that are.")
        before = {"tier": session.tier, "user_id": session.user_id} if session is not None else None
        self._record("session.evict", key, actor, before)

    def restore_session(self, key: str, actor: str) -> None:
        """Brings an evicted session back as it was, unless it was classified anew meanwhile.

        Raises:
            NotFound: it is too late.
        """
        if not self._sessions.restore(key, self._policy().routing.session_timeout_s):
            raise NotFound(f"The session {key} cannot be brought back any more; its next turn is classified anew.")
        self._record("session.restore", key, actor)

    def evict_all_sessions(self, actor: str) -> int:
        """Forgets every session's tier; how many there were."""
        number = self._sessions.evict_all()
        self._record("session.evict_all", "*", actor, {"sessions": number})
        return number

    def told(self, action: str, target: str, actor: str) -> None:
        """Notes what changes nothing here but belongs into the record: that somebody has signed in, say."""
        self._record(action, target, actor)

    def _record(
        self, action: str, target: str, actor: str, before: Values | None = None, after: Values | None = None
    ) -> None:
        log.info("%s %s by %s", action, target, actor)
        self._note(actor, action, target, before, after)
