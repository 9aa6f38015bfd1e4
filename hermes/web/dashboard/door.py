"""The dashboard's door in HTTP's terms: the cookie, who is behind it, the form's token, the way to the sign-in page."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from flask import Response, g, redirect, request

from hermes.directory import Directory
from hermes.errors import Forbidden
from hermes.instance import Hermes
from hermes.policy import AuthPolicy
from hermes.web.dashboard.access import COOKIE, IDLE_S, Access, Operator
from hermes.web.dashboard.throttle import Throttle

SIGN_IN: Final = "/dashboard/sign-in"
HOME: Final = "/dashboard/"
OURS: Final = ("/dashboard", "/admin", "/circuits", "/classifier", "/metrics")
"""Where somebody may be led after signing in."""

POLL: Final = "X-Hermes-Poll"
"""A header of requests that the page makes by itself while nobody touches it: they keep no session alive."""

TOKEN_FIELD: Final = "csrf"  # noqa: S105
TOKEN_HEADER: Final = "X-CSRF-Token"  # noqa: S105
TOO_LONG_CHARS: Final = 2000
LOOK_S: Final = 0.2
"""For so long what was seen of a session holds for all answers that go on."""

MOST_WATCHED: Final = 256


class Door:
    """Who is signed in, for the current request."""

    def __init__(self, hermes: Hermes) -> None:
        self._hermes = hermes
        self.access = Access(hermes.digest, hermes.auth, hermes.store, hermes.ended)
        self.throttle = Throttle(hermes.store)
        self._is_good = lru_cache(MOST_WATCHED)(lambda cookie, moment: self._recognised(cookie) is not None)

    def operator(self) -> Operator | None:
        """The operator whose browser asks; looked up once a request."""
        if "operator" not in g:
            g.operator = self._recognised(request.cookies.get(COOKIE, ""))
        found: Operator | None = g.operator
        return found

    def is_now(self) -> bool:
        """Whether the browser that asks has an operator's session."""
        return self.operator() is not None

    def watch(self) -> Callable[[], bool]:
        """A function that tells, also after the current request, whether its session goes on."""
        cookie = request.cookies.get(COOKIE, "")
        return lambda: self._is_good(cookie, time.monotonic() // LOOK_S)

    def lead_there(self) -> Response:
        """To the sign-in page, and back afterwards."""
        address = f"{SIGN_IN}?next={quote(wanted_address(), safe='')}"
        response = redirect(address, 303)
        response.headers["Cache-Control"] = "no-store"
        return response  # type: ignore[return-value]  # werkzeug's redirect makes Flask's own class

    def sign_in(self, key: str) -> Operator:
        """Begins a session; raises as `Access.begin`."""
        return self.access.begin(key, self._policy(), self._directory())

    def is_open(self) -> bool:
        """Whether there is an admin key at all."""
        return self._policy().admin_key is not None

    def closed_because(self) -> str:
        """What to do where there is none."""
        return f"No admin key is set. Set {self._policy().admin_key_env} and start the server again."

    def give_cookie(self, response: Response, operator: Operator) -> None:
        """Lets the browser keep the session; it goes with the browser, and earlier when nobody uses it."""
        value = self.access.cookie(operator, self._policy())
        response.set_cookie(
            COOKIE, value, max_age=int(IDLE_S), httponly=True, samesite="Lax", secure=request.is_secure, path="/"
        )

    def take_cookie(self, response: Response) -> None:
        """Lets the browser forget the session."""
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="Lax", secure=request.is_secure)

    def renew(self, response: Response) -> None:
        """Prolongs the session where its operator has done something."""
        operator = self.operator()
        if operator is None or POLL in request.headers or response.mimetype == "text/event-stream":
            return
        renewed = self.access.renewed(operator)
        if renewed is not None:
            self.give_cookie(response, renewed)

    def token(self, name: str) -> str:
        """The token for forms of a session or visitor."""
        return self.access.token(name, self._policy())

    def check_token(self, name: str) -> None:
        """Lets a form pass that is ours.

        Raises:
            Forbidden: it is not, or it is older than the session.
        """
        given = request.headers.get(TOKEN_HEADER) or request.form.get(TOKEN_FIELD, "")
        if not self.access.is_token(given, name, self._policy()):
            raise Forbidden("This form is older than your session. Reload the page and try again.")

    def name_of(self, operator: Operator) -> str:
        """What people call the operator."""
        key_id = operator.actor.removeprefix("key:")
        names = (key.name for key in self._directory().keys.values() if key.id == key_id)
        return "Admin key" if operator.actor == "admin" else next(names, operator.actor)

    def _recognised(self, cookie: str) -> Operator | None:
        return self.access.recognised(cookie, self._policy(), self._directory())

    def _policy(self) -> AuthPolicy:
        return self._hermes.policies.current().auth

    def _directory(self) -> Directory:
        return self._hermes.directories.current()


def wanted_address() -> str:
    """The address that was asked for, where it may be asked for again; of a fragment, that of the page around it."""
    if request.method != "GET":
        return HOME
    return safe_next(request.full_path.rstrip("?"))


def page_around() -> str:
    """The address of the page whose script asks, as far as it is one of ours."""
    parts = urlsplit(request.headers.get("HX-Current-URL", ""))
    return safe_next(parts.path + (f"?{parts.query}" if parts.query else ""))


def safe_next(address: str) -> str:
    """An address to go on to, if it is one of ours; else the dashboard's first page.

    >>> safe_next("/dashboard/usage?q=a"), safe_next("https://evil.example/dashboard"), safe_next("//evil.example")
    ('/dashboard/usage?q=a', '/dashboard/', '/dashboard/')
    """
    if len(address) > TOO_LONG_CHARS or any(ord(char) <= 32 or char == "\\" for char in address):
        return HOME
    try:
        parts = urlsplit(address)
    except ValueError:
        return HOME
    is_ours = not parts.scheme and not parts.netloc and not address.startswith("//")
    first = "/" + parts.path.split("/")[1] if parts.path.startswith("/") else ""
    goes_round = parts.path.rstrip("/") == SIGN_IN or parts.path.startswith("/dashboard/ui")
    return address if is_ours and first in OURS and not goes_round else HOME
