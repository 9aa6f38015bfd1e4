"""Which web pages may call `/v1`: a layer in front of the application, for its few rules cost less there.

With any origin allowed (`*`), every answer says so; credentials are never allowed with it, nor otherwise: callers send
their key in a header. With a list of origins, only those are named, and caches are told that the answer depends on it.

What a form can send, browsers send without asking first, and they show the answer as a page of this server. So a form
is refused, and so is what looks like one and comes from an origin that is not named. No answer can become a page: each
one carries headers that forbid it, those of other routes too, where they do not say for themselves what they may do.

Sources: Fetch standard, section 3.2, "CORS protocol", and "CORS-safelisted request-header"; Fetch Metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from hermes.errors import ForeignPage
from hermes.web import answers
from hermes.web.answers import GUARDS
from hermes.web.http import begin

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Any], Iterable[bytes]]

EXPOSED = ", ".join(
    [
        "X-Request-Id",
        "X-Hermes-Tier",
        "X-Hermes-Model",
        "X-Hermes-Decision",
        "X-Hermes-Fallback-Level",
        "X-Hermes-Overhead-Ms",
        "X-Hermes-Cost-Usd",
        "Retry-After",
        *(f"x-ratelimit-{what}-{kind}" for what in ("limit", "remaining", "reset") for kind in ("requests", "tokens")),
    ]
)
"""What a page's script may read of an answer."""

FORM_TYPES: Final = frozenset({"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
"""Whoever sends another type is a page that had to ask first, or is no page."""

NO_FORMS: Final = "Forms of web pages are not answered, and pages only of the origins that CORS_ORIGINS names."

METHODS = "GET, POST, OPTIONS"
PREFLIGHT_AGE_S = "600"


class Cors:
    """Adds the headers to whatever `/v1` answers, answers preflights itself, and refuses forms."""

    def __init__(self, app: WsgiApp, origins: Iterable[str]) -> None:
        self._app = app
        self._allowed = Allowed(origins)

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith("/v1/"):
            return self._app(environ, _guarded(start_response))
        headers = self._allowed.headers(environ.get("HTTP_ORIGIN", ""))
        if environ["REQUEST_METHOD"] == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
            start_response("204 No Content", [*headers, *_preflight(asked)])
            return []
        if environ["REQUEST_METHOD"] == "POST" and self._allowed.is_form(environ):
            status, own, body = answers.parts(ForeignPage(NO_FORMS), begin(environ))
            length = ("Content-Length", str(len(body[0])))
            start_response(answers.status_line(status), [*own, length, *headers])
            return body

        def start(status: str, given: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, [*given, *headers], exc_info)

        return self._app(environ, start)


class Allowed:
    """The origins whose pages may read what `/v1` answers."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        self._anybody = "*" in self._origins

    def is_form(self, environ: Environ) -> bool:
        """Whether a POST is a form's, or may be one of a page that is not allowed. A caller that is no browser names no
        origin, as curl does, which calls everything a form.
        """
        if environ.get("HTTP_SEC_FETCH_MODE") == "navigate":
            return True
        origin = environ.get("HTTP_ORIGIN", "")
        if not origin or self._anybody or origin in self._origins:
            return False
        is_own = origin.partition("://")[2] == environ.get("HTTP_HOST")
        return not is_own and environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() in FORM_TYPES

    def headers(self, origin: str) -> list[tuple[str, str]]:
        """What an answer of `/v1` says to a page of this origin; `""`: to whatever is no page."""
        if self._anybody:
            allowed = [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", EXPOSED)]
            return [*allowed, *GUARDS]
        if origin in self._origins:
            allowed = [("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", EXPOSED)]
            return [*allowed, ("Vary", "Origin"), *GUARDS]
        return [("Vary", "Origin"), *GUARDS]


def _guarded(start_response: Any) -> Any:
    """The same, with the guards where the answer has none of its own."""

    def start(status: str, given: list[tuple[str, str]], exc_info: Any = None) -> Any:
        own = {name.lower() for name, _ in given}
        added = [(name, value) for name, value in GUARDS if name.lower() not in own]
        return start_response(status, [*given, *added], exc_info)

    return start


def _preflight(asked: str) -> list[tuple[str, str]]:
    """The answer to a page that asks what it may send: whatever it names, as far as it is a list of header names."""
    names = [name.strip() for name in asked.split(",")]
    allowed = ", ".join(name for name in names if name.replace("-", "").isalnum() and name.isascii())
    headers = [("Access-Control-Allow-Methods", METHODS), ("Access-Control-Max-Age", PREFLIGHT_AGE_S)]
    return [*headers, ("Access-Control-Allow-Headers", allowed)] if allowed else headers
