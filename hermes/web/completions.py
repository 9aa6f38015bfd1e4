"""The hot routes: a request's environment becomes a `Call`, a `Reply` becomes a WSGI answer, with no framework between.

Flask's own part of such a request would be a third of all that Hermes does for it. The routes are still Flask's for
every method but POST, and their errors have the shape that all errors have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hermes.admission.auth import bearer_of
from hermes.errors import ClientGone, HermesError, Overloaded
from hermes.gateway import Call
from hermes.halves import Said
from hermes.instance import Hermes
from hermes.reply import Reply
from hermes.web import answers, wire
from hermes.web.cors import Environ, WsgiApp
from hermes.web.http import begin, body_reader, header

Serve = Callable[[Call], Reply]

log = logging.getLogger("hermes-router")

STREAM_ROUTE = "/v1/completions/stream"
NO_ANSWER = (502, 503, 504)
"""What the operator is to know of, as it is not the caller's doing."""


class HotRoutes:
    """Answers POSTs to the completion routes; all else is the application's."""

    def __init__(self, app: WsgiApp, hermes: Hermes) -> None:
        self._app = app
        self._hermes = hermes
        gateway = hermes.gateway
        self._serve: Mapping[str, Serve] = {
            "/v1/chat/completions": gateway.chat,
            "/v1/completions": gateway.complete,
            STREAM_ROUTE: gateway.complete,
            "/v1/embeddings": gateway.embed,
        }

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST":
            return self._app(environ, start_response)
        route = environ["PATH_INFO"].rstrip("/")
        serve = self._serve.get(route)
        if serve is None:
            return self._app(environ, start_response)
        request_id = begin(environ)
        status, headers, body = self._answer(environ, route, request_id, serve)
        if isinstance(body, list):
            headers.append(("Content-Length", str(sum(map(len, body)))))
        start_response(answers.status_line(status), headers)
        return body

    def _answer(
        self, environ: Environ, route: str, request_id: str, serve: Serve
    ) -> tuple[int, list[tuple[str, str]], Iterable[bytes]]:
        try:
            self._hermes.crowd.let_in()
            call = self._call(environ, route, request_id)
            self._hermes.crowd.wait_for_turn()
            reply = serve(call)
            environ[wire.DEADLINE] = call.lifeline.deadline
        except ClientGone:
            return answers.CLIENT_CLOSED_REQUEST, [], []
        except HermesError as error:
            if error.status in NO_ANSWER and not isinstance(error, Overloaded):
                log.warning("Request %s is answered %d %s: %s", request_id, error.status, error.code, error.message)
            return answers.parts(error, request_id)
        except Exception as error:  # noqa: BLE001  (the edge: whatever it is, the caller gets an answer)
            return answers.parts(answers.unexpected(error, f"POST {route}"), request_id)
        return reply.status, [*reply.headers, ("X-Request-Id", request_id)], reply.body

    def _call(self, environ: Environ, route: str, request_id: str) -> Call:
        return Call(
            route=route,
            request_id=request_id,
            read_body=body_reader(environ),
            bearer=bearer_of(environ.get("HTTP_AUTHORIZATION", "")),
            lifeline=self._hermes.hangups.lifeline(environ.get("gunicorn.socket")),
            began=time.monotonic(),
            said=Said(
                tier=environ.get("HTTP_X_HERMES_TIER"),
                session=header(environ, "HTTP_X_HERMES_SESSION"),
                user=header(environ, "HTTP_X_HERMES_USER") or "",
                wants_stream=route == STREAM_ROUTE,
            ),
            timeout=environ.get("HTTP_X_REQUEST_TIMEOUT"),
        )


def known_to_flask() -> Any:
    """The view of a hot route, for Flask's map of routes: POSTs never arrive here."""
    raise AssertionError("HotRoutes answers this route")
