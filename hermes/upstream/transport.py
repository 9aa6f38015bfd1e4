"""A small pooled HTTP/1.1 client on gevent sockets: what the hot path needs, and nothing else.

It owns its sockets, so a deadline ends any wait whatever the provider sends: every wait gets the time that is left of
the whole attempt, never a fresh allowance. llhttp (httptools) reads the answers strictly. Redirects are not followed;
proxies and `.netrc` are not looked at; nothing is ever sent twice. Bytes are handed on as they come from the wire.

A connection returns to the pool only after a whole answer, and is looked at before it is used again: one that is
readable while nothing was asked has been closed, or holds an answer that is somebody else's.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

import certifi
import gevent
import httptools
from gevent import monkey

from hermes import __version__
from hermes.upstream.lifeline import Lifeline

RECEIVE_BYTES = 65536
MAX_HEAD_BYTES = 65536
MAX_INTERIM_ANSWERS = 16
JOIN_BELOW_BYTES = 65536
IDLE_PLAIN_S = 4.0
"""Servers of models commonly drop an idle connection after five seconds; reuse stops before they do."""

IDLE_TLS_S = 30.0
MAX_IDLE_PER_HOST = 256
MAX_UNPACKED_BYTES = 16 * 1024 * 1024
"""What one read of packed bytes may unpack to."""

UNPACKABLE = (b"gzip", b"x-gzip", b"deflate")


class NotSent(Exception):
    """The request has not reached the provider: no connection, or one that was lost while it was being sent."""


class Lost(Exception):
    """The request was sent; then the connection was lost, or what came back is not HTTP."""


class TimedOut(Exception):
    """The request was sent; then the time was over."""


look_at_once = monkey.get_original("select", "poll")
"""The system's own poll: gevent's would go round the event loop."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests of one base URL go."""

    scheme: str
    host: str
    port: int
    path: bytes
    """With query; what stands in the request line."""

    host_header: bytes
    authorization: bytes
    """From the URL's user part; empty where there is none."""

    @classmethod
    def parse(cls, base_url: str, route: str = "/chat/completions") -> Target:
        """The base URL as written, trailing slashes off, with the route added before a query."""
        url: SplitResult = urlsplit(base_url)
        secure = url.scheme == "https"
        host = url.hostname or ""
        port = url.port or (443 if secure else 80)
        path = url.path.rstrip("/") + route + (f"?{url.query}" if url.query else "")
        shown = f"[{host}]" if ":" in host else host
        host_header = shown if port == (443 if secure else 80) else f"{shown}:{port}"
        host_bytes = host_header.encode("ascii" if host_header.isascii() else "idna")
        user = f"{unquote(url.username or '')}:{unquote(url.password or '')}" if url.username else ""
        authorization = b"Basic " + b64encode(user.encode()) if user else b""
        return cls(url.scheme, host, port, quote(path, safe="/?=&%:@!$'()*+,;~-._").encode(), host_bytes, authorization)


class Transport:
    """Connections to providers, pooled by scheme, host and port."""

    def __init__(self, connect_timeout_s: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._clock = clock
        self._idle: dict[tuple[str, str, int], list[tuple[socket.socket, float]]] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        self._tls = ssl.create_default_context()
        self._tls.load_verify_locations(certifi.where())

    def post(
        self,
        base_url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes],
        *,
        route: str = "/chat/completions",
        deadline: float,
        lifeline: Lifeline,
    ) -> Response:
        """One POST of JSON to `base_url` + `route`; returns as soon as the answer's head is in.

        Args:
            deadline: a moment of the clock at which this attempt is over, its answer's body included.

        Raises:
            NotSent, Lost, TimedOut: see there.
            ClientGone: the caller has hung up meanwhile.
        """
        target = self._targets.get((base_url, route))
        if target is None:
            target = self._targets[base_url, route] = Target.parse(base_url, route)
        head = _head(target, headers, sum(map(len, body)))
        place = (target.scheme, target.host, target.port)
        sock = self._pooled(place) or self._connect(target, deadline, lifeline)
        response = Response(sock, deadline, lifeline, self._clock, lambda: self._keep(place, sock))
        try:
            response.begin(head, body)
        except BaseException:  # whatever interrupts it, a connection in the middle of an answer is of no use to anyone
            response.close()
            raise
        return response

    def close(self) -> None:
        """Closes every idle connection."""
        for connections in self._idle.values():
            for sock, _ in connections:
                sock.close()
        self._idle.clear()

    def _pooled(self, place: tuple[str, str, int]) -> socket.socket | None:
        connections = self._idle.get(place)
        limit = IDLE_TLS_S if place[0] == "https" else IDLE_PLAIN_S
        while connections:
            sock, since = connections.pop()
            if self._clock() - since < limit and not _is_readable(sock):
                return sock
            sock.close()
        return None

    def _keep(self, place: tuple[str, str, int], sock: socket.socket) -> None:
        connections = self._idle.setdefault(place, [])
        connections.append((sock, self._clock()))
        if len(connections) > MAX_IDLE_PER_HOST:
            connections.pop(0)[0].close()

    def _connect(self, target: Target, deadline: float, lifeline: Lifeline) -> socket.socket:
        until = min(deadline, self._clock() + self._connect_timeout_s)
        reason = "no address"
        for family, kind, protocol, address in self._addresses(target, until, lifeline):
            left = until - self._clock()
            if left <= 0:
                raise NotSent("the connection timed out")
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(left)
                with lifeline:
                    sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return self._secured(sock, target, lifeline) if target.scheme == "https" else sock
            except TimeoutError:
                sock.close()
                reason = "the connection timed out"
            except OSError as error:  # TLS errors are OSErrors too
                sock.close()
                reason = f"no connection: {_said(error)}"
            except BaseException:
                sock.close()
                raise
        raise NotSent(reason)

    def _addresses(
        self, target: Target, until: float, lifeline: Lifeline
    ) -> list[tuple[int, int, int, tuple[str, int]]]:
        try:
            with gevent.Timeout(max(0.001, until - self._clock()), TimeoutError), lifeline:
                found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise NotSent("the name of the host could not be looked up in time") from None
        except OSError as error:
            raise NotSent(f"the name of the host is not known: {_said(error)}") from None
        return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]  # type: ignore[misc]

    def _secured(self, sock: socket.socket, target: Target, lifeline: Lifeline) -> socket.socket:
        with lifeline:
            return self._tls.wrap_socket(sock, server_hostname=target.host)


