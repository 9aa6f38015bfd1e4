"""How the dashboard answers: pages in their frame, fragments of them, acts, errors; and the headers that all have.

A page's live part is a fragment with an address of its own under `/dashboard/ui/`. Fragments carry an `ETag`, so that a
page which asks every few seconds mostly hears that nothing has changed. An act answers a script with the changed
fragment, the strip and a toast, and a browser without script with the page itself, where the toast waits in a cookie.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import gevent
from flask import Response, current_app, redirect, request, url_for
from flask_htmx import HTMX
from itsdangerous import BadSignature, URLSafeSerializer
from jinja2 import Environment

from hermes import __version__
from hermes.instance import Hermes
from hermes.web.assets import Assets
from hermes.web.dashboard import nav
from hermes.web.dashboard.access import Operator
from hermes.web.dashboard.door import Door
from hermes.web.dashboard.figures import Figures
from hermes.web.dashboard.views.kept import Kept

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TOAST_COOKIE: Final = "hermes_toast"
TOAST_S: Final = 30
MOST_PARTS: Final = 64
COMPILE_PAUSE_S: Final = 0.01
TURN_S: Final = 0.003
"""How long a page is rendered before others have their turn."""

htmx = HTMX()


@dataclass(frozen=True, slots=True)
class Toast:
    """What an act has done, in a sentence; and how to take it back."""

    text: str
    kind: str = "ok"
    """`ok`, `warn` or `bad`."""

    undo_url: str = ""
    """Where a POST takes it back; empty: it cannot be."""


class Frame:
    """Renders. One for the application."""

    def __init__(self, hermes: Hermes, door: Door, files: Assets, figures: Figures, jinja: Environment) -> None:
        self._jinja = jinja
        self._hermes = hermes
        self._door = door
        self._files = files
        self._figures = figures
        self._parts: OrderedDict[tuple[str, str], Kept[str]] = OrderedDict()
        self._no_token = secrets.token_hex(16)
        """Stands for the form token in what several operators share; nobody can guess it, so nobody can plant it."""

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page; `values` are the template's own."""
        response = Response(self.text(template, **self._common(), **values), status)
        if TOAST_COOKIE in request.cookies:
            response.delete_cookie(TOAST_COOKIE, path="/dashboard")
        return response

    def bare(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page without the frame, for who is not signed in."""
        return Response(self.text(template, asset=self._files.url, **values), status)

    def fragment(self, template: str, **values: Any) -> Response:
        """A part of a page; 304 where the browser has it as it is."""
        return self._tagged(self.text(template, **self._for_parts(), **values))

    def shared(self, template: str, key: str, make: Callable[[], Mapping[str, Any]], for_s: float = 1.5) -> Response:
        """The same, made once for all operators who ask for it within a while.

        Args:
            key: tells apart what is asked of the template: filters, say.
            make: gives the template's values.
        """
        place = (template, key)
        if place not in self._parts:
            self._parts[place] = Kept(lambda: self.text(template, csrf=self._no_token, **make()), for_s)
        self._parts.move_to_end(place)
        while len(self._parts) > MOST_PARTS:
            self._parts.popitem(last=False)
        return self._tagged(self._parts[place].get())

    def _tagged(self, text: str) -> Response:
        tag = hashlib.sha256(text.encode()).hexdigest()[:20]
        if request.if_none_match.contains_weak(tag) or request.if_none_match.contains(tag):
            response = Response(status=304)
        else:
            response = Response(text.replace(self._no_token, self._for_parts()["csrf"]))
        response.set_etag(tag)
        return response

    def text(self, template: str, **values: Any) -> str:
        """A template's text; also where no request is there any more, in the midst of a stream.

        A long page is rendered in turns with other requests.
        """
        pieces: list[str] = []
        began = time.perf_counter()
        for piece in self._jinja.get_template(f"dashboard/{template}").generate(**values):
            pieces.append(piece)
            if time.perf_counter() - began > TURN_S:
                gevent.sleep(0)
                began = time.perf_counter()
        return "".join(pieces)

    def acted(self, toast: Toast, page: str, template: str, **values: Any) -> Response:
        """After an act: the page's changed part with strip and toast, or the page itself for a browser without script.

        Args:
            page: the page's address.
            template: of the part.
            values: of the part's template.
        """
        self._figures.forget()
        self._parts.clear()
        if not htmx:
            response = redirect(page, 303)
            self.leave_toast(response, toast)
            return response  # type: ignore[return-value]  # werkzeug's redirect makes Flask's own class
        part = self.text(template, **self._for_parts(), **values)
        return Response(part + self.text("_acted.html", **self._common(), toast=toast))

    def answered(self, page: str, part: str, *, status: int = 200, **values: Any) -> Response:
        """What a form answers that is to be shown at once and not by a redirect: what is wrong with it, or what may be
        seen only now.

        Args:
            page: the page's template, for a browser without script.
            part: the template of its part, for a script.
        """
        if not htmx:
            return self.page(page, status=status, **values)
        return Response(self.text(part, **self._for_parts(), **values), status)

    def place(self) -> str:
        """What this installation is called on every page."""
        return "demo" if self._hermes.demo is not None else socket.gethostname()[:24]

    def refused(self, message: str, status: int, request_id: str) -> Response:
        """An error: a toast for a script, a page for everybody else."""
        if htmx:
            toast = Toast(f"{message} (request {request_id})", "bad")
            response = Response(self.text("_toasts.html", **self._for_parts(), toast=toast), status)
            response.headers["HX-Reswap"] = "none"
            return response
        if not self._door.is_now():
            return self.bare("refused.html", status=status, message=message, request_id=request_id)
        return self.page("error.html", status=status, message=message, request_id=request_id)

    def leave_toast(self, response: Any, toast: Toast) -> None:
        """Lets the next page show a toast."""
        value = self._toasts().dumps(asdict(toast))
        response.set_cookie(
            TOAST_COOKIE,
            value,
            max_age=TOAST_S,
            httponly=True,
            samesite="Lax",
            secure=request.is_secure,
            path="/dashboard",
        )

    def strip_values(self) -> dict[str, Any]:
        """What the strip's template needs."""
        return {"strip": self._figures.strip(), "links": self.links()}

    def _common(self) -> dict[str, Any]:
        operator = self._door.operator()
        assert operator is not None, "the door lets nobody else in"
        return {
            **self._for_parts(),
            **self.strip_values(),
            "asset": self._files.url,
            "operator_name": self._door.name_of(operator),
            "place": self.place(),
            "version": __version__,
            "groups": self._groups(),
            "left_toast": self._left_toast(),
            "keys": {link.entry.key: link.href for link in self.links().values() if link.entry.key},
        }

    def _for_parts(self) -> dict[str, Any]:
        operator: Operator | None = self._door.operator()
        return {"csrf": "" if operator is None else self._door.token(operator.session)}

    def _groups(self) -> list[tuple[str, list[nav.Link]]]:
        return nav.shown(current_app.view_functions.keys(), url_for)

    def links(self) -> dict[str, nav.Link]:
        """The pages that exist, by their names, in the order of the navigation."""
        return {link.entry.name: link for _, links in self._groups() for link in links}

    def _left_toast(self) -> Toast | None:
        value = request.cookies.get(TOAST_COOKIE)
        try:
            return Toast(**self._toasts().loads(value)) if value else None
        except (BadSignature, TypeError):
            return None

    def _toasts(self) -> URLSafeSerializer:
        operator = self._door.operator()
        return URLSafeSerializer(self._door.token(operator.session if operator else ""), salt="hermes-toast")


def compile_templates(jinja: Environment, sleep: Callable[[float], object] = gevent.sleep) -> None:
    """Compiles the pages one by one, with pauses for requests: else whoever opens the first one waits 0.1 s for it.

    Each is a millisecond or a few, so this is for soon after the start, when a process has little else to do.
    """
    for name in jinja.list_templates(filter_func=lambda name: name.startswith("dashboard/")):
        jinja.get_template(name)
        sleep(COMPILE_PAUSE_S)


def json_attribute(value: Any) -> str:
    """A value as JSON, for an attribute; Jinja escapes it."""
    return json.dumps(value, separators=(",", ":"))
