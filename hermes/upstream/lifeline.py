"""Notices that a caller has hung up, and ends what is being waited for on their behalf.

A WSGI server learns of a lost client only when it writes. While a provider is silent, nothing is written, so the
upstream would be read (and paid for) to the end. One greenlet per process therefore asks the kernel four times a
second whether any of the callers' sockets was closed by the other side, and throws `ClientGone` into the greenlet
that is waiting for that caller. As with `gevent.Timeout`, the exception can only arrive inside a `with lifeline:`
block, that is, at a wait.

A caller that closes only its sending half looks the same to the kernel as one that has left, and is taken for it.

The same greenlet ends the connection of a caller who does not read: while the server waits to write, nobody else could
notice that the request's time is over.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import gevent
from gevent import monkey
from gevent.event import Event

from hermes.errors import ClientGone

POLL_EVERY_S = 0.25
STALLED_S = 30.0
"""A caller who takes nothing for so long is not there."""

NEVER = float("inf")
LEFT = getattr(select, "POLLRDHUP", 0x2000) | select.POLLHUP | select.POLLERR


class Lifeline:
    """The tie between one request and its caller's socket."""

    __slots__ = ("_cut", "_handed_at", "_waiting", "deadline", "gone", "slept_s")

    def __init__(self) -> None:
        self.deadline = NEVER
        """A moment of the monotonic clock by which the caller must have taken what they are given."""

        self.gone = False
        self.slept_s = 0.0
        """How long this request has slept before repetitions."""

        self._handed_at: float | None = None
        self._waiting: Any = None
        self._cut: Callable[[], None] | None = None

    def __enter__(self) -> Lifeline:
        """Begins a wait that the caller's hang-up may end.

        Raises:
            ClientGone: it has ended already, or ends during the block.
        """
        if self.gone:
            raise ClientGone
        self._waiting = gevent.getcurrent()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting = None

    def sleep(self, seconds: float) -> None:
        """Sleeps, unless the caller hangs up."""
        self.slept_s += seconds
        with self:
            gevent.sleep(seconds)

    def hands_over(self, now: float) -> None:
        """Something is given to the server to be written; until `has_taken`, it is the caller who must move."""
        self._handed_at = now

    def has_taken(self) -> None:
        """What was given has been written."""
        self._handed_at = None

    def is_stalled(self, now: float) -> bool:
        """Whether the caller takes nothing, for too long or beyond the request's time."""
        return self._handed_at is not None and (now > self.deadline or now - self._handed_at > STALLED_S)

    def check(self) -> None:
        """Raises `ClientGone` if nobody is there any more."""
        if self.gone:
            raise ClientGone

    def hang_up(self) -> None:
        """The caller has left: ends the wait that is going on, and every later one at its beginning."""
        self.gone = True
        if self._waiting is not None:
            # delivered by the hub: by then the wait may be over, and outside a wait nothing may be thrown
            gevent.get_hub().loop.run_callback(self._throw)

    def release(self) -> None:
        """Ends the watch; safe to call twice."""
        if self._cut is not None:
            self._cut()
            self._cut = None

    def tie(self, cut: Callable[[], None]) -> None:
        """Remembers how the watch is ended."""
        self._cut = cut

    def _throw(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.throw(ClientGone())


class HangupWatch:
    """Watches the sockets of all callers that are being waited for."""

    def __init__(self, poll_every_s: float = POLL_EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._poll_every_s = poll_every_s
        self._clock = clock
        self._poll = monkey.get_original("select", "poll")()  # gevent's would wait; this one only looks
        self._watched: dict[int, tuple[Lifeline, Any]] = {}
        self._some = Event()
        self._greenlet: Any = None

    def lifeline(self, sock: Any) -> Lifeline:
        """A lifeline for the caller at this socket; without a socket (a test client) nobody ever hangs up."""
        line = Lifeline()
        fileno = sock.fileno() if sock is not None else -1
        if fileno >= 0 and fileno not in self._watched:
            self._watched[fileno] = line, sock
            self._poll.register(fileno, LEFT)
            line.tie(lambda: self._forget(fileno))
            self._start()
        return line

    def _start(self) -> None:
        self._some.set()
        if self._greenlet is None or self._greenlet.dead:
            self._greenlet = gevent.spawn(self._run)

    def _forget(self, fileno: int) -> None:
        if self._watched.pop(fileno, None) is not None:
            self._poll.unregister(fileno)

    def _run(self) -> None:
        while True:
            if not self._watched:
                self._some.clear()
                self._some.wait()
            gevent.sleep(self._poll_every_s)
            for fileno, _ in self._poll.poll(0):
                line, _ = self._watched.get(fileno, (None, None))
                self._forget(fileno)
                if line is not None:
                    line.hang_up()
            now = self._clock()
            for line, sock in list(self._watched.values()):
                if line.is_stalled(now):
                    _end(sock)


def _end(sock: Any) -> None:
    """Ends a connection whose write is being waited for: the write fails with a broken pipe, which ends the request.

    By the socket that gevent's wraps: its own `shutdown` would say in the waiting greenlet that the descriptor is gone.
    """
    with suppress(OSError):
        getattr(sock, "_sock", sock).shutdown(socket.SHUT_RDWR)
