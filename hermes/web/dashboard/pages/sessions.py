"""Sessions: who is pinned to which tier and why; and forgetting one (with ten seconds to take it back) or all."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from hermes.storage.turns import turns_of
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.sessions import SessionsView, Wanted, sessions_view

UNDO_S: Final = 10.0
GRACE_S: Final = 2.0
"""The click that comes at the last moment still counts."""

PAGE: Final = "/dashboard/sessions"
KEPT_S: Final = 2.0


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/sessions` and what belongs to it."""

    def answered(toast: Toast) -> Response:
        site.figures.forget()
        wanted = Wanted.parse(request.values)
        return site.frame.acted(toast, address(wanted), "_sessions.html", **_values(site, wanted))

    @bp.get(PAGE)
    def sessions() -> Response:
        return site.frame.page("sessions.html", **_values(site, Wanted.parse(request.args)))

    @bp.get("/dashboard/ui/sessions")
    def sessions_part() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.shared("_sessions.html", address(wanted), lambda: _values(site, wanted), KEPT_S)
        if "push" in request.args:
            response.headers["HX-Push-Url"] = address(wanted)
        return response

    @bp.post(f"{PAGE}/<key>/evict")
    def evict(key: str) -> Response:
        site.hermes.operations.evict_session(key, site.actor(), UNDO_S + GRACE_S)
        query = urlencode(Wanted.parse(request.values).query())
        return answered(Toast(f"Session {key[:8]} evicted", undo_url=f"{PAGE}/{key}/restore?{query}".rstrip("?")))

    @bp.post(f"{PAGE}/<key>/restore")
    def restore(key: str) -> Response:
        site.hermes.operations.restore_session(key, site.actor())
        return answered(Toast(f"Session {key[:8]} is back"))

    @bp.get(f"{PAGE}/evict-all")
    def evict_all_asked() -> Response:
        return site.frame.page(
            "confirm.html",
            title="Evict all sessions?",
            text="Every conversation is classified again on its next turn. This cannot be undone.",
            label="Evict all",
            action=f"{PAGE}/evict-all",
            back=PAGE,
        )

    @bp.post(f"{PAGE}/evict-all")
    def evict_all() -> Response:
        number = site.hermes.operations.evict_all_sessions(site.actor())
        return answered(Toast(f"{number:,} sessions evicted"))


def address(wanted: Wanted, **changes: Any) -> str:
    """The page's address for what is wanted.

    >>> address(Wanted(text="a b"), tier="simple")
    '/dashboard/sessions?q=a+b&tier=simple'
    """
    query = urlencode(wanted.query(**changes))
    return f"{PAGE}?{query}" if query else PAGE


def part_address(wanted: Wanted, **changes: Any) -> str:
    """The same of the page's live part."""
    query = urlencode(wanted.query(**changes))
    return f"/dashboard/ui/sessions?{query}" if query else "/dashboard/ui/sessions"


def _values(site: Site, wanted: Wanted) -> dict[str, Any]:
    timeout_s = site.hermes.policies.current().routing.session_timeout_s
    view: SessionsView = sessions_view(
        site.figures.sessions(), wanted, timeout_s, lambda keys: turns_of(site.hermes.database, keys)
    )
    return {"view": view, "address": address, "part_address": part_address}
