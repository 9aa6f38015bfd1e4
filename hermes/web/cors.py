"""Which web pages may call `/v1`: a layer in front of the application, for its few rules cost less there.

With any origin allowed (`*`), every answer says so; credentials are never allowed with it, nor otherwise: callers send
their key in a header. With a list of origins, only those are named, and caches are told that the answer depends on it.

Source: Fetch standard, section 3.2, "CORS protocol".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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

METHODS = "GET, POST, OPTIONS"
PREFLIGHT_AGE_S = "600"


class Cors:
    """Adds the headers to whatever `/v1` answers, and answers preflights itself."""

    def __init__(self, app: WsgiApp, origins: Iterable[str]) -> None:
        self._app = app
        self._allowed = Allowed(origins)

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith("/v1/"):
            return self._app(environ, start_response)
        headers = self._allowed.headers(environ.get("HTTP_ORIGIN", ""))
        if environ["REQUEST_METHOD"] == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
            start_response("204 No Content", [*headers, *_preflight(asked)])
            return []

        def start(status: str, given: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, [*given, *headers], exc_info)

        return self._app(environ, start)


class Allowed:
    """The origins whose pages may read what `/v1` answers."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        self._anybody = "*" in self._origins

    def headers(self, origin: str) -> list[tuple[str, str]]:
        """What an answer of `/v1` says to a page of this origin; `""`: to whatever is no page."""
        if self._anybody:
            return [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", EXPOSED)]
        if origin in self._origins:
            allowed = [("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", EXPOSED)]
            return [*allowed, ("Vary", "Origin")]
        return [("Vary", "Origin")]


def _preflight(asked: str) -> list[tuple[str, str]]:
    """The answer to a page that asks what it may send: whatever it names, as far as it is a list of header names."""
    names = [name.strip() for name in asked.split(",")]
    allowed = ", ".join(name for name in names if name.replace("-", "").isalnum() and name.isascii())
    headers = [("Access-Control-Allow-Methods", METHODS), ("Access-Control-Max-Age", PREFLIGHT_AGE_S)]
    return [*headers, ("Access-Control-Allow-Headers", allowed)] if allowed else headers
