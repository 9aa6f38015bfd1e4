"""The hot routes between gunicorn and the application: a small environment, and an answer that goes out in one piece.

gunicorn builds an environment that any application could want, looks at each header of the answer by itself, and sends
head and body apart. For a short answer that is a tenth of all the work. What is no plain request to a hot route takes
gunicorn's own way.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final

from gunicorn.http.errors import InvalidResponseHeader
from gunicorn_h1c import IncompleteError, ParseError, parse_request

PATHS: Final = frozenset(
    prefix + path
    for prefix in ("", "/api")
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/completions/stream", "/v1/embeddings")
)
"""Of the hot routes, as nearly all callers write them."""

DEADLINE: Final = "hermes.deadline"
"""In the environment: the moment of the monotonic clock at which the request's time is over."""

TOGETHER_BYTES: Final = 65536
"""A longer body is not copied behind its head, but sent after it."""

_PATHS = frozenset(path.encode("ascii") for path in PATHS)
_NOT_PLAIN = frozenset((b"transfer-encoding", b"expect", b"upgrade"))
_FORBIDDEN = re.compile(r"[^\t\r\n\x20-\x7e\x80-\xff]")


def is_hot(req: Any) -> bool:
    """Whether one of gunicorn's requests may take this way."""
    return bool(req.method == "POST" and req.path in PATHS and req.version == (1, 1) and not req._expected_100_continue)


def environ_of(req: Any, sock: Any) -> dict[str, Any]:
    """What the layers before the hot routes, and those themselves, read of a request; see PEP 3333."""
    environ = {
        "REQUEST_METHOD": req.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": req.path,
        "QUERY_STRING": req.query,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": req.scheme,
        "wsgi.input": req.body,
        "gunicorn.socket": sock,
    }
    for name, value in req.headers:
        key = name.replace("-", "_")
        if key not in ("CONTENT_LENGTH", "CONTENT_TYPE"):
            key = f"HTTP_{key}"
            if key in environ:
                value = f"{environ[key]},{value}"
        environ[key] = value
    return environ


def origin_of_plain(data: bytes) -> str | None:
    """The origin that a request names, `""` where it names none, if these bytes are one plain request to a hot route,
    from its first byte to its last, so that nothing else need be known to refuse it. None for all other bytes.
    """
    try:
        found = parse_request(data)
    except (ParseError, IncompleteError):
        return None  # gunicorn says what is wrong with it, or reads on
    if found["method"] != b"POST" or found["minor_version"] != 1 or found["path"] not in _PATHS:
        return None
    headers = {name.lower(): value for name, value in found["headers"]}
    is_plain = (
        len(headers) == len(found["headers"])
        and b"host" in headers
        and headers.get(b"content-length") == b"%d" % (len(data) - found["consumed"])
        and headers.get(b"connection", b"keep-alive").lower() == b"keep-alive"
        and headers.keys().isdisjoint(_NOT_PLAIN)
    )
    return str(headers.get(b"origin", b""), "latin-1") if is_plain else None


def head_of(status: str, headers: Iterable[tuple[str, str]], *, keeps_open: bool) -> bytes:
    """An answer's head, to its empty line.

    Raises:
        InvalidResponseHeader: a header would break the head's form.
    """
    lines = [
        f"HTTP/1.1 {status}",
        "Server: gunicorn",
        f"Date: {_date(int(time.time()))}",
        f"Connection: {'keep-alive' if keeps_open else 'close'}",
        *[f"{name}: {value}" for name, value in headers],
    ]
    head = "\r\n".join(lines)
    ends = len(lines) - 1
    if head.count("\r") != ends or head.count("\n") != ends or _FORBIDDEN.search(head):
        raise InvalidResponseHeader("a control character")  # and not the value, which may be a secret
    return f"{head}\r\n\r\n".encode("latin-1")


class Answer:
    """One answer of HTTP/1.1. The head waits for the first piece of the body and goes out with it."""

    def __init__(self, sock: Any, *, keeps_open: bool) -> None:
        self.has_begun = False
        """Whether anything has gone out."""

        self._sock = sock
        self._keeps_open = keeps_open
        self._head = b""
        self._is_chunked = False

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """PEP 3333's; an answer that has begun cannot become another one.

        Raises:
            InvalidResponseHeader: a header would break the head's form.
        """
        if exc_info is not None and self.has_begun:
            raise exc_info[1]
        self._is_chunked = not any(name.lower() == "content-length" for name, _ in headers)
        if self._is_chunked:
            headers = [*headers, ("Transfer-Encoding", "chunked")]
        self._head = head_of(status, headers, keeps_open=self._keeps_open)
        return self.write

    def send(self, body: Iterable[bytes]) -> None:
        """Sends the body to its end, or to a failure of the socket."""
        for piece in body:
            self.write(piece)
        if self._is_chunked:
            self._out(b"0\r\n\r\n")
        elif not self.has_begun:
            self._out(b"")

    def write(self, piece: bytes) -> None:
        """Sends a piece of the body; an empty one sends what is held back."""
        if self._is_chunked and piece:
            piece = b"%X\r\n%b\r\n" % (len(piece), piece)
        self._out(piece)

    def _out(self, data: bytes) -> None:
        head, self._head = self._head, b""
        self.has_begun = True
        if head and len(data) > TOGETHER_BYTES:
            self._sock.sendall(head)
        elif head:
            data = head + data
        if data:
            self._sock.sendall(data)


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
