"""Reads HTTP requests: ids, texts of headers, a list's limit, the body within its bounds. Knows no framework."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import gevent
from gunicorn.http.errors import ChunkMissingTerminator, ParseException

from hermes.errors import BodyTimeout, ClientGone, InvalidRequest, PayloadTooLarge, UnsupportedMedia
from hermes.observe.logs import request_id_var
from hermes.turns import MOMENT_S, STINT_S

REQUEST_ID = "hermes.request_id"
READ_BYTES = 65536
BODY_PACE_S = 30.0
"""Each 64 KiB of a body must arrive within this; gunicorn itself waits for ever."""

LEAST_BYTES = 1024
READS_IN_A_ROW = 16
"""After so many, a megabyte, the others have a turn; a body that is there already is read without waiting."""

CHUNK_END_BYTES = 2

OTHERS_PARTS = 3
"""For each moment in which costly bodies are taken apart, however many they are, so many are everybody else's."""


def new_request_id() -> str:
    """A fresh id that sorts by time: `req_`, 11 hex digits of milliseconds, 16 random ones."""
    return f"req_{int(time.time() * 1000):011x}{os.urandom(8).hex()}"


def begin(environ: dict[str, Any]) -> str:
    """Names the request, for its answer, its log lines and its trace."""
    name = new_request_id()
    environ[REQUEST_ID] = name
    request_id_var.set(name)
    return name


def header(environ: dict[str, Any], name: str) -> str | None:
    """The text of a header, by its name in the environment. WSGI gives bytes as Latin-1; clients send UTF-8.

    >>> header({"HTTP_X_HERMES_USER": "J\\xc3\\xbcrgen"}, "HTTP_X_HERMES_USER")
    'Jürgen'
    """
    text: str | None = environ.get(name)
    if text is None or text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:  # it was Latin-1 after all
        return text


