"""Signing in and out. The form works without script; each try is counted by address before the key is looked at."""

from __future__ import annotations

import math
import secrets
from typing import Final

from flask import Blueprint, Response, redirect, request

from hermes.errors import Forbidden, Unauthorized
from hermes.web.dashboard.door import HOME, SIGN_IN, safe_next
from hermes.web.dashboard.site import Site

VISITOR_COOKIE: Final = "hermes_visitor"
VISITOR_S: Final = 3600
MOST_KEY_CHARS: Final = 1000


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/sign-in`, `/dashboard/sign-out`."""

    @bp.get(SIGN_IN)
    def sign_in() -> Response:
        wanted = safe_next(request.args.get("next", HOME))
        if site.door.is_now():
            return redirect(wanted, 303)  # type: ignore[return-value]
        return _form(site, wanted)

    @bp.post(SIGN_IN)
    def enter() -> Response:
        wanted = safe_next(request.form.get("next", HOME))
        if not site.door.is_open():
            return _form(site, wanted)
        try:
            site.door.check_token(f"visitor:{_visitor()}")
        except Forbidden:
            return _form(site, wanted, "The form was too old. Please try once more.", 403)
        address = request.remote_addr or ""
        wait_s = site.door.throttle.wait_s(address)
        if wait_s > 0:
            return _too_often(site, wanted, wait_s)
        return _let_in(site, wanted, address)

    @bp.post("/dashboard/sign-out")
    def sign_out() -> Response:
        operator = site.door.operator()
        if operator is not None:
            site.door.access.end(operator)
        response = redirect(SIGN_IN, 303)
        site.door.take_cookie(response)  # type: ignore[arg-type]
        return response  # type: ignore[return-value]


def _let_in(site: Site, wanted: str, address: str) -> Response:
    try:
        operator = site.door.sign_in(request.form.get("key", "")[:MOST_KEY_CHARS].strip())
    except Unauthorized:
        return _form(site, wanted, "This is not the admin key, nor an API key that is in force.", 401)
    except Forbidden:
        return _form(site, wanted, "This API key may not administer: it lacks the scope admin.", 403)
    site.door.throttle.succeeded(address)
    site.hermes.operations.told("dashboard.sign_in", operator.session[:8], operator.actor)
    response = redirect(wanted, 303)
    site.door.give_cookie(response, operator)  # type: ignore[arg-type]
    response.delete_cookie(VISITOR_COOKIE, path="/dashboard")
    return response  # type: ignore[return-value]


def _too_often(site: Site, wanted: str, wait_s: float) -> Response:
    seconds = math.ceil(wait_s)
    response = _form(site, wanted, f"Too many tries. Wait {seconds} s, then try again.", 429)
    response.headers["Retry-After"] = str(seconds)
    return response


def _form(site: Site, wanted: str, message: str = "", status: int = 200) -> Response:
    if not site.door.is_open():
        return site.frame.bare("sign_in.html", status=401, closed=site.door.closed_because())
    visitor = _visitor() or secrets.token_hex(16)
    values = {"next": wanted, "message": message, "csrf": site.door.token(f"visitor:{visitor}")}
    response = site.frame.bare("sign_in.html", status=status, **values)
    response.set_cookie(
        VISITOR_COOKIE,
        visitor,
        max_age=VISITOR_S,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
        path="/dashboard",
    )
    return response


def _visitor() -> str:
    return request.cookies.get(VISITOR_COOKIE, "")[:64]
