"""One HTTP/1.1 answer while it is being read: its head, then its body bit by bit, each wait within the deadline.

llhttp (httptools) reads the answers strictly: what is framed in two ways, or in none, is no answer. Bytes are handed
on as they come; a body that is packed although nobody asked for it is unpacked within bounds.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import gevent
import httptools

from hermes.turns import MOMENT_S
from hermes.upstream.lifeline import Lifeline

RECEIVE_BYTES = 65536
MAX_HEAD_BYTES = 65536
MAX_INTERIM_ANSWERS = 16
JOIN_BELOW_BYTES = 65536
BYTES_IN_A_ROW = 131_072
READS_IN_A_ROW = 8
"""After so much, or so many reads of less, the others have a turn: a provider faster than its reader would otherwise
keep the event loop to itself."""

MAX_UNPACKED_BYTES = 16 * 1024 * 1024
"""What one read of packed bytes may unpack to."""

UNBOUNDED = nullcontext()
UNPACKABLE = (b"gzip", b"x-gzip", b"deflate")


class NotSent(Exception):
    """The request has not reached the provider: no connection, or one that was lost while it was being sent."""


class Lost(Exception):
    """The request was sent; then the connection was lost, or what came back is not HTTP."""


class TimedOut(Exception):
    """The request was sent; then the time was over."""


class Response:
    """One answer while it is being read: its head, then its body bit by bit.

    The methods named `on_…` are llhttp's callbacks.
    """

    __slots__ = (
        "_chunked", "_clock", "_complete", "_deadline", "_failure", "_head_bytes", "_head_done", "_in_a_row",
        "_interim", "_keep", "_length_known", "_lifeline", "_parser", "_ready", "_sock", "_unpack", "body_bytes",
        "headers", "received", "status",
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

        self.body_bytes = 0
        """Of the body; as it came, if it is packed."""

        self._sock: socket.socket | None = sock
        self._deadline = deadline
        self._lifeline = lifeline
        self._clock = clock
        self._keep = keep
        self._parser = httptools.HttpResponseParser(self)
        self._head_done = self._complete = self._length_known = self._chunked = False
        self._head_bytes = self._interim = 0
        self._in_a_row = 0
        self._ready: list[bytes] = []
        self._failure = ""
        self._unpack: zlib._Decompress | None = None

    # -- sending and the head -----------------------------------------------------------------------------

    def begin(self, head: bytes, body: Sequence[bytes], sent: Callable[[], None] = lambda: None) -> None:
        """Sends the request, tells `sent` when the whole of it is on its way, and reads the answer's head."""
        unsent = self._send(head, body)
        if not unsent:
            sent()
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
            with self._limited(sock, None), self._lifeline:
                if len(head) + sum(map(len, body)) <= JOIN_BELOW_BYTES:
                    whole = b"".join((head, *body))
                    if (sent := sock.send(whole)) < len(whole):  # gevent's sendall asks the system twice
                        sock.sendall(whole[sent:])
                else:
                    sock.sendall(head)
                    for piece in body:
                        sock.sendall(piece)
        except TimeoutError:
            raise NotSent("the request could not be sent in time") from None
        except OSError as error:
            return f"the connection was lost while sending: {said(error)}"
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
            self.body_bytes += len(data)
            self._ready.append(data)

    def on_message_complete(self) -> None:
        if self._head_done and not self._complete:
            self._complete = True
            if not self._parser.should_keep_alive():  # llhttp knows this only within this callback
                self._keep = _do_nothing

    # -- the wire -----------------------------------------------------------------------------------------

    def _receive(self, idle_timeout_s: float | None) -> None:
        sock = self._open_socket()
        if self._in_a_row >= BYTES_IN_A_ROW:
            self._in_a_row = 0
            self._lifeline.sleep(MOMENT_S)
        try:
            with self._limited(sock, idle_timeout_s), self._lifeline:
                data = sock.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise TimedOut("no answer in time" if not self._head_done else "the answer stopped coming") from None
        except OSError as error:
            raise Lost(f"the connection was lost: {said(error)}") from None
        if not data:
            self._at_end_of_wire()
            return
        self.received += len(data)
        self._in_a_row += max(len(data), BYTES_IN_A_ROW // READS_IN_A_ROW)
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

    def _limited(self, sock: socket.socket, idle_timeout_s: float | None) -> AbstractContextManager[object]:
        """Bounds one operation by what is left of the attempt. Raises `TimeoutError` if nothing is.

        A TLS record may take many reads of the wire, each of which would begin the socket's timeout anew.
        """
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        left = left if idle_timeout_s is None else min(left, idle_timeout_s)
        sock.settimeout(left)
        if isinstance(sock, ssl.SSLSocket):
            timer: AbstractContextManager[object] = gevent.Timeout(left, TimeoutError)
            return timer
        return UNBOUNDED

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


def said(error: OSError) -> str:
    """What the system says, without addresses or names."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'no reason given'})"
    return (error.strerror or type(error).__name__).lower()


def _do_nothing() -> None:
    """Stands where a connection must not be kept."""