def limit_of(args: Mapping[str, str], default: int, most: int) -> int:
    """How many of a list are asked for: `limit` of a query.

    >>> limit_of({"limit": "7"}, 100, 1000), limit_of({}, 100, 1000)
    (7, 100)

    Raises:
        InvalidRequest: it is no whole number from 1 to `most`.
    """
    text = args.get("limit", str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise InvalidRequest(f"limit must be a whole number from 1 to {most}.", param="limit")
    return int(text)


def body_reader(environ: dict[str, Any]) -> Callable[[int], bytes]:
    """A function that reads the request's body, up to a limit in bytes."""
    return lambda limit: read_body(environ, limit)


def read_body(environ: dict[str, Any], limit: int) -> bytes:
    """The whole body. Reads at most `limit` + 1 bytes, since a chunked body does not say its length before.

    Raises:
        PayloadTooLarge: it is longer.
        BodyTimeout: it comes too slowly, or later than the caller's own X-Request-Timeout.
        UnsupportedMedia: it is packed.
        InvalidRequest: it is not framed as its head says.
        ClientGone: the caller has left before its end.
    """
    encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMedia("Packed request bodies are not read; send it without Content-Encoding.")
    declared = environ.get("CONTENT_LENGTH") or ""
    length = int(declared) if declared.isdigit() else None
    if length is not None and length > limit:
        raise _too_large(limit)
    deadline = time.monotonic() + _patience_s(environ)
    wanted = limit + 1 if length is None else length
    body = _read_up_to(Arriving(environ, deadline), wanted)
    left = wanted - len(body)
    if length is None and left == 0:
        raise _too_large(limit)
    if length is not None and left:
        raise ClientGone
    return body


def _read_up_to(arriving: Arriving, wanted: int) -> bytes:
    """So many bytes, fewer if there are no more. A long body grows where it is, since joining its pieces at the end
    would hold up the event loop.
    """
    first = arriving.read(wanted) if wanted else b""
    if not first or len(first) == wanted:
        return first
    whole = BytesIO()
    whole.write(first)
    while (left := wanted - whole.tell()) > 0:
        piece = arriving.read(left)
        if not piece:
            break
        whole.write(piece)
    return whole.getvalue()


class Arriving:
    """A request's body as it comes in: not too slowly, and without holding up the others.

    Whatever reads `wsgi.input` may read this instead.
    """

    def __init__(self, environ: dict[str, Any], deadline: float = float("inf")) -> None:
        self._environ = environ
        self._input = environ["wsgi.input"]
        self._deadline = deadline
        self._most = READ_BYTES if environ.get("CONTENT_LENGTH") else LEAST_BYTES
        self._due_at, self._due_bytes = 0.0, 0
        self._in_a_row = 0
        self._turn_at = time.monotonic() + STINT_S

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, or as many as are convenient; none at the body's end.

        Raises:
            BodyTimeout, InvalidRequest, ClientGone: see `read_body`.
        """
        began = time.monotonic()
        if self._due_bytes <= 0:
            self._due_at, self._due_bytes = began + BODY_PACE_S, READ_BYTES
        others: list[bool] = []
        gevent.get_hub().loop.run_callback(others.append, True)
        data = self._wait_for(self._most if size < 0 else min(size, self._most), began)
        self._due_bytes -= len(data)
        now = time.monotonic()
        # Chunks of a byte each take microseconds of work a byte: of such a body less is read in one go.
        has_computed_long = now - began > STINT_S and not others
        self._most = LEAST_BYTES if has_computed_long else min(READ_BYTES, 2 * self._most)
        self._in_a_row = 0 if others else self._in_a_row + 1
        if has_computed_long:
            _costly.wait(now - began, now, self._deadline)
            self._in_a_row, self._turn_at = 0, time.monotonic() + STINT_S
        elif others:
            self._turn_at = now + STINT_S
        elif now >= self._turn_at or self._in_a_row >= READS_IN_A_ROW:
            gevent.sleep(MOMENT_S)
            self._in_a_row, self._turn_at = 0, time.monotonic() + STINT_S
        return data

    def _wait_for(self, size: int, now: float) -> bytes:
        until = min(self._due_at, self._deadline)
        try:
            if now >= until:  # of what is there already nothing is waited for, so no timer would ever end it
                raise TimeoutError
            with gevent.Timeout(until - now, TimeoutError):
                data: bytes = self._input.read(size)
        except TimeoutError:
            with contextlib.suppress(AttributeError):
                self._input.failed = True  # gunicorn's word for a body of which no more is to be read
            _listen_no_more(self._environ)
            bound = ": X-Request-Timeout is over" if until == self._deadline else ""
            raise BodyTimeout(f"The request's body came too slowly{bound}.") from None
        except OSError:
            raise ClientGone from None
        except ParseException as fault:
            if isinstance(fault, ChunkMissingTerminator) and len(fault.term) < CHUNK_END_BYTES:
                raise ClientGone from None  # nothing came where a chunk's end should have been
            _listen_no_more(self._environ)
            raise InvalidRequest("The body is not framed as its head says.") from None
        return data


class _Pace:
    """Bodies that are costly to take apart, as in chunks of a byte, take turns: each waits for all that came before."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def wait(self, computed_s: float, now: float, deadline: float) -> None:
        """After a piece that took so long; no longer than to the deadline."""
        self._next_at = max(self._next_at, now) + OTHERS_PARTS * computed_s
        gevent.sleep(max(MOMENT_S, min(self._next_at, deadline) - now))


_costly = _Pace()


def _patience_s(environ: dict[str, Any]) -> float:
    """How long the caller will wait in all. A text that is no such time is refused when the body has been read."""
    try:
        seconds = float(environ.get("HTTP_X_REQUEST_TIMEOUT", ""))
    except ValueError:
        return float("inf")
    return seconds if seconds > 0 else float("inf")


def _listen_no_more(environ: dict[str, Any]) -> None:
    """Where a request ends is unknown, so what follows on this connection must not be taken for another one."""
    sock = environ.get("gunicorn.socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RD)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit // (1024 * 1024)} MB (server.max_body_mb).")
