"""API keys: how one is made, what is kept of it, and what somebody may say who makes one.

A key is 256 random bits, so it cannot be guessed and needs no slow hash. Kept is its HMAC-SHA-256 under a secret of the
server: who only steals the database can neither use a key nor test one. The secret is `HERMES_SECRET` or, on one
machine, a file that is made once. A key is found by its digest in a mapping; what the time of that look-up tells is of
a digest that nobody without the secret can choose.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast, get_args

from hermes import private
from hermes.admission.fields import Fields
from hermes.directory import NewKey, Scope
from hermes.errors import StartRefused
from hermes.settings import SECRET_MIN_CHARS
from hermes.types import RateLimits

PREFIX: Final = "hk_"
RANDOM_BYTES: Final = 32
KEY_CHARS: Final = len(PREFIX) + 43
"""32 bytes are 43 url-safe characters."""

SHOWN_CHARS: Final = len(PREFIX) + 4
"""How much of a key a list shows, for people to tell keys apart; 232 bits stay unknown."""

SECRET_FILE: Final = "secret"  # noqa: S105  (the file's name)
NAME_CHARS: Final = 100
EXPIRY_MAX: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
LIMIT_MAX: Final = 2**31 - 1
LIMITS: Final = tuple(RateLimits.__dataclass_fields__)


def new_key() -> str:
    """A fresh key: `hk_` and 43 url-safe characters."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def shown_part(key: str) -> str:
    """The beginning of a key, by which a person recognises it."""
    return key[:SHOWN_CHARS]


class KeyDigest:
    """Makes a key's digest, in hex, under the server's secret. About 1.6 µs; nothing is remembered."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = hmac.new(secret, digestmod="sha256")  # a copy costs half of what keying anew does

    def __call__(self, key: str) -> str:
        keyed = self._keyed.copy()
        keyed.update(key.encode("utf-8", "surrogatepass"))
        return keyed.hexdigest()


def looks_like_key(text: str) -> bool:
    """Whether it is worth a digest; most of what clients send instead of a key is `dummy` or another service's."""
    return len(text) == KEY_CHARS and text.startswith(PREFIX)


def server_secret(given: str, folder: Path) -> bytes:
    """The server's secret: the one given, else what the file `secret` in the folder holds, which is made if need be.

    Any number of processes may call it at once; all get the same. The file's content may be given as `HERMES_SECRET`
    elsewhere, so that an installation can grow to a second machine with its keys.

    Raises:
        StartRefused: the file cannot be made or read.
    """
    if given:
        return given.encode("utf-8", "surrogateescape")
    path = folder / SECRET_FILE
    try:
        private.make_folder(folder)
        if not path.exists():
            _make_secret(path)
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StartRefused(
            f"The file {path}, which API keys are checked with, cannot be used: {reason}. "
            "Give this user the right, or set HERMES_SECRET."
        ) from None
    if len(text) < SECRET_MIN_CHARS:
        raise StartRefused(
            f"The file {path}, which API keys are checked with, is damaged. Restore it from a backup; without one "
            "delete it, and make new API keys."
        )
    return text.encode()


def _make_secret(path: Path) -> None:
    """Makes the file at once with its content, for its owner only; where another process was first, theirs stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private.FILE_MODE)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(RANDOM_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link never replaces a file that is there, and nobody sees the file half written.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def parse_new_key(body: object, roles: Collection[str] | None, now: float | None = None) -> NewKey:
    """Reads `{name, scopes, roles?, expires_at?, limits?}`.

    Args:
        roles: those of the configuration; None where it cannot be read, which lets every role pass.

    Raises:
        InvalidRequest: naming the field.
    """
    fields = Fields(body, ("name", "scopes", "roles", "expires_at", "limits"))
    return NewKey(
        name=fields.text("name", NAME_CHARS),
        scopes=cast("frozenset[Scope]", fields.choices("scopes", get_args(Scope))),
        roles=fields.choices("roles", roles) if fields.has("roles") else None,
        expires_at=_expiry(fields, time.time() if now is None else now) if fields.has("expires_at") else None,
        limits=_limits(fields.get("limits")) if fields.has("limits") else None,
    )


def _expiry(fields: Fields, now: float) -> float:
    """A moment that is still to come, in seconds since 1970. Without a zone it is UTC; a bare date is its beginning."""
    value = fields.get("expires_at")
    refusal = fields.wrong("expires_at", "must be an ISO 8601 date or time, for instance 2027-01-31T12:00:00Z")
    if not isinstance(value, str):
        raise refusal
    try:
        moment = datetime.fromisoformat(value.strip())
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise refusal from None
    if not now < seconds < EXPIRY_MAX:
        raise fields.wrong("expires_at", "must be in the future, and before the year 9999")
    return seconds


def _limits(body: object) -> RateLimits:
    fields = Fields(body, LIMITS, "limits")
    return RateLimits(**{name: fields.whole_number(name, LIMIT_MAX, 0) for name in LIMITS})
