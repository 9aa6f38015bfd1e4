"""Who has signed in to the dashboard: a signed cookie, and little kept on the server.

The cookie is signed with a key that is made of the server's secret and the admin key: every worker makes the same, and
a new admin key ends every session. One that an API key with the scope `admin` has begun ends with that key. A session
is over when nobody has done anything for half an hour, or twelve hours after it began, or when it was signed out of:
the state store tells that to every worker at once, the directory within a second, whatever became of the state store.

The cookie says by the wall clock when both was, so that sessions outlive a restart. A wall clock that is put forward
would end them all: so the state store, which counts time evenly, knows too which sessions are young, and its word ends
nothing, but keeps what it knows.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final, Protocol

from itsdangerous import BadSignature, URLSafeSerializer

from hermes.admission.auth import OPERATOR, Authenticator
from hermes.directory import Directory
from hermes.policy import AuthPolicy
from hermes.state.store import StateStore

IDLE_S: Final = 30 * 60.0
LONGEST_S: Final = 12 * 3600.0
RENEW_S: Final = 60.0
"""The cookie is written anew at most so often."""

COOKIE: Final = "hermes_session"
KEY_PREFIX: Final = "key:"


@dataclass(frozen=True, slots=True)
class Operator:
    """A person who has signed in."""

    actor: str
    """As audit rows have it: `admin`, or `key:` and the id of an API key."""

    session: str
    """The session's random name."""

    began_at: float
    active_at: float
    """Seconds since 1970."""


class Ends(Protocol):
    """`hermes.storage.ended.EndedSessions`."""

    def end(self, name: str, actor: str) -> None: ...

    def has(self, name: str) -> bool: ...


class Access:
    """Begins sessions, recognises them, ends them."""

    def __init__(
        self,
        digest: Callable[[str], str],
        auth: Authenticator,
        store: StateStore,
        ends: Ends,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            digest: a keyed digest under the server's secret, alike in every worker.
        """
        self._digest = digest
        self._auth = auth
        self._store = store
        self._ends = ends
        self._clock = clock

    def begin(self, key: str, policy: AuthPolicy, directory: Directory) -> Operator:
        """A new session for whoever has this key.

        Raises:
            Unauthorized: it is not the admin key and no API key, or there is no admin key.
            Forbidden: an API key without the scope `admin`.
        """
        actor = self._auth.require_admin(key, policy, directory)
        now = self._clock()
        operator = Operator(actor, secrets.token_hex(16), now, now)
        self._store.put(_young(operator), "1", LONGEST_S)
        self._store.put(_active(operator), "1", IDLE_S)
        return operator

    def cookie(self, operator: Operator, policy: AuthPolicy) -> str:
        """The cookie's value for a session."""
        return str(self._serializer(policy).dumps(asdict(operator)))

    def recognised(self, cookie: str, policy: AuthPolicy, directory: Directory) -> Operator | None:
        """Whose session a cookie is; None where it is none that counts now."""
        if not cookie or policy.admin_key is None:
            return None
        try:
            operator = Operator(**self._serializer(policy).loads(cookie))
        except (BadSignature, TypeError):
            return None
        now = self._clock()
        if operator.session in directory.ended or self._ends.has(operator.session):
            return None
        if self._is_over(operator, now) or not _still_counts(operator.actor, directory, now):
            return None
        return operator if self._store.get(_signed_out(operator)) is None else None

    def renewed(self, operator: Operator) -> Operator | None:
        """The session after an act of its operator, or None where the cookie is still fresh enough."""
        now = self._clock()
        if 0 <= now - operator.active_at < RENEW_S:
            return None
        self._store.put(_active(operator), "1", IDLE_S)
        return replace(operator, active_at=now)

    def end(self, operator: Operator) -> None:
        """Signs out: the cookie is worth nothing any more, whoever has a copy of it."""
        self._store.put(_signed_out(operator), "1", LONGEST_S)
        self._ends.end(operator.session, operator.actor)

    def token(self, name: str, policy: AuthPolicy) -> str:
        """What a form must send back, so that only our own pages can make somebody's browser send it.

        Args:
            name: the session's, or that of a visitor who has none yet.
        """
        return self._digest(f"dashboard-form\0{self._signing_key(policy)}\0{name}")

    def is_token(self, given: str, name: str, policy: AuthPolicy) -> bool:
        """Whether a form has sent back its token."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self.token(name, policy).encode())

    def _is_over(self, operator: Operator, now: float) -> bool:
        is_idle = now - operator.active_at > IDLE_S and self._store.get(_active(operator)) is None
        return is_idle or (now - operator.began_at > LONGEST_S and self._store.get(_young(operator)) is None)

    def _serializer(self, policy: AuthPolicy) -> URLSafeSerializer:
        return URLSafeSerializer(self._signing_key(policy), salt="hermes-dashboard-session")

    def _signing_key(self, policy: AuthPolicy) -> str:
        return self._digest(f"dashboard-session\0{policy.admin_key.reveal() if policy.admin_key else ''}")


def _still_counts(actor: str, directory: Directory, now: float) -> bool:
    """Whether the credential that began the session is still good; the admin key's is in the signature."""
    if actor == OPERATOR:
        return True
    key_id = actor.removeprefix(KEY_PREFIX)
    key = next((key for key in directory.keys.values() if key.id == key_id), None)
    return key is not None and "admin" in key.scopes and (key.expires_at is None or key.expires_at > now)


def _young(operator: Operator) -> str:
    return f"session-young:{operator.session}"


def _active(operator: Operator) -> str:
    return f"session-active:{operator.session}"


def _signed_out(operator: Operator) -> str:
    return f"signed-out:{operator.session}"
