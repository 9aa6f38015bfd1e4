"""What is left on a connection when its request has been answered: the part of the body that nobody has read.

gunicorn would read it to its end before the next request, without letting anybody else have a turn meanwhile: one
sender of a refused body without end would stand for all that the worker can do. And closing a connection with bytes
that nobody has read takes the answer back from the caller, if it has not come there yet.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any, Final

import gevent

from hermes.errors import ClientGone, HermesError
from hermes.turns import MOMENT_S
from hermes.web.http import Arriving

PIECE_BYTES: Final = 65536
HEARD_OUT_BYTES: Final = 16 * 1024 * 1024
"""So much of a body is read for nothing, so that its connection can be used again; with more of them it is ended."""

HEARD_OUT_S: Final = 10.0
LISTENS_S: Final = 1.0
"""How long a caller whose connection is ended may go on sending, so that the answer is not taken back."""


def is_read(req: Any) -> bool:
    """Whether one of gunicorn's requests has been read to its end."""
    reader = req.body.reader
    return not req.body.failed and (getattr(reader, "length", None) == 0 or getattr(reader, "parser", reader) is None)


def is_heard_out(req: Any) -> bool:
    """The same, after reading on for a while where it was not."""
    if is_read(req):
        return True
    left = getattr(req.body.reader, "length", 0)
    if req.body.failed or left > HEARD_OUT_BYTES:
        return False
    rest = Arriving({"wsgi.input": req.body}, time.monotonic() + HEARD_OUT_S)
    read = 0
    with suppress(HermesError, ClientGone):
        while read < HEARD_OUT_BYTES:
            piece = rest.read()
            if not piece:
                return True
            read += len(piece)
    return False


def let_go(sock: Any) -> None:
    """Ends a connection that may have more to say: the caller gets all of the answer, and is listened to no further."""
    with suppress(OSError), gevent.Timeout(LISTENS_S, False):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(HEARD_OUT_BYTES // PIECE_BYTES):
            if not sock.recv(PIECE_BYTES):
                break
            gevent.sleep(MOMENT_S)
