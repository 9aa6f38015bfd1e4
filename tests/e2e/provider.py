"""A fake provider on raw sockets: says exactly the bytes it is told to, when it is told to, and remembers every call.

One thread accepts, one thread serves each connection. While a provider waits it watches the socket, so that it knows
within milliseconds when the caller has gone. All times are of `time.monotonic`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BufferedReader
from types import TracebackType
from typing import Any, Literal

from .replies import Reply, chat

HOST = "127.0.0.1"
LINE_LIMIT = 1 << 20
AT_ONCE_BYTES = 1 << 16
"""The buffers of a socket take this much without waiting for the other side."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Call:
    """One request that a provider has received, and what became of its answer."""

    head: str
    headers: dict[str, str]
    """Names in lower case."""

    body: bytes
    connection: int
    """Calls of the same connection have the same number."""

    at: float = field(default_factory=time.monotonic)
    sent: bytearray = field(default_factory=bytearray)
    sent_at: list[float] = field(default_factory=list)
    """When each piece went out."""

    ended_at: float | None = None
    ended_by: Literal["provider", "caller"] | None = None

    @property
    def path(self) -> str:
        """The path that was asked for."""
        return self.head.split(" ")[1]

    @property
    def key(self) -> str:
        """The provider key that came with it."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def json(self) -> Any:
        """The body as JSON; an empty object where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


class CallerGone(Exception):
    """The other side has closed the connection."""


class Provider:
    """A scriptable provider on a port of its own; answers in order, the last one for ever."""

    def __init__(self, *script: Reply) -> None:
        self.calls: list[Call] = []
        self.resets_on_accept = False
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, Call | None] = {}
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count(1)
        self._left: list[list[Any]] = []
        self._listener = _bound(0)
        self.port: int = self._listener.getsockname()[1]
        self.base_url = f"http://{HOST}:{self.port}/v1"
        self._listening = False
        self.accept()
        self.script(*(script or (chat(),)))

    def __enter__(self) -> Provider:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def script(self, *replies: Reply | Callable[[Call], Reply]) -> None:
        """What it says from now on, fixed or made for each call; forgets its calls and cuts what is still under way."""
        with self._lock:
            busy = [conn for conn, call in self._connections.items() if call is not None]
            self.calls = []
            self._left = [[reply, reply.times if isinstance(reply, Reply) else math.inf] for reply in replies]
            self.resets_on_accept = False
        for conn in busy:
            _shut(conn)
        self.accept()

    def refuse(self) -> None:
        """Closes the port, so that connections are refused; the port stays its own."""
        if self._listening:
            self._listening = False
            self._close_listener()
            self._listener = _bound(self.port)
            self._cut_all()

    def accept(self) -> None:
        """Opens the port again."""
        if not self._listening:
            self._listener.listen(256)
            self._listening = True
            self._begin(self._accept, self._listener)

    @property
    def open_connections(self) -> int:
        """Connections that nobody has closed yet."""
        with self._lock:
            return len(self._connections)

    @property
    def calls_under_way(self) -> int:
        """Requests whose answer has not ended."""
        with self._lock:
            return sum(call is not None for call in self._connections.values())

    def close_idle(self) -> None:
        """Ends the connections that are kept for later, as providers do after a while."""
        with self._lock:
            idle = [conn for conn, call in self._connections.items() if call is None]
        for conn in idle:
            _shut(conn)

    def close(self) -> None:
        """Gives the port, every connection and every thread back."""
        self._listening = False
        self._close_listener()
        self._cut_all()
        for thread in self._threads:
            thread.join(2)

    def _close_listener(self) -> None:
        _shut(self._listener)
        self._listener.close()

    def _cut_all(self) -> None:
        with self._lock:
            open_now = list(self._connections)
        for conn in open_now:
            _shut(conn)

    def _begin(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads = [old for old in self._threads if old.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            if self.resets_on_accept or not self._listening:
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                conn.close()
                continue
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections[conn] = None
            self._begin(self._serve, conn, next(self._numbers))

    def _serve(self, conn: socket.socket, number: int) -> None:
        reader = conn.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while (call := _read(reader, number)) is not None:
                reply = self._take(conn, call)
                if not self._answer(conn, call, reply):
                    break
                self._is_idle(conn)
        with self._lock:
            self._connections.pop(conn, None)
        reader.close()
        conn.close()

    def _take(self, conn: socket.socket, call: Call) -> Reply:
        with self._lock:
            self._connections[conn] = call
            self.calls.append(call)
            fitting = [entry for entry in self._left if _fits(entry[0], call)]
            if not fitting:
                raise ValueError("the test scripted no answer for this request")
            entry = next((entry for entry in fitting if entry[1] > 0), fitting[-1])
            entry[1] -= 1
        said = entry[0]
        return said if isinstance(said, Reply) else said(call)

    def _answer(self, conn: socket.socket, call: Call, reply: Reply) -> bool:
        """Says the reply; whether the connection may serve another request."""
        try:
            last = None if reply.endless else len(reply.pieces)
            pieces = itertools.chain(reply.pieces, itertools.repeat(reply.pieces[-1]) if reply.endless else ())
            for number, (wait_s, text) in enumerate(pieces, 1):
                _wait(conn, wait_s)
                if number == last and _is_kept(call, reply) and len(text) < AT_ONCE_BYTES:
                    self._is_idle(conn)
                call.sent_at.append(time.monotonic())
                if text:
                    conn.sendall(text)
                    call.sent += text
        except (CallerGone, OSError):
            call.ended_at, call.ended_by = time.monotonic(), "caller"
            return False
        call.ended_at, call.ended_by = time.monotonic(), "provider"
        if reply.end == "rst":
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        return _is_kept(call, reply)

    def _is_idle(self, conn: socket.socket) -> None:
        """Said before the end of an answer goes out: who has it may see at once that the connection is idle."""
        with self._lock:
            self._connections[conn] = None


def _is_kept(call: Call, reply: Reply) -> bool:
    return reply.end == "keep" and call.headers.get("connection", "").lower() != "close"


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((HOST, port))
    return sock


def _fits(reply: Reply | Callable[[Call], Reply], call: Call) -> bool:
    if not isinstance(reply, Reply):
        return True
    if reply.key is not None and call.key != reply.key:
        return False
    if reply.model is not None and call.json.get("model") != reply.model:
        return False
    return reply.has is None or bool(call.json.get(reply.has))


def _read(reader: BufferedReader, number: int) -> Call | None:
    head = reader.readline(LINE_LIMIT).decode("latin-1").strip()
    if not head:
        return None
    headers: dict[str, str] = {}
    while (line := reader.readline(LINE_LIMIT).decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if "chunked" not in headers.get("transfer-encoding", ""):
        return Call(head, headers, reader.read(int(headers.get("content-length", 0))), number)
    body = b""
    while size := int(reader.readline(), 16):
        body += reader.read(size)
        reader.readline()
    reader.readline()
    return Call(head, headers, body, number)


def _wait(conn: socket.socket, wait_s: float) -> None:
    """Waits, but raises CallerGone as soon as the other side closes."""
    until = time.monotonic() + wait_s
    while True:
        left_s = until - time.monotonic()
        readable, _, _ = select.select([conn], [], [], max(0.0, left_s))
        if readable:
            if conn.recv(1, socket.MSG_PEEK) == b"":
                raise CallerGone
            time.sleep(min(0.01, max(0.0, left_s)))  # a pipelined request: nothing a gateway should do
        if left_s <= 0:
            return


def _shut(sock: socket.socket) -> None:
    """Ends both directions, which wakes the thread that owns the socket and closes it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
