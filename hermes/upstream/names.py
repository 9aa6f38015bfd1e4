"""Where the names of providers' hosts lead: asked of the system, in threads that nothing else needs.

Looking up a name knows no timeout: while a name server is silent, the thread that asks it stands still for as long as
the system likes. So each name is looked up once at a time, for all who need it, and whoever has waited long enough goes
without while the look-up goes on: however many requests there are for a provider, its name takes one thread.

What was found is believed for a moment, and for longer while the name servers do not answer:

    fresh ──(`FRESH_S`)──► asked again ──(no answer yet after `PATIENCE_S`, or none to be had)──► the last addresses
                                  └─(there is no such name)──► an error, as ever
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import gevent
from gevent import monkey
from gevent.threadpool import ThreadPool

log = logging.getLogger("hermes-router")

THREADS: Final = 16
"""So many names may hang at a time before a further one has to wait."""

FRESH_S: Final = 5.0
"""How long an answer is not asked for again."""

PATIENCE_S: Final = 0.5
"""How long one who has older addresses waits for newer ones."""

KEPT_S: Final = 3600.0
"""How long the last addresses are of use to those who get no newer ones."""

ask_system = monkey.get_original("socket", "getaddrinfo")

Address = tuple[int, int, int, tuple[Any, ...]]
"""Family, kind and protocol of the socket, and where it connects to."""

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Found:
    addresses: list[Address]
    at: float


@dataclass(frozen=True, slots=True)
class _LookUp:
    greenlet: gevent.Greenlet
    """Gives what has failed, or None."""

    began: float


class Names:
    """What is known of names; for greenlets of one thread."""

    def __init__(
        self, look_up: Callable[..., list[Any]] = ask_system, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            look_up: as `socket.getaddrinfo`; may block, for it is called in a native thread.
        """
        self._look_up = look_up
        self._clock = clock
        self._found: dict[Place, _Found] = {}
        self._under_way: dict[Place, _LookUp] = {}
        self._pool: ThreadPool | None = None
        self._is_old_used: set[Place] = set()
        """Names of which the log says so."""

    @property
    def under_way(self) -> int:
        """How many names are being looked up, also those that nobody waits for any more."""
        return len(self._under_way)

    def addresses(self, host: str, port: int, until: float, caller: AbstractContextManager[object]) -> list[Address]:
        """Where the name leads, the best address first.

        Args:
            until: when the wait is over, on the clock.
            caller: around the wait, which its leaving ends.

        Raises:
            TimeoutError: nothing was found in time.
            OSError: there is no such name, or the name servers say nothing of it.
        """
        place = host, port
        known = self._found.get(place)
        if known is not None and self._clock() - known.at < FRESH_S:
            return known.addresses
        look_up = self._under_way.get(place) or self._begin(place)
        if known is not None and self._clock() - known.at < KEPT_S:
            until = min(until, look_up.began + PATIENCE_S)
        else:
            known = None
        left_s = until - self._clock()
        if left_s > 0:
            with caller:
                look_up.greenlet.join(left_s)
        if not look_up.greenlet.ready():
            return self._older(place, known, TimeoutError())
        failure = look_up.greenlet.value
        if failure is not None:
            raise_at_once = isinstance(failure, socket.gaierror) and failure.errno == socket.EAI_NONAME
            return self._older(place, None if raise_at_once else known, failure)
        return self._found[place].addresses

    def _older(self, place: Place, known: _Found | None, failure: Exception) -> list[Address]:
        if known is None:
            raise failure
        if place not in self._is_old_used:
            self._is_old_used.add(place)
            reason = str(failure) or "the name servers do not answer"
            log.warning("The host name of a provider cannot be looked up, its last addresses are used: %s", reason)
        return known.addresses

    def _begin(self, place: Place) -> _LookUp:
        look_up = self._under_way[place] = _LookUp(gevent.spawn(self._run, place), self._clock())
        return look_up

    def _run(self, place: Place) -> Exception | None:
        if self._pool is None:
            self._pool = ThreadPool(THREADS)
        try:
            outcome = self._pool.apply(self._outcome, place)
        finally:
            del self._under_way[place]
        if isinstance(outcome, Exception):
            return outcome
        self._found[place] = _Found(outcome, self._clock())
        self._is_old_used.discard(place)
        return None

    def _outcome(self, host: str, port: int) -> list[Address] | Exception:
        """Runs in a thread. As a value: gevent prints the traceback of an exception that leaves a pool's thread."""
        try:
            found = self._look_up(host, port, type=socket.SOCK_STREAM)
        except Exception as failure:  # noqa: BLE001  (raised again by those who wait)
            return failure
        return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]
