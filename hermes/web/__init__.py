"""HTTP in, HTTP out: parses, calls, answers. Decisions about money, tiers or keys are made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Flask

from hermes.bootstrap import Hermes
from hermes.settings import ROOT
from hermes.web import admin_api, contract_api, directory_api, errors, health, openai_api
from hermes.web.completions import HotRoutes
from hermes.web.cors import Cors, Environ, WsgiApp


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
    # In the order in which a request passes them: prefix, CORS, hot routes, Flask.
    app.wsgi_app = Prefix(Cors(HotRoutes(app.wsgi_app, hermes), origins))  # type: ignore[method-assign]
    return app


class Prefix:
    """`/api/v1/…` always answers like `/v1/…`: deployed clients have either."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/api/v1/"):
            environ["PATH_INFO"] = environ["PATH_INFO"][4:]
        return self._app(environ, start_response)
