"""How Flask's routes answer errors: as all others do, see `answers.py`."""

from __future__ import annotations

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from hermes.errors import HermesError, InvalidRequest, NotFound
from hermes.web import answers
from hermes.web.http import REQUEST_ID, begin


class MethodNotAllowed(HermesError):
    """The route exists, the method does not."""

    status, code = 405, "method_not_allowed"


def install(app: Flask) -> None:
    """Registers the handlers."""
    app.register_error_handler(HermesError, answer)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(Exception, _unexpected)


def answer(error: HermesError) -> Response:
    """The answer to an error of the current request."""
    environ = request.environ
    status, headers, body = answers.parts(error, environ.get(REQUEST_ID) or begin(environ))
    return Response(body, status, headers)


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
    return answer(answers.unexpected(error, f"{request.method} {request.path}"))
