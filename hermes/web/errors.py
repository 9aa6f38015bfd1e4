"""The one place where an error becomes an HTTP answer: OpenAI's shape, with the request's id, on every route."""

from __future__ import annotations

import logging
import math

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from hermes.errors import ClientGone, ConfigurationInvalid, HermesError, InvalidRequest, NotFound
from hermes.web.http import request_id

log = logging.getLogger("hermes-router.web")

CLIENT_CLOSED_REQUEST = 499
"""Nobody reads it; the number is for whatever stands in front and logs."""


class MethodNotAllowed(HermesError):
    """The route exists, the method does not."""

    status, code = 405, "method_not_allowed"


def install(app: Flask) -> None:
    """Registers the handlers."""
    app.register_error_handler(HermesError, answer)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(Exception, _unexpected)


def answer(error: HermesError) -> Response:
    """The answer to an error."""
    body = error.body()
    body["message"] = f"{body['message']} (request {request_id()})"
    whole: dict[str, object] = {"error": body}
    if isinstance(error, ConfigurationInvalid):
        whole["errors"] = [{"path": p.path, "line": p.line, "message": p.message} for p in error.problems]
    response = Response(orjson.dumps(whole), error.status, content_type="application/json")
    response.headers["X-Request-Id"] = request_id()
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if error.should_retry is not None:
        response.headers["x-should-retry"] = "true" if error.should_retry else "false"
    response.headers.extend(error.headers)
    return response


def gone(_: ClientGone) -> Response:
    """The answer that nobody reads."""
    return Response(b"", CLIENT_CLOSED_REQUEST)


def _http_exception(error: HTTPException) -> Response:
    if error.code == 404:
        return answer(NotFound(f"There is no route {request.path}."))
    if error.code == 405:
        refused = answer(MethodNotAllowed(f"{request.path} does not take {request.method}."))
        refused.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return refused
    wrapped = InvalidRequest(error.description or error.name)
    wrapped.status = error.code or 500
    return answer(wrapped)


def _unexpected(error: Exception) -> Response:
    log.error("Unexpected error on %s %s", request.method, request.path, exc_info=error)
    return answer(HermesError("An internal error occurred; the server's log has its cause."))
