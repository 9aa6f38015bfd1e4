"""An error as HTTP says it: OpenAI's shape, with the request's id, on every route. Knows no framework."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Final

import orjson

from hermes.errors import ConfigurationInvalid, HermesError

log = logging.getLogger("hermes-router.web")

CLIENT_CLOSED_REQUEST = 499
"""Nobody reads it; the number is for whatever stands in front and logs."""

GUARDS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
)
"""What keeps a browser from making a page of an answer, whatever is in it."""

_PHRASES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


def status_line(status: int) -> str:
    """The status with its words.

    >>> status_line(404), status_line(499)
    ('404 Not Found', '499 Unknown')
    """
    return _PHRASES.get(status) or f"{status} Unknown"


def parts(error: HermesError, request_id: str) -> tuple[int, list[tuple[str, str]], list[bytes]]:
    """The answer to an error: status, headers, body."""
    body = error.body()
    body["message"] = f"{body['message']} (request {request_id})"
    whole: dict[str, object] = {"error": body}
    if isinstance(error, ConfigurationInvalid):
        whole["file"] = error.file
        whole["errors"] = [{"path": p.path, "line": p.line, "message": p.message} for p in error.problems]
        whole["warnings"] = list(error.warnings)
    headers = [("Content-Type", "application/json"), ("X-Request-Id", request_id)]
    if error.retry_after_s is not None:
        headers.append(("Retry-After", str(math.ceil(error.retry_after_s))))
    if error.should_retry is not None:
        headers.append(("x-should-retry", "true" if error.should_retry else "false"))
    return error.status, [*headers, *error.headers], [orjson.dumps(whole)]


def unexpected(error: BaseException, what: str) -> HermesError:
    """What the caller is told of a fault of ours; its cause is for the log."""
    log.error("Unexpected error on %s", what, exc_info=error)
    return HermesError("An internal error occurred; the server's log has its cause.")
