"""Reads HTTP requests: ids, the body within its bounds, the caller's socket."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import gevent
from flask import request
from gunicorn.http.errors import ParseException

from hermes.errors import BodyTimeout, InvalidRequest, PayloadTooLarge, UnsupportedMedia
from hermes.observe.logs import request_id_var

REQUEST_ID = "hermes.request_id"
READ_BYTES = 65536
BODY_PACE_S = 30.0
"""Each 64 KiB of a body must arrive within this; gunicorn itself waits for ever."""


def new_request_id() -> str:
    """A fresh id that sorts by time: `req_`, 11 hex digits of milliseconds, 16 random ones."""
    return f"req_{int(time.time() * 1000):011x}{os.urandom(8).hex()}"


def begin(environ: dict[str, Any]) -> str:
    """Names the request, for its answer, its log lines and its trace."""
    name = new_request_id()
    environ[REQUEST_ID] = name
    request_id_var.set(name)
    return name


def request_id() -> str:
    """The id of the current request."""
    environ = request.environ
    return str(environ.get(REQUEST_ID) or begin(environ))


def body_reader(environ: dict[str, Any]) -> Callable[[int], bytes]:
    """A function that reads the request's body, up to a limit in bytes."""
    return lambda limit: read_body(environ, limit)


def read_body(environ: dict[str, Any], limit: int) -> bytes:
    """The whole body. Reads at most `limit` + 1 bytes, since a chunked body does not say its length before.

    Raises:
        PayloadTooLarge: it is longer.
        BodyTimeout: it comes too slowly.
        UnsupportedMedia: it is packed.
        InvalidRequest: it ends before its declared length.
    """
    encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMedia("Packed request bodies are not read; send it without Content-Encoding.")
    declared = environ.get("CONTENT_LENGTH") or ""
    length = int(declared) if declared.isdigit() else None
    if length is not None and length > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    left = limit + 1 if length is None else length
    while left > 0:
        piece = _read(environ, min(READ_BYTES, left))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    if length is None and left == 0:
        raise _too_large(limit)
    if length is not None and left:
        raise InvalidRequest("The body ended before its Content-Length.")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read(environ: dict[str, Any], size: int) -> bytes:
    try:
        with gevent.Timeout(BODY_PACE_S, TimeoutError):
            data: bytes = environ["wsgi.input"].read(size)
    except TimeoutError:
        raise BodyTimeout("The request's body came too slowly.") from None
    except (OSError, ParseException):
        _listen_no_more(environ)
        raise InvalidRequest("The body is not framed as its head says.") from None
    return data


def _listen_no_more(environ: dict[str, Any]) -> None:
    """Where a request ends is unknown, so what follows on this connection must not be taken for another one."""
    sock = environ.get("gunicorn.socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RD)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit // (1024 * 1024)} MB (server.max_body_mb).")
