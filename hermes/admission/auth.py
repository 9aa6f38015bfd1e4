"""Who calls: the bearer of an `Authorization` header becomes a principal.

The operator's key is compared in constant time, API keys are found by their digest (see `keys`). A key that is unknown,
revoked or expired is one and the same thing: where a key is needed it is refused, where none is needed the caller is
anonymous, for clients send dummies. A key that is known is held to its scopes everywhere. While the database is away,
known keys go on as before, and one that is not known is told to come again (503) rather than that it is wrong: it may
have been made a moment before. What is remembered of an unknown key is a digest, so that two anonymous callers with
different dummy keys do not share a session.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hermes.admission.keys import looks_like_key
from hermes.directory import ApiKey, Directory, Scope
from hermes.errors import DatabaseUnavailable, Forbidden, Unauthorized
from hermes.metadata import name_of
from hermes.policy import AuthPolicy
from hermes.types import Principal

IDENTITY_CHARS = 16
MOST_LOOKS_A_SECOND = 20
UNTOLD = "This API key is not known yet, and the database cannot be asked for newer ones at the moment."
BLANKS = " \t"
SCHEME = "bearer"
OPERATOR = "admin"
"""How audit rows call whoever holds the admin key."""


class Authenticator:
    """Tells callers by their keys. Remembers only when each key was used last, so a revocation counts at once."""

    def __init__(
        self,
        digest: Callable[[str], str],
        clock: Callable[[], float] = time.time,
        look_again: Callable[[], Directory | None] = lambda: None,
    ) -> None:
        """`look_again` gives the newest directory, as a key that another worker has just made must not be refused here;
        it raises `DatabaseUnavailable` where it cannot be told.
        """
        self._digest = digest
        self._clock = clock
        self._look_again = look_again
        self._looks_in = (0, 0)
        """A second, and how often was looked again in it."""

        self._could_look = True
        self._last_used: dict[str, float] = {}

    def authenticate(self, bearer: str, policy: AuthPolicy, directory: Directory, *, scope: Scope | None) -> Principal:
        """The caller of a route of the router or the gateway.

        Args:
            scope: what a key needs for this route; None: every key will do. Routes of the gateway always need a key,
                the others where the configuration says so.

        Raises:
            Unauthorized: a key is needed, and this is none.
            Forbidden: the key is known, but not for this.
            DatabaseUnavailable: a key is needed, and whether this is one cannot be told at the moment.
        """
        if is_admin_key(bearer, policy):
            return Principal(identity=_identity(bearer), is_admin=True)
        is_needed = scope == "gateway" or policy.require_client_key
        try:
            key = self._known(bearer, directory)
        except DatabaseUnavailable:
            if is_needed:
                raise
            key = None
        if key is not None:
            if scope is not None and scope not in key.scopes:
                raise _lacks(key, scope)
            return Principal(
                key_id=key.id, identity=key.id, scopes=frozenset(key.scopes), roles=key.roles, limits=key.limits
            )
        if is_needed:
            raise Unauthorized(
                "The API key is not known, or it was revoked or has expired."
                if bearer
                else "A valid API key is required: send it as `Authorization: Bearer <key>`."
            )
        return Principal(identity=_identity(bearer))

    def require_admin(self, bearer: str, policy: AuthPolicy, directory: Directory) -> str:
        """Lets only an operator pass: the admin key, or an API key with the scope `admin`.

        Without an admin key in the environment these routes are closed to everybody.

        Returns:
            Who it is, for audit rows: `admin`, or `key:` and the id of the API key.

        Raises:
            Unauthorized: with what to do about it.
            Forbidden: an API key without that scope.
            DatabaseUnavailable: whether it is a key cannot be told at the moment.
        """
        if policy.admin_key is None:
            raise Unauthorized(f"Admin routes are closed: set {policy.admin_key_env} to open them.")
        if is_admin_key(bearer, policy):
            return OPERATOR
        key = self._known(bearer, directory)
        if key is None:
            sent = "The key that was sent is not the admin key" if bearer else "This route needs the admin key"
            raise Unauthorized(f"{sent}: send it as `Authorization: Bearer <key>`.")
        if "admin" not in key.scopes:
            raise _lacks(key, "admin")
        return f"key:{key.id}"

    def take_last_used(self) -> dict[str, float]:
        """When keys were used last, in seconds since 1970, since this was asked for the last time; by their ids."""
        taken, self._last_used = self._last_used, {}
        return taken

    def _known(self, bearer: str, directory: Directory) -> ApiKey | None:
        """The key, if it is one that counts now."""
        if not looks_like_key(bearer):
            return None
        digest, now = self._digest(bearer), self._clock()
        key = directory.keys.get(digest) or self._newly_made(digest, int(now))
        if key is None or (key.expires_at is not None and key.expires_at <= now):
            return None
        self._last_used[key.id] = now
        return key

    def _newly_made(self, digest: str, second: int) -> ApiKey | None:
        """The key of a digest that was not known a moment ago."""
        newest: Directory | None = None
        if self._may_look(second):
            try:
                newest = self._look_again()
            except DatabaseUnavailable as away:
                self._could_look = False
                raise DatabaseUnavailable(away.reason, UNTOLD) from None
            self._could_look = True
        elif not self._could_look:
            raise DatabaseUnavailable("it could not be asked for newer keys a moment ago", UNTOLD)
        return None if newest is None else newest.keys.get(digest)

    def _may_look(self, second: int) -> bool:
        """False for a flood of keys that nobody has made; the loop that follows the database finds new ones anyway."""
        since, looks = self._looks_in
        looks = looks + 1 if since == second else 1
        self._looks_in = (second, looks)
        return looks <= MOST_LOOKS_A_SECOND


def bearer_of(authorization: str) -> str:
    """The token of an `Authorization` header; empty for another scheme or none.

    >>> bearer_of("bearer  abc "), bearer_of("Basic abc"), bearer_of("")
    ('abc', '', '')

    Source: RFC 9110, section 11.1 (scheme names ignore case).
    """
    header = authorization.strip(BLANKS)
    scheme, token = header[: len(SCHEME)], header[len(SCHEME) :]
    is_bearer = scheme.lower() == SCHEME and token[:1] in tuple(BLANKS)
    return token.strip(BLANKS) if is_bearer else ""


def is_admin_key(bearer: str, policy: AuthPolicy) -> bool:
    """Whether this is the operator's key. Without one configured nothing is."""
    if policy.admin_key is None or not bearer:
        return False
    given = bearer.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(given, policy.admin_key.reveal().encode("utf-8", "surrogatepass"))


def require_role(principal: Principal, role: str) -> None:
    """Lets a caller pass whose key may ask for this role.

    Raises:
        Forbidden: it may not.
    """
    if principal.roles is not None and role not in principal.roles:
        allowed = ", ".join(sorted(principal.roles))
        raise Forbidden(f"This API key may not ask for the role {role}, only for {allowed}.", param="role")


def with_user(principal: Principal, body: Mapping[str, Any], header_user: str) -> Principal:
    """The principal with its user: the first of `metadata.user_id`, `user`, the header `X-Hermes-User`."""
    metadata = body.get("metadata")
    for source, field in ((metadata, "user_id"), (body, "user"), ({"header": header_user}, "header")):
        if isinstance(source, Mapping) and (user := name_of(source, field)) is not None:
            return replace(principal, user_id=user)
    return principal


def _identity(bearer: str) -> str:
    return hashlib.sha256(bearer.encode("utf-8", "surrogatepass")).hexdigest()[:IDENTITY_CHARS] if bearer else ""


def _lacks(key: ApiKey, scope: Scope) -> Forbidden:
    has = ", ".join(sorted(key.scopes))
    return Forbidden(f"This needs an API key with the scope {scope}; the one that was sent has {has}.")
