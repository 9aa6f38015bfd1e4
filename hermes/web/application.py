"""The WSGI application: the layers that a request passes, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from flask import Flask, request

from hermes.errors import ClientGone, InvalidRequest
from hermes.instance import Hermes
from hermes.settings import ROOT, origins_of
from hermes.web import (
    admin_api,
    answers,
    assets,
    contract_api,
    dashboard,
    directory_api,
    errors,
    health,
    openai_api,
)
from hermes.web.completions import HotRoutes
from hermes.web.cors import Cors, Environ, WsgiApp
from hermes.web.dashboard.door import POLL, Door
from hermes.web.http import Arriving, begin
from hermes.web.lasting import Exports
from hermes.web.openapi import document as openapi

FORM_BYTES: Final = 1024 * 1024
"""The longest form. A route that takes files raises its own `request.max_content_length`."""


def create_app(hermes: Hermes) -> Flask:
    """The WSGI application around a built Hermes."""
    app = Flask("hermes", root_path=str(ROOT), static_folder=None, template_folder="templates")
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False  # no redirect of paths that try something
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.config["MAX_CONTENT_LENGTH"] = FORM_BYTES
    app.before_request(_let_the_body_come_in_time)
    app.before_request(lambda: _put_off(hermes))
    errors.install(app)
    files = assets.Assets.of(ROOT / "static")
    door, exports = Door(hermes), Exports()
    for module in (openai_api, contract_api, directory_api, health):
        app.register_blueprint(module.blueprint(hermes))
    classifier_page = dashboard.install(app, hermes, door, files, exports)
    app.register_blueprint(admin_api.blueprint(hermes, door, classifier_page, exports))
    app.register_blueprint(assets.blueprint(files))
    app.register_blueprint(openapi.blueprint())
    # In the order in which a request passes them: entrance, CORS, hot routes, Flask.
    app.wsgi_app = Entrance(Cors(HotRoutes(app.wsgi_app, hermes), origins_of(hermes.settings.cors_origins)))  # type: ignore[method-assign]
    return app


def _let_the_body_come_in_time() -> None:
    """Flask and werkzeug would wait for a form for ever, and hold up everybody while it is long."""
    request.environ["wsgi.input"] = Arriving(request.environ)


def _put_off(hermes: Hermes) -> None:
    """While requests are turned away, exports and what pages ask for by themselves come later."""
    if POLL in request.headers or request.path.endswith(".csv"):
        hermes.crowd.let_in_later()


class Entrance:
    """What holds for every request: it names its host, its path begins with one slash (a base URL that ends with one
    makes two of them), and `/api/v1/…` answers like `/v1/…`, as deployed clients have either.
    """

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if "HTTP_HOST" not in environ and environ["SERVER_PROTOCOL"] == "HTTP/1.1":  # RFC 9112, section 3.2
            return _refuse(environ, start_response)
        path = environ["PATH_INFO"]
        if path.startswith("//"):
            path = environ["PATH_INFO"] = f"/{path.lstrip('/')}"
        if path.startswith("/api/v1/"):
            environ["PATH_INFO"] = path[4:]
        try:
            return self._app(environ, start_response)
        except ClientGone:  # while Flask's routes read a body
            start_response(
                answers.status_line(answers.CLIENT_CLOSED_REQUEST), [("Content-Length", "0"), *answers.GUARDS]
            )
            return []


def _refuse(environ: Environ, start_response: Any) -> list[bytes]:
    status, headers, body = answers.parts(InvalidRequest("The request has no Host header."), begin(environ))
    start_response(answers.status_line(status), [*headers, *answers.GUARDS, ("Content-Length", str(len(body[0])))])
    return body
