"""Who calls: the bearer of an `Authorization` header becomes a principal.

Keys are compared as digests and in constant time. What is remembered of an unknown key is a digest too, so that two
anonymous callers with different dummy keys do not share a session.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes.errors import Unauthorized
from hermes.policy import AuthPolicy
from hermes.types import Principal

IDENTITY_CHARS = 16


def bearer_of(authorization: str) -> str:
    """The token of an `Authorization` header; empty for another scheme or none.

    >>> bearer_of("bearer  abc "), bearer_of("Basic abc"), bearer_of("")
    ('abc', '', '')

    Source: RFC 9110, section 11.1 (scheme names ignore case).
    """
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def authenticate(bearer: str, policy: AuthPolicy) -> Principal:
    """The caller of a completion route.

    Raises:
        Unauthorized: a client key is required, and this is none.
    """
    is_admin = is_admin_key(bearer, policy)
    if policy.require_client_key and not is_admin:
        raise Unauthorized(
            "A valid API key is required: send it as `Authorization: Bearer <key>`."
            if not bearer
            else "The API key is not known, or it was revoked or has expired."
        )
    identity = hashlib.sha256(bearer.encode("utf-8", "surrogatepass")).hexdigest()[:IDENTITY_CHARS] if bearer else ""
    return Principal(identity=identity, is_admin=is_admin)


def is_admin_key(bearer: str, policy: AuthPolicy) -> bool:
    """Whether this is the operator's key. Without one configured nothing is."""
    if policy.admin_key is None or not bearer:
        return False
    given = bearer.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(given, policy.admin_key.reveal().encode("utf-8", "surrogatepass"))


def require_admin(bearer: str, policy: AuthPolicy) -> None:
    """Lets only the operator pass.

    Raises:
        Unauthorized: with what to do about it.
    """
    if policy.admin_key is None:
        raise Unauthorized(f"Admin routes are closed: set {policy.admin_key_env} to open them.")
    if not is_admin_key(bearer, policy):
        raise Unauthorized("This route needs the admin key: send it as `Authorization: Bearer <key>`.")


def with_user(principal: Principal, body: Mapping[str, Any], header_user: str) -> Principal:
    """The principal with its user: the first of `metadata.user_id`, `user`, the header `X-Hermes-User`."""
    metadata = body.get("metadata")
    named = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    for user in (named, body.get("user"), header_user):
        if isinstance(user, str | int) and not isinstance(user, bool) and str(user).strip():
            return replace(principal, user_id=str(user).strip()[:MAX_USER_CHARS])
    return principal


MAX_USER_CHARS = 256
