"""The operators' dashboard: server-rendered pages whose live parts htmx refreshes. `docs/architecture.md` says how a
page is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from flask import Blueprint, Flask, Response, request, url_for
from werkzeug.exceptions import HTTPException

from hermes.errors import HermesError, NotFound
from hermes.instance import Hermes
from hermes.web import answers
from hermes.web.assets import Assets
from hermes.web.dashboard import marks, signing, uploads
from hermes.web.dashboard.door import SIGN_IN, Door, page_around
from hermes.web.dashboard.figures import Figures
from hermes.web.dashboard.frame import HEADERS, Frame, htmx, json_attribute
from hermes.web.dashboard.limits import Limits
from hermes.web.dashboard.pages import (
    budgets,
    circuits,
    classifier,
    config,
    knowledge,
    overview,
    residency,
    sessions,
    settings,
    shadow,
    traces,
    usage,
)
from hermes.web.dashboard.site import Site
from hermes.web.http import REQUEST_ID, begin
from hermes.web.lasting import Exports

PAGES: Final = (
    overview, usage, traces, circuits, sessions, shadow, budgets, residency, knowledge, settings, config, classifier,
)  # fmt: skip
"""Modules with `add_routes(blueprint, site)`."""


def install(app: Flask, hermes: Hermes, door: Door, files: Assets, exports: Exports) -> Callable[[], Response | None]:
    """Adds everything under `/dashboard`.

    Returns:
        What makes the page at `/classifier/report`, the one that stands elsewhere.
    """
    htmx.init_app(app)
    app.jinja_env.filters.update({**marks.FILTERS, "json_attribute": json_attribute})
    app.jinja_env.globals.update(spark_path=marks.spark_path, moment=marks.moment)
    figures = Figures(hermes)
    site = Site(hermes, door, Frame(hermes, door, files, figures, app.jinja_env), figures, Limits(hermes), exports)
    bp = Blueprint("dashboard", __name__)
    _guard(bp, site)
    _answer_errors(bp, site)
    signing.add_routes(bp, site)
    for page in PAGES:
        page.add_routes(bp, site)
    _add_common(bp, site)
    app.register_blueprint(bp)
    shown = cast("Callable[[], Response]", app.view_functions["dashboard.classifier"])
    return lambda: _dressed(site, shown()) if door.is_now() else None


def _guard(bp: Blueprint, site: Site) -> None:
    @bp.before_request
    def only_operators() -> Response | None:
        begin(request.environ)
        if request.path.rstrip("/") == SIGN_IN:
            return None
        operator = site.door.operator()
        if operator is None:
            return _shown_the_door(site)
        if request.method not in ("GET", "HEAD"):
            uploads.prepare(request)
            site.door.check_token(operator.session)
        return None

    @bp.after_request
    def headers(response: Response) -> Response:
        return _dressed(site, response)


def _dressed(site: Site, response: Response) -> Response:
    """With what all answers of the dashboard have."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["X-Request-Id"] = request.environ.get(REQUEST_ID, "")
    if response.status_code < 400 and "Set-Cookie" not in response.headers:
        site.door.renew(response)
    return response


def _shown_the_door(site: Site) -> Response:
    if not htmx:
        return site.door.lead_there()
    response = Response(status=401)
    response.headers["HX-Redirect"] = url_for("dashboard.sign_in", next=page_around())
    return response


def _answer_errors(bp: Blueprint, site: Site) -> None:
    @bp.errorhandler(HermesError)
    def known(error: HermesError) -> Response:
        response = site.frame.refused(error.message, error.status, request.environ[REQUEST_ID])
        if error.retry_after_s is not None:
            response.headers["Retry-After"] = str(int(error.retry_after_s + 1))
        return response

    @bp.errorhandler(HTTPException)
    def of_flask(error: HTTPException) -> Response:
        return site.frame.refused(error.description or error.name, error.code or 500, request.environ[REQUEST_ID])

    @bp.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        fault = answers.unexpected(error, f"{request.method} {request.path}")
        return site.frame.refused(fault.message, fault.status, request.environ[REQUEST_ID])


def _add_common(bp: Blueprint, site: Site) -> None:
    @bp.get("/dashboard/ui/strip")
    def strip() -> Response:
        return site.frame.shared("_strip.html", "", lambda: {**site.frame.strip_values(), "is_poll": True})

    @bp.route("/dashboard/<path:rest>", methods=["GET", "POST"])
    def nowhere(rest: str) -> Response:
        raise NotFound(f"There is no page /dashboard/{rest}.")
