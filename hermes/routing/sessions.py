"""Which tier a conversation has, for how long, and how often its streams broke in a row.

A session is one value in the state store. It is kept an hour longer than it counts, because a tool loop that is open
when the session expires keeps its tier. Ages are of the wall clock, which machines that share a store have in common.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from gevent import sleep

from hermes.state.store import StateStore, number_of
from hermes.turns import MOMENT_S
from hermes.types import TIERS, Principal, Tier

KEPT_S = 7200.0
"""How long a session is known after its classification, so that an open tool loop keeps its tier; of one length for
all, so that those that have not expired can be counted without being read.
"""

KEPT_AFTER_EXPIRY_S = 3600.0
"""At least so long beyond a longer timeout."""

STRIKES_TTL_S = 3600.0
"""A session that nobody used for an hour starts anew with its primary."""

BATCH = 1000
"""Sessions are looked through so many at a time, about 3 ms; then others have a turn."""

Kind = Literal["named", "first"]


def session_key(principal: Principal, named: str | None, first_user_text: str | None) -> str:
    """The name of a conversation in logs and in the admin API: 16 hexadecimal digits.

    Made of the caller and of the session's name or, where the caller names none, of the first user message.
    Each piece goes in with its length, so that no two callers and no name and text can meet.
    """
    kind: Kind = "named" if named else "first"
    pieces = (principal.key_id, principal.identity, principal.user_id, kind, named or first_user_text)
    return hashlib.blake2b(b"".join(map(_measured, pieces)), digest_size=8).hexdigest()


def _measured(piece: str | None) -> bytes:
    """A piece behind its length in bytes; `-` where there is none."""
    if piece is None:
        return b"-;"
    octets = piece.encode("utf-8", "surrogatepass")
    return b"%d;%b" % (len(octets), octets)


def kept_s(timeout_s: float) -> float:
    """How long a session is kept whose tier is used for `timeout_s`."""
    return max(KEPT_S, timeout_s + KEPT_AFTER_EXPIRY_S)


@dataclass(frozen=True, slots=True)
class Session:
    """The last classification of a conversation."""

    tier: Tier
    classified_at: float
    """Seconds since 1970."""

    age_s: float
    user_id: str | None = None
    model: str | None = None

    def expired(self, timeout_s: float) -> bool:
        """Whether its tier no longer counts for a new turn."""
        return self.age_s >= timeout_s

    def shown(self, timeout_s: float) -> dict[str, Any]:
        """Its line in `GET /admin/sessions`."""
        return {
            "tier": self.tier,
            "age_sec": round(self.age_s, 1),
            "remaining_sec": round(max(0.0, timeout_s - self.age_s), 1),
            "user_id": self.user_id,
            "model": self.model,
        }


class Sessions:
    """The sessions of a state store."""

    def __init__(self, store: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def get(self, key: str) -> Session | None:
        """The session, also for an hour after it has expired."""
        text = self._store.get(f"session:{key}")
        return self._read(text) if text is not None else None

    def remember(
        self, key: str, tier: Tier, timeout_s: float, *, user_id: str | None = None, model: str | None = None
    ) -> None:
        """Keeps a classification; the session's lifetime begins now."""
        value = {"tier": tier, "at": self._clock(), "user_id": user_id, "model": model}
        self._store.put(f"session:{key}", orjson.dumps(value).decode(), kept_s(timeout_s))

    def evict(self, key: str, undo_s: float = 0.0) -> bool:
        """Forgets a session and its strikes; whether there was one. `restore` brings it back within `undo_s`."""
        if undo_s > 0 and (text := self._store.get(f"session:{key}")) is not None:
            self._store.put(f"evicted:{key}", text, undo_s)
        self._store.delete(f"strikes:{key}")
        return self._store.delete(f"session:{key}")

    def restore(self, key: str, timeout_s: float) -> bool:
        """Brings back a session that was just evicted; whether it is there again as it was.

        False where it is too late, or where the conversation was classified anew meanwhile, which counts.
        """
        text = self._store.get(f"evicted:{key}")
        session = None if text is None else self._read(text)
        if text is None or session is None:
            return False
        self._store.delete(f"evicted:{key}")
        left_s = kept_s(timeout_s) - session.age_s
        return left_s > 0 and self._store.put_new(f"session:{key}", text, left_s)

    def evict_all(self) -> int:
        """Forgets every session; how many there were."""
        keys = [key for key, _ in self._known()]
        for number, key in enumerate(keys, start=1):
            self.evict(key)
            if number % BATCH == 0:
                sleep(0)
        return len(keys)

    def all(self, timeout_s: float) -> dict[str, dict[str, Any]]:
        """Every session that has not expired, by key, as the admin API shows it; the youngest first."""
        alive = [(key, session) for key, session in self._known() if not session.expired(timeout_s)]
        alive.sort(key=lambda item: item[1].age_s)
        return {key: session.shown(timeout_s) for key, session in alive}

    def count(self, timeout_s: float) -> int:
        """How many sessions have not expired."""
        return self._store.count("session", kept_s(timeout_s) - timeout_s)

    def strike(self, key: str) -> int:
        """Counts a stream that broke; how many did in a row."""
        return self._store.add(f"strikes:{key}", 1, STRIKES_TTL_S)

    def clean(self, key: str) -> None:
        """A stream ended as it should: the count begins anew."""
        self._store.delete(f"strikes:{key}")

    def strikes(self, key: str) -> int:
        """How many streams in a row broke."""
        return int(number_of(self._store.get(f"strikes:{key}")) or 0)

    def _known(self) -> Iterator[tuple[str, Session]]:
        for number, (key, text) in enumerate(self._store.items("session"), start=1):
            session = self._read(text)
            if session is not None:
                yield key.partition(":")[2], session
            if number % BATCH == 0:
                sleep(MOMENT_S)

    def _read(self, text: str) -> Session | None:
        """None for a value that another version wrote in another way: such a session is simply new."""
        try:
            value = orjson.loads(text)
            tier, at = value["tier"], float(value["at"])
        except (ValueError, TypeError, KeyError):
            return None
        if tier not in TIERS:
            return None
        # The clocks of two machines differ a little: a session from the future has just begun.
        age_s = max(0.0, self._clock() - at)
        return Session(tier, at, age_s, value.get("user_id"), value.get("model"))
