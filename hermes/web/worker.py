"""gunicorn's worker and its logger, as Hermes wants them.

The worker ends without waiting for silent clients, and answers what gunicorn refuses by itself (a head that is no HTTP,
that is too long, that contradicts itself) in the shape of all other errors. gunicorn's master imports this module, so
that it loads nothing of the application.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any, Final

import gevent
import gevent.socket
from gunicorn import arbiter
from gunicorn.glogging import Logger
from gunicorn.http import errors as http
from gunicorn.http.message import Request, _ip_in_allow_list
from gunicorn.http.parser import RequestParser
from gunicorn.workers import ggevent
from gunicorn.workers.ggevent import GeventWorker

from hermes.errors import HermesError, InvalidRequest
from hermes.native import make_logging_native
from hermes.observe import logs
from hermes.observe.logs import request_id_var
from hermes.observe.redact import Redactor
from hermes.turns import MOMENT_S
from hermes.web import wire
from hermes.web.answers import GUARDS, parts, status_line, unexpected
from hermes.web.connections import NEVER, CallersListener, ClientSocket, deadlines, end_longest_unread
from hermes.web.http import new_request_id
from hermes.web.unread import is_heard_out, is_read, let_go

log = logging.getLogger("hermes-router.web")

REFUSED: Final = 3
"""The exit status by which gunicorn knows that a worker must not be started again; the whole server ends with it."""

DATABASE_AWAY: Final = 75
"""With this status the application says that it could start if its database were there."""

TRY_AGAIN: Final = 1
TRY_AGAIN_S: Final = 1.0

LAST_WAIT_S: Final = 1.0
"""How long, at the end, a connection may be silent that has just been opened or has just had an answer; and how long is
listened to a caller whose request was refused."""

CROWDED_SHARE: Final = 0.85
"""Of all places. The rest is for those who come meanwhile."""

LOOKS_AGAIN_S: Final = 0.5

TURN_REQUESTS: Final = 8
"""After so many requests on one connection the others have a turn: one that sends without waiting for answers is never
waited for."""

SAME_WAIT_S: Final = 10.0
"""So long a connection's wait goes on over requests that are refused, before it is bounded anew."""

OURS: Final = (http.InvalidResponseHeader, http.InvalidResponseHeaderName, http.ConfigurationProblem)
"""What gunicorn has among the faults of requests, and is none."""

REFUSALS: Final = (
    (http.LimitRequestLine, 414, "The request line is too long."),
    (http.LimitRequestHeaders, 431, "The request's headers are too many or too long."),
    (http.ExpectationFailed, 417, "Only `Expect: 100-continue` is understood."),
    (http.UnsupportedTransferCoding, 501, "This transfer coding is not known; send the body with Content-Length."),
    (http.ForbiddenProxyRequest, 403, "A proxy at this address may not speak for others."),
    (http.InvalidHTTPVersion, 400, "This version of HTTP is not spoken; HTTP/1.1 is."),
    (http.InvalidRequestMethod, 400, "The request's method is none of HTTP's."),
    (http.InvalidRequestLine, 400, "The request line is not HTTP."),
    (http.ObsoleteFolding, 400, "A header goes on over several lines."),
    (http.InvalidHeaderName, 400, "A header's name is not HTTP."),
    (http.InvalidHeader, 400, "A header is not HTTP, or contradicts another one."),
    (http.ParseException, 400, "The request is not HTTP."),
    (ssl.SSLError, 400, "The connection does not speak TLS as it should."),
)
"""The first that fits: gunicorn's fault, the status, what the caller is told."""


ggevent.StreamServer = CallersListener


class EvenTime:
    """The module `time`, with a `time()` that nobody can put forward or back, for what only takes differences."""

    time = staticmethod(time.monotonic)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


# Both count `graceful_timeout` by the wall clock: one that is put forward would cut every stream of a drain.
ggevent.time = arbiter.time = EvenTime()


class CallersRequest(Request):  # type: ignore[misc]  # gunicorn has no types
    """A request's head. Whether its sender is a trusted proxy is worked out once a host, not for every request.

    What comes in a crowd is refused before it is a request at all, as gunicorn's objects would cost more than to refuse
    it.
    """

    refusal: Callable[[bytearray, float], bytes | None] = staticmethod(lambda *_: None)
    """The worker's: what is answered at once to these bytes, read after a wait that began at this moment."""

    def read_into(self, unreader: Any, buf: bytearray, stop: bool = False) -> None:
        """Reads on; `stop`: a next request from its beginning."""
        sock = unreader.sock
        if not stop or type(sock) is not ClientSocket:
            super().read_into(unreader, buf, stop)
            return
        began = time.monotonic()
        if self.req_number == 1:
            sock.wait()  # those who have connected at once are all seen before any of them is served
        super().read_into(unreader, buf, stop)
        while refusal := self.refusal(buf, began):
            sock.sendall(refusal)
            buf.clear()
            sock.wait()
            super().read_into(unreader, buf, stop)

    def _peer_is_trusted_proxy(self) -> bool:
        return not isinstance(self.peer_addr, tuple) or _is_trusted(self.cfg, self.peer_addr[0])


