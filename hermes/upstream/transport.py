"""A small pooled HTTP/1.1 client on gevent sockets: what the hot path needs, and nothing else.

It owns its sockets, so a deadline ends any wait whatever the provider sends: every wait gets the time that is left of
the whole attempt, never a fresh allowance. Redirects are not followed;
proxies and `.netrc` are not looked at; nothing is ever sent twice. Bytes are handed on as they come from the wire.

A connection returns to the pool only after a whole answer, and is looked at before it is used again: one that is
readable while nothing was asked has been closed, or holds an answer that is somebody else's. What nobody
uses is closed soon after it is too old (`close_stale`), so that neither side holds a connection for nothing.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

import certifi
import gevent
from gevent import monkey

from hermes import __version__
from hermes.errors import Overloaded
from hermes.types import Allowance, Endpoint
from hermes.upstream import gate
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.names import Address, Names, ask_system
from hermes.upstream.response import NotSent, Response, said

IDLE_PLAIN_S = 4.0
"""Servers of models commonly drop an idle connection after five seconds; reuse stops before they do."""

IDLE_TLS_S = 30.0
MAX_IDLE_PER_HOST = 256
NO_SOCKET_RETRY_S = 1.0


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

    def __init__(
        self,
        connect_timeout_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        names: Names | None = None,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._clock = clock
        self._names = names or Names(clock=clock)
        self._idle: dict[tuple[str, str, int], list[tuple[socket.socket, float]]] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        self._tls = ssl.create_default_context()
        self._tls.load_verify_locations(certifi.where())

    def post(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        body: Sequence[bytes],
        *,
        allowance: Allowance,
        route: str = "/chat/completions",
        deadline: float,
        lifeline: Lifeline,
        sent: Callable[[], None] = lambda: None,
    ) -> Response:
        """One POST of JSON to the endpoint's base URL + `route`; returns as soon as the answer's head is in.

        Args:
            allowance: who may see what the body holds.
            deadline: a moment of the clock at which this attempt is over, its answer's body included.
            sent: is called as soon as the whole request is on its way.

        Raises:
            NotSent, Lost, TimedOut: see there.
            ClientGone: the caller has hung up meanwhile.
        """
        gate.check(endpoint, allowance)
        base_url = endpoint.base_url
        target = self._targets.get((base_url, route))
        if target is None:
            target = self._targets[base_url, route] = Target.parse(base_url, route)
        head = _head(target, headers, sum(map(len, body)))
        place = (target.scheme, target.host, target.port)
        sock = self._pooled(place) or self._connect(target, deadline, lifeline)
        response = Response(sock, deadline, lifeline, self._clock, lambda: self._keep(place, sock))
        try:
            response.begin(head, body, sent)
        except BaseException:  # whatever interrupts it, a connection in the middle of an answer is of no use to anyone
            response.close()
            raise
        return response

    @property
    def idle(self) -> int:
        """How many connections are kept for later."""
        return sum(map(len, self._idle.values()))

    def close_stale(self) -> None:
        """Closes idle connections that are too old to be used again, or that the provider has closed; for a loop."""
        for place, connections in list(self._idle.items()):
            kept: list[tuple[socket.socket, float]] = []
            for sock, since in connections:
                if self._is_fresh(place, sock, since):
                    kept.append((sock, since))
                else:
                    sock.close()
            if kept:
                self._idle[place] = kept
            else:
                del self._idle[place]

    def close(self) -> None:
        """Closes every idle connection."""
        for connections in self._idle.values():
            for sock, _ in connections:
                sock.close()
        self._idle.clear()

    def _pooled(self, place: tuple[str, str, int]) -> socket.socket | None:
        connections = self._idle.get(place)
        while connections:
            sock, since = connections.pop()
            if self._is_fresh(place, sock, since):
                return sock
            sock.close()
        return None

    def _is_fresh(self, place: tuple[str, str, int], sock: socket.socket, since: float) -> bool:
        limit_s = IDLE_TLS_S if place[0] == "https" else IDLE_PLAIN_S
        return self._clock() - since < limit_s and not _is_readable(sock)

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
            sock = _socket(family, kind, protocol)
            try:
                sock.settimeout(left)
                with lifeline:
                    sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return self._secured(sock, target, until, lifeline) if target.scheme == "https" else sock
            except TimeoutError:
                sock.close()
                reason = "the connection timed out"
            except OSError as error:  # TLS errors are OSErrors too
                sock.close()
                reason = f"no connection: {said(error)}"
            except BaseException:
                sock.close()
                raise
        raise NotSent(reason)

    def _addresses(self, target: Target, until: float, lifeline: Lifeline) -> list[Address]:
        try:
            return _of_number(target.host, target.port) or self._names.addresses(
                target.host, target.port, until, lifeline
            )
        except TimeoutError:
            raise NotSent("the name of the host could not be looked up in time") from None
        except (OSError, UnicodeError) as error:
            reason = said(error) if isinstance(error, OSError) else "it is none"
            raise NotSent(f"the name of the host is not known: {reason}") from None

    def _secured(self, sock: socket.socket, target: Target, until: float, lifeline: Lifeline) -> socket.socket:
        """The handshake, bounded as a whole: each of its reads would begin the socket's own timeout anew."""
        with gevent.Timeout(max(0.001, until - self._clock()), TimeoutError), lifeline:
            return self._tls.wrap_socket(sock, server_hostname=target.host)


def _socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A socket.

    Raises:
        Overloaded: this process may open no more; that is no fault of the endpoint's.
    """
    try:
        return socket.socket(family, kind, protocol)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise Overloaded(
            "This server has as many connections open as it may have; come again after Retry-After.",
            retry_after_s=NO_SOCKET_RETRY_S,
        ) from None


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


def _of_number(host: str, port: int) -> list[Address]:
    """Of a host that is written as an address; empty where it is a name. Here, since a thread that is asked takes as
    long as several requests on a busy event loop.
    """
    with suppress(socket.gaierror):
        found = ask_system(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]
    return []


def _is_readable(sock: socket.socket) -> bool:
    """Whether there is something to read, or the other side has closed; does not wait."""
    poll = look_at_once()
    poll.register(sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
