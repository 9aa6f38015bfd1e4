"""Notices that a caller has hung up, and ends what is being waited for on their behalf.

A WSGI server learns of a lost client only when it writes. While a provider is silent, nothing is written, so the
upstream would be read (and paid for) to the end. One greenlet per process therefore asks the kernel four times a
second whether any of the callers' sockets was closed by the other side, and throws `ClientGone` into the greenlet
that is waiting for that caller. As with `gevent.Timeout`, the exception can only arrive inside a `with lifeline:`
block, that is, at a wait.

A caller that closes only its sending half looks the same to the kernel as one that has left, and is taken for it.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from types import TracebackType
from typing import Any

import gevent
from gevent import monkey
from gevent.event import Event

from hermes.errors import ClientGone

POLL_EVERY_S = 0.25
LEFT = getattr(select, "POLLRDHUP", 0x2000) | select.POLLHUP | select.POLLERR


class Lifeline:
    """The tie between one request and its caller's socket."""

    __slots__ = ("_cut", "_waiting", "gone", "slept_s")

    def __init__(self) -> None:
        self.gone = False
        self.slept_s = 0.0
        """How long this request has slept before repetitions."""

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

    def __init__(self, poll_every_s: float = POLL_EVERY_S) -> None:
        self._poll_every_s = poll_every_s
        self._poll = monkey.get_original("select", "poll")()  # gevent's would wait; this one only looks
        self._watched: dict[int, Lifeline] = {}
        self._some = Event()
        self._greenlet: Any = None

    def lifeline(self, sock: Any) -> Lifeline:
        """A lifeline for the caller at this socket; without a socket (a test client) nobody ever hangs up."""
        line = Lifeline()
        fileno = sock.fileno() if sock is not None else -1
        if fileno >= 0 and fileno not in self._watched:
            self._watched[fileno] = line
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
                line = self._watched.get(fileno)
                self._forget(fileno)
                if line is not None:
                    line.hang_up()