RequestParser.mesg_class = CallersRequest


@lru_cache(maxsize=1024)
def _is_trusted(cfg: Any, host: str) -> bool:
    return bool(_ip_in_allow_list(host, cfg.forwarded_allow_ips, cfg.forwarded_allow_networks()))


class HermesWorker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's gevent worker, with native logging locks, an end of its own, and errors in Hermes's shape."""

    alive: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: dict[Any, gevent.Timeout] = {}
        """By greenlet, the longest first: the timer that ends its wait for a next request."""

        self._is_mounted = bool(os.environ.get("SCRIPT_NAME"))
        """Paths begin with a prefix, which is gunicorn's to take away."""

        self._open = 0
        """How many connections there are."""

        self._looks_again = False
        """It will be looked again whether somebody can make room."""

        ClientSocket.is_crowded = staticmethod(self._is_crowded)

        self._known: set[Any] = set()
        """Greenlets whose connection has had a request."""

        self._turn_away: Callable[[bytearray], bytes | None] = lambda _: None
        """The application's: what is told to a request that there is no room for, by its bytes."""

    def load_wsgi(self) -> None:
        """Loads the application. One that takes the place of another waits for a database that is away, by being
        started again: the server must not end because a worker has died meanwhile.
        """
        try:
            super().load_wsgi()
        except SystemExit as refused:
            if refused.code != DATABASE_AWAY:
                raise
            if self.age <= self.cfg.workers:  # one of the first: nobody has served yet
                sys.exit(REFUSED)
            gevent.sleep(TRY_AGAIN_S)
            sys.exit(TRY_AGAIN)
        if self.cfg.keepalive:
            self._turn_away = function_of(self, "turn_away") or self._turn_away
            CallersRequest.refusal = staticmethod(self._refusal)

    def patch(self) -> None:
        """gevent's patches, then logging's locks, which native threads must not share as gevent has patched them."""
        super().patch()
        make_logging_native()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serves a connection. The silent and the deaf keep nobody out: where nearly all places are taken, the one is
        ended that has read nothing of its answer for the longest, else the one that has waited longest for its request.
        """
        if type(client) is gevent.socket.socket:
            client.__class__ = ClientSocket
        self._open += 1
        try:
            if self._is_crowded():
                gevent.get_hub().loop.run_callback(self._end_longest, gevent.getcurrent())
            super().handle(listener, client, addr)
        finally:
            self._open -= 1

    def _is_crowded(self) -> bool:
        return bool(self._open > self.worker_connections * CROWDED_SHARE)

    def handle_request(self, listener_name: Any, req: Any, client: Any, addr: Any) -> Any:
        """Answers one request; raises StopIteration where the connection ends with it."""
        try:
            if self._is_mounted or not wire.is_hot(req):
                super().handle_request(listener_name, req, client, addr)
            else:
                with suppress(gevent.GreenletExit, SystemExit):
                    self._answer(req, client)
        except StopIteration:
            if not is_read(req):
                let_go(client)
            raise
        if not is_heard_out(req):
            let_go(client)
            raise StopIteration
        if req.req_number % TURN_REQUESTS == 0:
            gevent.sleep(MOMENT_S)
        return True

    def _refusal(self, data: bytearray, waits_since: float) -> bytes | None:
        # The bound of a connection's wait goes on over refusals. After a long one the request takes the ordinary way.
        goes_on = self.alive and time.monotonic() - waits_since < SAME_WAIT_S
        return self._turn_away(data) if goes_on else None

    def _answer(self, req: Any, client: Any) -> None:
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            log.info("The worker has had its requests and makes room for a new one.")
            self.alive = False
        keeps_open = self.alive and not req.should_close()
        answer = wire.Answer(client, keeps_open=keeps_open)
        environ = wire.environ_of(req, client)
        body = self.wsgi(environ, answer.start_response)
        try:
            deadlines[client] = environ.get(wire.DEADLINE, NEVER)
            answer.send(body)
        except OSError:
            raise  # the caller's connection: nobody to tell
        except Exception:
            if not answer.has_begun:
                raise
            log.exception("An answer broke off")
            client.shutdown(socket.SHUT_RDWR)
            keeps_open = False
        finally:
            deadlines.pop(client, None)
            if hasattr(body, "close"):
                body.close()
        if not keeps_open:
            raise StopIteration

    def timeout_ctx(self) -> Wait:
        """What bounds the wait for a connection's next request."""
        timer = super().timeout_ctx() if self.alive else gevent.Timeout(LAST_WAIT_S, False)
        return Wait(self._waiting, self._known, timer)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: open requests go on for `graceful_timeout`, connections that only wait are closed at once.

        gunicorn would wait for them too, until their keep-alive is over. A connection that has had no request yet gets
        a moment: its request may be on its way.
        """
        super().handle_exit(sig, frame)
        gevent.spawn(self._end_waits)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answers a request that gunicorn refuses by itself, or on which the application has failed altogether."""
        if not isinstance(exc, Exception):  # the process ends, or the caller has left: nobody to answer
            return
        request_id = new_request_id()
        request_id_var.set(request_id)
        error = refusal(exc)
        if error is None:
            error = unexpected(exc, f"{getattr(req, 'method', '?')} {getattr(req, 'uri', '?')}")
        else:
            log.warning("Refused what came from %s: %s", addr[0] if addr else "a socket", exc)
        with suppress(OSError), gevent.Timeout(LAST_WAIT_S, False):
            client.sendall(answer(error, request_id))
            let_go(client)

    def _end_waits(self) -> None:
        call_app(self, "drain")
        self._end(greenlet for greenlet in self._waiting if greenlet in self._known)
        gevent.sleep(LAST_WAIT_S)
        self._end(self._waiting)

    def _end(self, greenlets: Iterable[Any]) -> None:
        for greenlet in list(greenlets):
            gevent.get_hub().loop.run_callback(self._end_one, greenlet)

    def _end_longest(self, newcomer: Any) -> None:
        """Makes room for one who has come, and who is not ended for it: nobody else might be waited for."""
        if end_longest_unread():
            return
        longest = next(iter(self._waiting), None)
        if longest is not None and longest is not newcomer:
            self._end_one(longest)
        elif self._is_full() and not self._looks_again:
            self._looks_again = True
            gevent.spawn_later(LOOKS_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        # Where all places are taken nobody comes any more for whom room would be made.
        self._looks_again = False
        if self._is_full():
            gevent.get_hub().loop.run_callback(self._end_longest, None)

    def _is_full(self) -> bool:
        return bool(self._open >= self.worker_connections)

    def _end_one(self, greenlet: Any) -> None:
        timer = self._waiting.get(greenlet)
        if timer is not None:  # else its request has come meanwhile, and must not be hit
            greenlet.throw(timer)


class Wait:
    """The wait for a request on one connection, which its timer or the worker's end cuts short without an error."""

    def __init__(self, waiting: dict[Any, gevent.Timeout], known: set[Any], timer: gevent.Timeout) -> None:
        self._waiting = waiting
        self._known = known
        self._timer = timer
        self._greenlet = gevent.getcurrent()

    def __enter__(self) -> Any:
        self._waiting[self._greenlet] = self._timer
        return self._timer.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        del self._waiting[self._greenlet]
        if self._greenlet not in self._known:
            self._known.add(self._greenlet)
            self._greenlet.rawlink(self._known.discard)
        return self._timer.__exit__(kind, error, trace)


def refusal(fault: Exception) -> HermesError | None:
    """What the caller is told of a request that is not as HTTP wants it; None where the fault is not the caller's."""
    if isinstance(fault, OURS):
        return None
    for kind, status, message in REFUSALS:
        if isinstance(fault, kind):
            error = InvalidRequest(message)
            error.status = status
            return error
    return None


def answer(error: HermesError, request_id: str) -> bytes:
    """The whole answer as bytes; the connection ends with it, as where a next request would begin is unknown."""
    status, headers, body = parts(error, request_id)
    content = b"".join(body)
    headers = [*headers, *GUARDS, ("Content-Length", str(len(content))), ("Connection", "close")]
    lines = [f"HTTP/1.1 {status_line(status)}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def logger_of(level: str, fmt: str, secrets: Iterable[str]) -> type[Any]:
    """gunicorn's logger without handlers of its own: its lines look like Hermes's, on the same stream."""
    redactor = Redactor(secrets)

    class HermesLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
        def setup(self, cfg: Any) -> None:
            super().setup(cfg)
            logs.configure(level, fmt, redactor)

    return HermesLogger


def call_app(worker: Any, name: str) -> None:
    """Calls a function of the application's module, if it is loaded and has one of that name."""
    function = function_of(worker, name)
    if function is not None:
        function()


def function_of(worker: Any, name: str) -> Callable[..., Any] | None:
    """The function of that name in the application's module, if it is loaded and has one."""
    module = sys.modules.get(worker.app.app_uri.partition(":")[0])
    function = getattr(module, name, None)
    return function if callable(function) else None
