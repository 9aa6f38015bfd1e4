"""Callers' connections: how they are taken up, and how long is waited for a caller who does not read.

Whatever is written to a caller, by whichever part of Hermes, is written here. A caller must take a piece of it within
`UNREAD_S`, and something of it sooner once their request's time is over or where places are scarce; else the connection
is reset, so that nobody holds a place, or what is to be written, by not reading.
"""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from typing import Any, Final

import gevent
import gevent.socket
from gevent.server import StreamServer

log = logging.getLogger("hermes-router.web")

PIECE_BYTES: Final = 65536
UNREAD_S: Final = 30.0
"""How long a caller may take for a piece of an answer."""

UNREAD_LATE_S: Final = 2.0
"""How long nothing may be taken when the request's time is over: who reads on, however slowly, gets the rest of a large
answer all the same.
"""

UNREAD_CROWDED_S: Final = 3.0
"""The same where others might get no place."""

UNREAD_MOMENT_S: Final = 1.0
"""Who has taken nothing for so long may have to make room for somebody who comes."""

LOOK_S: Final = 1.0
"""How often it is looked whether they do."""

TAKES: Final = 400
TAKES_SHARED: Final = 16
"""Callers that are taken at a time; fewer where another worker may have the time for them."""

OUTSIDE_S: Final = 0.1
TELLS_EVERY_S: Final = 10.0
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: when it is closed, the connection is reset, and what is still to be sent is forgotten."""

NEVER: Final = float("inf")

deadlines: Final[dict[Any, float]] = {}
"""By connection: the moment of the monotonic clock at which the time of the request that is being answered is over."""

_unread: Final[dict[Any, tuple[float, ClientSocket]]] = {}
"""By greenlet that waits for a caller to read: since when nothing is taken, and the connection. The longest first."""


def end_longest_unread() -> bool:
    """Ends the connection of whoever has taken nothing for the longest, if that is a while; whether there was one.
    Only for the event loop itself to call, as then each of them is at its wait.
    """
    greenlet = next(iter(_unread), None)
    if greenlet is None:
        return False
    since, sock = _unread[greenlet]
    unread_s = time.monotonic() - since
    if unread_s < UNREAD_MOMENT_S:
        return False
    greenlet.throw(sock.broken_off(unread_s))
    return True


class ClientSocket(gevent.socket.socket):  # type: ignore[misc]  # gevent has no types
    """A caller's connection. What fits into the system's buffer goes with one call; gevent's own makes two."""

    __slots__ = ()

    is_crowded: Callable[[], bool] = staticmethod(lambda: False)
    """The worker's: whether places are scarce."""

    def send(self, data: bytes | memoryview, flags: int = 0, timeout: object = None) -> int:
        """Sends what there is room for, at least a byte; gevent's own waits for room as long as it takes.

        Raises:
            BrokenPipeError: the caller has taken nothing for too long; the connection is reset when it is closed.
        """
        while True:
            try:
                sent: int = self._sock.send(data, flags)
            except BlockingIOError:
                self._wait_for_room()
            else:
                return sent

    def sendall(self, data: bytes | memoryview, flags: int = 0) -> None:
        """Sends all of it; see `send`."""
        sent = self.send(data, flags)
        if sent < len(data):
            rest = memoryview(data)[sent:]
            while rest:
                rest = rest[self.send(rest, flags) :]

    def wait(self) -> None:
        """Waits for something to read, and lets the others have their turn in any case. Where nothing can be there yet,
        that costs less than to look first.
        """
        self._wait(self._read_event)

    def broken_off(self, unread_s: float) -> BrokenPipeError:
        """What ends the answer under way. The connection is reset when it is closed."""
        log.info("An answer was broken off: nothing of it was taken for %.0f s", unread_s)
        with suppress(OSError):
            self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        return BrokenPipeError(errno.EPIPE, "not read")

    def _wait_for_room(self) -> None:
        greenlet = gevent.getcurrent()
        began = since = time.monotonic()
        at_first = untaken = self._untaken()
        _unread[greenlet] = since, self
        try:
            while not self._has_room():
                now, left = time.monotonic(), self._untaken()
                if left < untaken:
                    since, untaken = now, left
                    del _unread[greenlet]  # and to the end of the row
                    _unread[greenlet] = since, self
                if at_first - left >= PIECE_BYTES:
                    began, at_first = now, left
                if now - began >= UNREAD_S or now - since >= self._patience_s(now):
                    raise self.broken_off(now - since)
        finally:
            del _unread[greenlet]

    def _has_room(self) -> bool:
        """Whether there is room for more, after a wait of `LOOK_S` at most."""
        look = gevent.Timeout(LOOK_S)
        try:
            with look:
                self._wait(self._write_event)
            return True
        except gevent.Timeout as over:
            if over is not look:
                raise
            return False

    def _patience_s(self, now: float) -> float:
        if now >= deadlines.get(self, NEVER):
            return UNREAD_LATE_S
        return UNREAD_CROWDED_S if self.is_crowded() else UNREAD_S

    def _untaken(self) -> int:
        """Bytes that the system holds for the caller. It tells of room only when much of them has been taken, which may
        be long after the caller has begun to read.
        """
        with suppress(OSError):
            return int.from_bytes(ioctl(self.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        return 0


class CallersListener(StreamServer):  # type: ignore[misc]  # gevent has no types
    """Where callers connect. gunicorn would take one caller each time that the event loop comes round, where there are
    several workers, so that a loop that is busy would leave the others standing outside, unseen and untold.
    """

    @property
    def max_accept(self) -> int:
        """How many callers are taken at a time."""
        return self._max_accept

    @max_accept.setter
    def max_accept(self, wanted: int) -> None:
        self._max_accept = TAKES_SHARED if wanted == 1 else TAKES

    _max_accept = TAKES
    _told_at = float("-inf")
    _spawn: Any

    def do_read(self) -> Any:
        """A caller. Where no more files may be opened they wait outside for a moment, and the log says so."""
        try:
            return super().do_read()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            if time.monotonic() - self._told_at >= TELLS_EVERY_S:
                self._told_at = time.monotonic()
                log.warning("Callers have to wait outside: %s. Raise the limit (ulimit -n).", error.strerror)
            self.stop_accepting()
            gevent.spawn_later(OUTSIDE_S, self._take_again)
            return None

    def _take_again(self) -> None:
        if self.started:
            self.start_accepting()

    def set_spawn(self, spawn: Any) -> None:
        """What serves a caller; see `gevent.baseserver.BaseServer.set_spawn`. It begins at once: gevent would let only
        fifty begin each time that the event loop comes round.
        """
        super().set_spawn(spawn)
        told_to_begin = self._spawn

        def begin(*arguments: Any) -> None:
            told_to_begin(*arguments).switch()

        self._spawn = begin
