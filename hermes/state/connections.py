"""Connections to Redis, few and shared: a request uses one for one exchange.

redis-py's own pool costs 40 µs an exchange, more than half of the exchange itself, and its wait for a free connection
has a time limit: 500 requests at once on a busy event loop looked like a Redis that is down. Here who finds no free
connection waits as long as Redis is well, and stops as soon as another request has found that it is not.

The pool grows by one connection at a time and beside the requests, which go on with those that are there: on a busy
event loop, connecting takes several of its turns, and looking up a name can take all of them.

A connection whose exchange did not end as it should, for whatever reason, is closed: a reply that is still on its way
would be read by the next request.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import gevent
from gevent.lock import Semaphore
from redis.exceptions import RedisError

from hermes.state.shared import StoreAway

LIMIT: Final = 8
"""Of one worker. They carry several times what a worker can ask."""

GROW_S: Final = 1.0
"""How long a further connection may take."""

IDLE_S: Final = 20.0
"""A connection that was idle for longer is closed: Redis or something between may have dropped it."""

Connection = Any
"""A `redis.Connection`, whose methods carry no types."""

T = TypeVar("T")


class Connections:
    """A pool for greenlets of one thread."""

    def __init__(self, make: Callable[[], Connection], clock: Callable[[], float] = time.monotonic) -> None:
        """Makes no connection yet.

        Args:
            make: gives a connection that is not connected.
        """
        self._make = make
        self._clock = clock
        self._crowd = _Crowd()

    def use(self, exchange: Callable[[Connection], T]) -> T:
        """What the exchange returns, which may have to connect first.

        Raises:
            StoreAway: another request has found so while this one waited.
        """
        crowd = self._crowd
        if crowd.slots.locked() and crowd.size < LIMIT and not crowd.is_growing:
            crowd.is_growing = True
            gevent.spawn(self._grow, crowd)
        crowd.slots.acquire()
        if crowd.is_over:
            crowd.slots.release()
            raise StoreAway("another request has just found so")
        connection = self._free(crowd) or self._make()
        try:
            result = exchange(connection)
        except BaseException:
            connection.disconnect()
            crowd.leave()
            raise
        self._give_back(crowd, connection)
        return result

    def drop(self) -> None:
        """Redis is not well: whoever waits stops waiting, and every connection is made anew."""
        crowd, self._crowd = self._crowd, _Crowd()
        crowd.is_over = True
        crowd.close()

    def _free(self, crowd: _Crowd) -> Connection | None:
        """The connection that was used last, if any is free and trusted."""
        if not crowd.free:
            return None
        connection, used_at = crowd.free.pop()
        if self._clock() - used_at < IDLE_S:
            return connection
        connection.disconnect()
        return None

    def _give_back(self, crowd: _Crowd, connection: Connection) -> None:
        now = self._clock()
        if crowd.is_over:
            connection.disconnect()
            crowd.slots.release()
            return
        crowd.free.append((connection, now))
        if now - crowd.free[0][1] > IDLE_S:
            crowd.free.pop(0)[0].disconnect()
            crowd.leave()
        else:
            crowd.slots.release()

    def _grow(self, crowd: _Crowd) -> None:
        connection = self._make()
        try:
            with gevent.Timeout(GROW_S, StoreAway("no further connection")):
                connection.connect()
        except (RedisError, OSError, ValueError, StoreAway):
            connection.disconnect()  # how Redis is, the requests will find out
            return
        finally:
            crowd.is_growing = False
        if crowd.is_over:
            connection.disconnect()
            return
        crowd.size += 1
        crowd.free.append((connection, self._clock()))
        crowd.slots.release()


class _Crowd:
    """The connections from one trouble to the next. There are as many slots as connections, but at least one."""

    def __init__(self) -> None:
        self.slots = Semaphore(1)
        self.size = 1
        self.free: list[tuple[Connection, float]] = []
        """With the moment of their last use, the last used at the end."""

        self.is_growing = False
        self.is_over = False

    def leave(self) -> None:
        """A connection is gone, and its slot with it; the last slot stays, for a connection that is made anew."""
        if self.size > 1:
            self.size -= 1
        else:
            self.slots.release()

    def close(self) -> None:
        while self.free:
            self.free.pop()[0].disconnect()
