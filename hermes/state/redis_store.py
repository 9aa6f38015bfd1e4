"""State that any number of workers and machines share, in Redis.

Every verb is one round trip and atomic: a plain command, or a Lua script of this folder (each with `index.lua` before
it), called by its digest. Keys are `hermes:noun:part`, values are text, everything has a lifetime. A noun's keys are
found by an index, `hermes:@noun`; SCAN would walk through everything else that lives in the same Redis. Listing is the
one verb of several round trips: it reads pages, so that it never holds Redis up for more than about a millisecond.

redis-py connects (TLS, passwords) and speaks the protocol; `connections.py` keeps the connections. Nothing is tried
twice, as an addition might count twice.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import gevent
import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry

from hermes.errors import StartRefused
from hermes.state.connections import Connection, Connections
from hermes.state.shared import StoreAway
from hermes.state.store import Claim

REPLY_S: Final = 0.05
"""How long a reply may take; on the same network it takes a fifth of a millisecond."""

CONNECT_S: Final = 0.25
"""How long the name, the connection and the greeting may take together, which on a busy event loop are several turns.
A request seldom waits for it: a Redis that dies is noticed on a connection that is there, and one that refuses says so
at once.
"""

PREFIX: Final = "hermes:"
PAGE: Final = 500
OFFERED_AT_ONCE: Final = 200
LONGEST_MS: Final = 10 * 365 * 86_400_000
GENERATION_MS: Final = 30 * 86_400_000

Parts = tuple[str | bytes | int, ...]
"""A command with its arguments."""


class Script:
    """A Lua script, and the digest by which Redis remembers it."""

    def __init__(self, name: str) -> None:
        folder = Path(__file__).parent
        self.text = (folder / "index.lua").read_bytes() + (folder / f"{name}.lua").read_bytes()
        self.digest = hashlib.sha1(self.text, usedforsecurity=False).hexdigest()  # Redis's own choice


class RedisStore:
    """Implements `SharedStore`. Makes no connection before it needs one, so it can be made while Redis is down."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Reads the URL: `redis://` or, with TLS, `rediss://`; `[[user]:password@]host[:port][/database][?options]`.

        Raises:
            StartRefused: the URL makes no sense.
        """
        self._connections = Connections(_maker(url), clock)
        self._put, self._put_new, self._delete, self._add = map(Script, ("put", "put_new", "delete", "add"))
        self._reserve, self._count, self._page, self._mark = map(Script, ("reserve", "count", "page", "mark"))

    def get(self, key: str) -> str | None:
        found = self.look(key)
        return found[0] if found else None

    def look(self, key: str) -> tuple[str, float] | None:
        name = _name(key)
        value, left_ms = self._ask(("GET", name), ("PTTL", name))
        if isinstance(value, ResponseError) and not str(value).startswith("WRONGTYPE"):
            raise self._away(value)
        text = _text(value)
        return None if text is None else (text, _integer(left_ms) / 1000)

    def put(self, key: str, value: str, ttl_s: float) -> None:
        self._run(self._put, _named(key), (_octets(value), _ms(ttl_s)))

    def delete(self, key: str) -> bool:
        return _integer(self._run(self._delete, _named(key))) > 0

    def add(self, key: str, amount: int, ttl_s: float) -> int:
        return _integer(self._run(self._add, _named(key), (amount, _ms(ttl_s))))

    def claim(self, key: str, ttl_s: float) -> bool:
        return self.put_new(key, "1", ttl_s)

    def put_new(self, key: str, value: str, ttl_s: float) -> bool:
        return _integer(self._run(self._put_new, _named(key), (_octets(value), _ms(ttl_s)))) == 1

    def reserve(self, claims: Sequence[Claim]) -> int | None:
        names = [name for claim in claims for name in _named(claim.key)]
        values = [v for c in claims for v in (c.amount, c.limit, _ms(c.ttl_s), int(c.may_exceed))]
        position = _integer(self._run(self._reserve, names, values))
        return None if position < 0 else position

    def items(self, noun: str) -> list[tuple[str, str]]:
        found: dict[str, str] = {}
        for key, value in self._pages(noun):
            found[key] = value  # a key that is put meanwhile may turn up twice
        return list(found.items())

    def count(self, noun: str, at_least_s: float = 0.0) -> int:
        return _integer(self._run(self._count, [_index(noun)], [int(at_least_s * 1_000_000)]))

    def offer(self, entries: Sequence[tuple[str, str, float]]) -> None:
        for start in range(0, len(entries), OFFERED_AT_ONCE):
            page = entries[start : start + OFFERED_AT_ONCE]
            calls = [_call(self._put_new, _named(key), (_octets(value), _ms(left_s))) for key, value, left_s in page]
            replies = self._ask(*calls)
            if any(isinstance(reply, NoScriptError) for reply in replies):
                self._run(self._put_new, _named(page[0][0]), (_octets(page[0][1]), _ms(page[0][2])))
                replies = self._ask(*calls)
            for reply in replies:
                self._good(reply)

    def generation(self, mine: str) -> tuple[str, str]:
        name, life = self._run(self._mark, [_name("@generation")], (mine, GENERATION_MS))
        return _text(name) or mine, _text(life) or ""

    def close(self) -> None:
        """Closes the connections; further ones are made when they are needed."""
        self._connections.drop()

    # -- one round trip -----------------------------------------------------------------------------------

    def _pages(self, noun: str) -> Iterator[tuple[str, str]]:
        cursor: bytes | int = 0
        while True:
            keys, values, last = self._run(self._page, [_index(noun)], (cursor, PAGE))
            for name, value in zip(keys, values, strict=True):
                text = _text(value)
                if text is not None:
                    yield name.decode("utf-8", "surrogatepass").removeprefix(PREFIX), text
            # Each page begins with the last score of the one before: two keys may die in the same microsecond.
            if len(keys) < PAGE or last == cursor:
                return
            cursor = last

    def _run(self, script: Script, names: Sequence[bytes], values: Sequence[str | bytes | int] = ()) -> Any:
        """The reply of a script; Redis is given its text where it does not know it (any more)."""
        (reply,) = self._ask(_call(script, names, values))
        if isinstance(reply, NoScriptError):
            (reply,) = self._ask(("EVAL", script.text, len(names), *names, *values))
        return self._good(reply)

    def _good(self, reply: Any) -> Any:
        if isinstance(reply, ResponseError):  # READONLY, OOM, NOPERM, MOVED, …: this Redis does not do its work
            raise self._away(reply)
        return reply

    def _ask(self, *commands: Parts) -> list[Any]:
        """The reply to each command; one that Redis refuses gives a `ResponseError` as a value.

        Raises:
            StoreAway: Redis cannot be reached, or does not answer in time.
        """
        try:
            return self._connections.use(lambda connection: self._exchange(connection, commands))
        except (RedisError, OSError, ValueError) as error:  # ValueError: something else listens there
            raise self._away(error) from error

    def _exchange(self, connection: Connection, commands: Sequence[Parts]) -> list[Any]:
        if not connection.is_connected:
            # The time limits of sockets count for each step by itself, and looking up a name has none.
            with gevent.Timeout(CONNECT_S, redis.TimeoutError(f"no connection within {CONNECT_S * 1000:.0f} ms")):
                connection.connect()
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        return [self._reply(connection) for _ in commands]

    @staticmethod
    def _reply(connection: Connection) -> Any:
        try:
            return connection.read_response(timeout=REPLY_S, disconnect_on_error=False)
        except ResponseError as refused:
            return refused
        except redis.TimeoutError:
            # Was Redis slow, or this event loop? What has arrived by now was in time.
            if not connection.can_read(0):
                raise
        try:
            return connection.read_response(timeout=REPLY_S)
        except ResponseError as refused:
            return refused

    def _away(self, error: Exception) -> StoreAway:
        self._connections.drop()  # the name may lead to another Redis now
        return StoreAway(f"{type(error).__name__}: {error}")


def _maker(url: str) -> Callable[[], Connection]:
    try:
        options: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
        kind = options.pop("connection_class", redis.Connection)
        ours = {
            "protocol": 2,
            "driver_info": None,  # saves two round trips of each connection
            "socket_timeout": CONNECT_S,  # of a greeting's step; for other replies see `_reply`
            "socket_connect_timeout": CONNECT_S,
            "retry": Retry(NoBackoff(), 0),  # its default makes seconds of a refused connection
        }
        kind(**{**options, **ours})
    except (ValueError, TypeError, RedisError) as error:
        raise StartRefused(f"HERMES_STATE_URL cannot be used: {error}") from None
    return lambda: kind(**{**options, **ours})


def _call(script: Script, names: Sequence[bytes], values: Sequence[str | bytes | int] = ()) -> Parts:
    return ("EVALSHA", script.digest, len(names), *names, *values)


def _name(key: str) -> bytes:
    return _octets(PREFIX + key)


def _index(noun: str) -> bytes:
    return _octets(f"{PREFIX}@{noun}")


def _named(key: str) -> tuple[bytes, bytes]:
    """The names of a key and of its noun's index."""
    return _name(key), _index(key.partition(":")[0])


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(value: Any) -> str | None:
    """None for what is no text, which Hermes did not write."""
    if not isinstance(value, bytes):
        return None
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _integer(reply: Any) -> int:
    return reply if isinstance(reply, int) else 0


def _ms(seconds: float) -> int:
    """A lifetime as Redis takes it: whole milliseconds, at least one."""
    return int(min(max(1.0, math.ceil(seconds * 1000)), LONGEST_MS)) if seconds < math.inf else LONGEST_MS
