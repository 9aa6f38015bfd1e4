"""How Flask's routes answer errors: as all others do, see `answers.py`."""

from __future__ import annotations

import difflib

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map

from hermes.errors import HermesError, InvalidRequest, NotFound, PayloadTooLarge
from hermes.web import answers
from hermes.web.http import REQUEST_ID, begin

PUBLIC = ("/v1/", "/health")
"""Only such routes are suggested: nobody shall learn of the others by guessing."""

CLOSE = 0.8
SHOWN_CHARS = 200


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
        meant = _meant(request.path, current_app.url_map)
        hint = f" Did you mean {meant}?" if meant else ""
        return answer(NotFound(f"There is no route {request.path[:SHOWN_CHARS]}.{hint}"))
    if error.code == 405:
        allowed = sorted(getattr(error, "valid_methods", None) or ())
        use = " or ".join(method for method in allowed if method not in ("HEAD", "OPTIONS"))
        refused = answer(MethodNotAllowed(f"{request.path} does not take {request.method}, but {use}."))
        refused.headers["Allow"] = ", ".join(allowed)
        return refused
    if error.code == 413:
        return answer(PayloadTooLarge(f"What is sent to {request.path} may not be that long."))
    wrapped = InvalidRequest(error.description or error.name)
    wrapped.status = error.code or 500
    return answer(wrapped)


def _meant(path: str, routes: Map) -> str | None:
    """The public route that was probably meant: with `/v1` before it, without what stands in front, rightly spelled."""
    public = [rule.rule for rule in routes.iter_rules() if rule.rule.startswith(PUBLIC) and not rule.arguments]
    asked = path.rstrip("/").lower()[:SHOWN_CHARS]
    ends_so = [route for route in public if asked.endswith(route.removeprefix("/v1"))]
    close = difflib.get_close_matches(asked, public, n=1, cutoff=CLOSE)
    return max(ends_so, key=len) if ends_so else close[0] if close else None


def _unexpected(error: Exception) -> Response:
    return answer(answers.unexpected(error, f"{request.method} {request.path}"))
