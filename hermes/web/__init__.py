"""HTTP in, HTTP out: parses, calls, answers. Decisions about money, tiers or keys are made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask
from flask_cors import CORS

from hermes.bootstrap import Hermes
from hermes.settings import ROOT
from hermes.web import admin_api, contract_api, directory_api, errors, health, openai_api

EXPOSED_HEADERS = [
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
"""What a browser's script may read of an answer."""

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Any], Iterable[bytes]]


def create_app(hermes: Hermes) -> Flask:
    """The WSGI application around a built Hermes."""
    app = Flask("hermes", root_path=str(ROOT), static_folder="static", template_folder="templates")
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False  # no redirect of paths that try something
    app.json.sort_keys = False  # type: ignore[attr-defined]
    errors.install(app)
    for module in (openai_api, contract_api, admin_api, directory_api, health):
        app.register_blueprint(module.blueprint(hermes))
    origins = [origin.strip() for origin in hermes.settings.cors_origins.split(",") if origin.strip()]
    CORS(app, resources={"/v1/*": {"origins": origins}}, expose_headers=EXPOSED_HEADERS, send_wildcard=True)
    app.wsgi_app = _Prefix(app.wsgi_app)  # type: ignore[method-assign]
    return app


class _Prefix:
    """`/api/v1/…` always answers like `/v1/…`: deployed clients have either."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/api/v1/"):
            environ["PATH_INFO"] = environ["PATH_INFO"][4:]
        return self._app(environ, start_response)
