"""Answers that last: exports and streams, a piece at a time.

Who does not read is let go after a while. An answer that cannot be completed ends with its connection, broken off so
that nobody takes half of it for all, also who speaks HTTP/1.0, where the connection's end is all that there is to see;
in the log it is one sentence.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

import gevent
from flask import Response, request
from gevent.lock import BoundedSemaphore

from hermes.errors import HermesError, Overloaded, Unauthorized
from hermes.web.connections import RESET, UNREAD_S

log = logging.getLogger("hermes-router.web")

MOST_EXPORTS: Final = 3
"""Of one process."""

RETRY_AFTER_S: Final = 10.0
CSV: Final = "text/csv; charset=utf-8"
Piece = str | bytes


class Lasting:
    """The pieces of an answer, for the server that sends them and closes this at the end, however that came.

    It is to be iterated and closed by the greenlet that sends: that one is thrown out of a send which takes too long.
    """

    def __init__(self, pieces: Iterable[Piece], name: str, sock: Any) -> None:
        """
        Args:
            name: what the log calls the answer.
            sock: the caller's connection; None where there is none to be reset.
        """
        self._pieces = iter(pieces)
        self._name = name
        self._sock = sock
        self._timer: gevent.Timeout | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The next piece.

        Raises:
            BrokenPipeError: there should be one, but it cannot be had. gunicorn ends the connection without a word.
        """
        self._end_wait()
        try:
            piece = next(self._pieces)
            return piece if isinstance(piece, bytes) else piece.encode()
        except HermesError as error:
            log.warning("The answer to %s was broken off: %s", self._name, error)
            self._reset()
            raise BrokenPipeError(errno.EPIPE, "broken off") from None
        finally:
            self._timer = gevent.Timeout.start_new(UNREAD_S, BrokenPipeError(errno.EPIPE, "not read"))

    def close(self) -> None:
        """The answer has been sent, or nobody wants it any more. Safe to call twice."""
        if self._timer is not None and not self._timer.pending:
            log.info("The answer to %s was broken off: nothing of it was taken for %.0f s", self._name, UNREAD_S)
            self._reset()
        self._end_wait()
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _reset(self) -> None:
        if self._sock is not None:
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


class Exports:
    """The files that are being written for operators: a few at a time, and one piece of them at a time, so that they
    take at most one of the database's connections from all that is not an export.
    """

    def __init__(self, most: int = MOST_EXPORTS) -> None:
        self._most = most
        self._turn = BoundedSemaphore(1)
        self._running: WeakSet[_Place] = WeakSet()
        """Weak: an answer that gets lost on its way to the server frees its place."""

    def answer(
        self, make: Callable[[], Iterable[Piece]], is_admitted: Callable[[], bool], content_type: str
    ) -> Response:
        """The answer to the current request, which ends with the operator's access.

        Args:
            make: the file's pieces, each read from the database when it is its turn.
            is_admitted: whether who has asked may still have it.

        Raises:
            Overloaded: there are as many already as there may be.
            HermesError: what `make` raises.
        """
        if len(self._running) >= self._most:
            raise Overloaded(
                f"{self._most} exports are being written already; come again after Retry-After.",
                retry_after_s=RETRY_AFTER_S,
            )
        place = _Place()
        self._running.add(place)
        try:
            with self._turn:
                pieces = iter(make())
        except BaseException:
            self._running.discard(place)
            raise
        response = Response(lasting(self._in_turn(pieces, is_admitted, place)), content_type=content_type)
        response.call_on_close(lambda: self._running.discard(place))
        return response

    def _in_turn(self, pieces: Iterator[Piece], is_admitted: Callable[[], bool], place: _Place) -> Iterator[Piece]:
        while True:
            with self._turn:
                piece = next(pieces, None)
            if piece is None:
                return
            if not is_admitted():
                raise Unauthorized("Who asked for it has no access any more.")
            yield piece


class _Place:
    """One of those that exports may take."""


def lasting(pieces: Iterable[Piece]) -> Lasting:
    """The pieces as the answer to the current request."""
    return Lasting(pieces, request.path, request.environ.get("gunicorn.socket"))
