"""A completion over HTTP: the request's environment becomes a `Call`, a `Reply` becomes a response."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flask import Response, request

from hermes.admission.auth import bearer_of
from hermes.bootstrap import Hermes
from hermes.errors import ClientGone
from hermes.gateway import Call, Reply
from hermes.halves import Said
from hermes.web import errors
from hermes.web.http import REQUEST_ID, begin, body_reader


def respond(hermes: Hermes, serve: Callable[[Call], Reply], *, wants_stream: bool = False) -> Response:
    """Serves the current request by one half of the gateway."""
    try:
        reply = serve(_call(hermes, request.environ, wants_stream=wants_stream))
    except ClientGone as left:
        return errors.gone(left)
    response = Response(reply.body, reply.status, reply.headers, direct_passthrough=True)
    response.headers["X-Request-Id"] = request.environ[REQUEST_ID]
    return response


def _call(hermes: Hermes, environ: dict[str, Any], *, wants_stream: bool) -> Call:
    return Call(
        route=environ["PATH_INFO"],
        request_id=begin(environ),
        read_body=body_reader(environ),
        bearer=bearer_of(environ.get("HTTP_AUTHORIZATION", "")),
        lifeline=hermes.hangups.lifeline(environ.get("gunicorn.socket")),
        began=time.monotonic(),
        said=Said(
            tier=environ.get("HTTP_X_HERMES_TIER"),
            session=environ.get("HTTP_X_HERMES_SESSION"),
            user=environ.get("HTTP_X_HERMES_USER", ""),
            wants_stream=wants_stream,
        ),
        timeout=environ.get("HTTP_X_REQUEST_TIMEOUT"),
    )
