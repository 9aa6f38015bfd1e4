"""The one place where an error becomes an HTTP answer: OpenAI's shape, with the request's id, on every route."""

from __future__ import annotations

import logging
import math

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from hermes.errors import ConfigurationInvalid, HermesError, InvalidRequest, NotFound
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


def parts(error: HermesError, request_id: str) -> tuple[int, list[tuple[str, str]], list[bytes]]:
    """The answer to an error: status, headers, body."""
    body = error.body()
    body["message"] = f"{body['message']} (request {request_id})"
    whole: dict[str, object] = {"error": body}
    if isinstance(error, ConfigurationInvalid):
        whole["errors"] = [{"path": p.path, "line": p.line, "message": p.message} for p in error.problems]
    headers = [("Content-Type", "application/json"), ("X-Request-Id", request_id)]
    if error.retry_after_s is not None:
        headers.append(("Retry-After", str(math.ceil(error.retry_after_s))))
    if error.should_retry is not None:
        headers.append(("x-should-retry", "true" if error.should_retry else "false"))
    return error.status, [*headers, *error.headers], [orjson.dumps(whole)]


def answer(error: HermesError) -> Response:
    """The same as Flask's response."""
    status, headers, body = parts(error, request_id())
    return Response(body, status, headers)


def unexpected(error: Exception, method: str, path: str) -> HermesError:
    """What the caller is told of a fault of ours; its cause is for the log."""
    log.error("Unexpected error on %s %s", method, path, exc_info=error)
    return HermesError("An internal error occurred; the server's log has its cause.")


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
    return answer(unexpected(error, request.method, request.path))