class Response:
    """One answer while it is being read: its head, then its body bit by bit.

    The methods named `on_…` are llhttp's callbacks.
    """

    __slots__ = (
        "_chunked", "_clock", "_complete", "_deadline", "_failure", "_head_bytes", "_head_done", "_interim", "_keep",
        "_length_known", "_lifeline", "_parser", "_ready", "_sock", "_unpack", "headers", "received", "status",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        deadline: float,
        lifeline: Lifeline,
        clock: Callable[[], float],
        keep: Callable[[], None],
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; of repeated headers the first counts."""

        self.received = 0
        """Bytes from the wire so far."""

        self._sock: socket.socket | None = sock
        self._deadline = deadline
        self._lifeline = lifeline
        self._clock = clock
        self._keep = keep
        self._parser = httptools.HttpResponseParser(self)
        self._head_done = self._complete = self._length_known = self._chunked = False
        self._head_bytes = self._interim = 0
        self._ready: list[bytes] = []
        self._failure = ""
        self._unpack: zlib._Decompress | None = None

    # -- sending and the head -----------------------------------------------------------------------------

    def begin(self, head: bytes, body: Sequence[bytes]) -> None:
        """Sends the request and reads the answer's head."""
        unsent = self._send(head, body)
        try:
            while not self._head_done:
                self._receive(None)
        except Lost:
            if unsent:
                raise NotSent(unsent) from None
            raise

    def _send(self, head: bytes, body: Sequence[bytes]) -> str:
        """Sends; what went wrong, or nothing. A server that refuses a long body may have said so before it closed."""
        sock = self._open_socket()
        try:
            self._set_timeout(sock, None)
            with self._lifeline:
                if len(head) + sum(map(len, body)) <= JOIN_BELOW_BYTES:
                    sock.sendall(b"".join((head, *body)))
                else:
                    sock.sendall(head)
                    for piece in body:
                        sock.sendall(piece)
        except TimeoutError:
            raise NotSent("the request could not be sent in time") from None
        except OSError as error:
            return f"the connection was lost while sending: {_said(error)}"
        return ""

    # -- the body -----------------------------------------------------------------------------------------

    def read(self, idle_timeout_s: float | None = None) -> bytes:
        """The next bytes of the body as they arrive, unpacked; empty at its end.

        Raises:
            Lost: the body ends before it should, or is not what its head says.
            TimedOut: the deadline, or `idle_timeout_s` without a byte.
        """
        while True:
            if self._ready:
                data = self._ready[0] if len(self._ready) == 1 else b"".join(self._ready)
                self._ready.clear()
                if self._unpack is not None:
                    data = self._unpacked(data)
                if data:
                    return data
            if self._failure:
                raise Lost(self._failure)
            if self._complete:
                self._finish()
                return b""
            self._receive(idle_timeout_s)

    def read_all(self, limit_bytes: int) -> bytes:
        """The whole body.

        Raises:
            Lost, TimedOut: as `read`; Lost also for a body beyond the limit.
        """
        pieces, size = [], 0
        while data := self.read():
            pieces.append(data)
            size += len(data)
            if size > limit_bytes:
                raise Lost(f"the answer is larger than {limit_bytes:,} bytes")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self) -> None:
        """Ends the reading: the connection goes back to the pool if the answer has come whole, else it is closed."""
        if self._complete and not self._failure and self._unpack is None:
            self._finish()
        else:
            self.close()

    def close(self) -> None:
        """Closes the connection unless it went back to the pool; safe to call twice."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()

    # -- llhttp's callbacks -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A further answer after the one that was asked for makes the connection useless."""
        if self._head_done:
            self._keep = _do_nothing
            self._failure = self._failure or ("" if self._complete else "a second answer began within the first")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        if self._head_done:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self.headers.clear()
            self._interim += 1
            return
        self.status, self._head_done = status, True
        self._chunked = "transfer-encoding" in self.headers
        self._length_known = self._chunked or "content-length" in self.headers or status in (101, 204, 304)
        self._begin_unpacking()

    def on_body(self, data: bytes) -> None:
        if not self._complete:
            self._ready.append(data)

    def on_message_complete(self) -> None:
        if self._head_done and not self._complete:
            self._complete = True
            if not self._parser.should_keep_alive():  # llhttp knows this only within this callback
                self._keep = _do_nothing

    # -- the wire -----------------------------------------------------------------------------------------

    def _receive(self, idle_timeout_s: float | None) -> None:
        sock = self._open_socket()
        try:
            self._set_timeout(sock, idle_timeout_s)
            with self._lifeline:
                data = sock.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise TimedOut("no answer in time" if not self._head_done else "the answer stopped coming") from None
        except OSError as error:
            raise Lost(f"the connection was lost: {_said(error)}") from None
        if not data:
            self._at_end_of_wire()
            return
        self.received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise Lost("the provider switched to another protocol") from None
        except httptools.HttpParserError as error:
            self._after_malformed(str(error))
        self._bound_head(len(data))

    def _bound_head(self, size: int) -> None:
        """Neither endless headers nor endless `100 Continue` may go on until the deadline."""
        if not self._head_done:
            self._head_bytes += size
            if self._head_bytes > MAX_HEAD_BYTES or self._interim > MAX_INTERIM_ANSWERS:
                raise Lost("the answer's head does not end")

    def _at_end_of_wire(self) -> None:
        if self._head_done and not self._length_known:
            self._complete = True  # this body's end is the connection's end
            self._keep = _do_nothing
        elif self._head_done:
            self._failure = "the answer was cut off"
        else:
            raise Lost("the connection was closed without an answer")

    def _after_malformed(self, reason: str) -> None:
        self._keep = _do_nothing
        if self._complete:
            return  # rubbish after a whole answer spoils the connection, not the answer
        if not self._head_done:
            raise Lost(f"the answer is not HTTP: {reason}")
        self._failure = f"the answer is not HTTP: {reason}"

    def _finish(self) -> None:
        if self._unpack is not None and not self._unpack.eof:
            raise Lost("the packed answer was cut off")
        keep, self._keep = self._keep, _do_nothing
        if self._sock is not None and keep is not _do_nothing:
            self._sock = None
            keep()
        else:
            self.close()

    def _set_timeout(self, sock: socket.socket, idle_timeout_s: float | None) -> None:
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left if idle_timeout_s is None else min(left, idle_timeout_s))

    def _open_socket(self) -> socket.socket:
        if self._sock is None:
            raise Lost("the connection is closed")
        return self._sock

    # -- packed bodies ------------------------------------------------------------------------------------

    def _begin_unpacking(self) -> None:
        encoding = self.headers.get("content-encoding", "identity").strip().lower().encode("latin-1")
        if encoding in UNPACKABLE:
            self._unpack = zlib.decompressobj(wbits=47)  # gzip or zlib, whichever the bytes say
        elif encoding not in (b"", b"identity"):
            self._failure = "the answer is packed in a way that was not asked for"

    def _unpacked(self, data: bytes) -> bytes:
        assert self._unpack is not None
        try:
            return self._unpack.decompress(data, MAX_UNPACKED_BYTES)
        except zlib.error:
            raise Lost("the packed answer is damaged") from None
        finally:
            if self._unpack.unconsumed_tail:
                self._failure = "the packed answer unpacks to more than an answer may have"


def _head(target: Target, headers: Mapping[str, str], length: int) -> bytes:
    given = {name.lower() for name in headers}
    lines = [b"POST %b HTTP/1.1" % target.path, b"Host: " + target.host_header]
    if target.authorization and "authorization" not in given:
        lines.append(b"Authorization: " + target.authorization)
    lines += [b"%b: %b" % (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    lines += [
        b"Content-Type: application/json",
        b"Accept-Encoding: identity",
        b"User-Agent: hermes/" + __version__.encode(),
        b"Content-Length: %d\r\n\r\n" % length,
    ]
    return b"\r\n".join(lines)


def _is_readable(sock: socket.socket) -> bool:
    """Whether there is something to read, or the other side has closed; does not wait."""
    poll = look_at_once()
    poll.register(sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def _said(error: OSError) -> str:
    """What the system says, without addresses or names."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'no reason given'})"
    return (error.strerror or type(error).__name__).lower()


def _do_nothing() -> None:
    """Stands where a connection must not be kept."""
