"""Who calls a route: the `Authorization` header of the current request, weighed by what is in force now."""

from __future__ import annotations

from collections.abc import Callable

from flask import request

from hermes.admission.auth import bearer_of
from hermes.directory import Scope
from hermes.errors import Forbidden, Unauthorized
from hermes.instance import Hermes
from hermes.types import Principal


def caller(hermes: Hermes, *, scope: Scope | None) -> Principal:
    """The caller of a route for clients; raises as `Authenticator.authenticate`."""
    policy, directory = hermes.policies.current().auth, hermes.directories.current()
    return hermes.auth.authenticate(_bearer(), policy, directory, scope=scope)


def operator(hermes: Hermes) -> str:
    """Who calls a route for operators, as audit rows have it; raises as `Authenticator.require_admin`."""
    return hermes.auth.require_admin(_bearer(), hermes.policies.current().auth, hermes.directories.current())


def operator_watch(hermes: Hermes) -> Callable[[], bool]:
    """A function that tells, also after the current request, whether its key still opens routes for operators."""
    bearer = _bearer()

    def is_admitted() -> bool:
        try:
            hermes.auth.require_admin(bearer, hermes.policies.current().auth, hermes.directories.current())
        except (Forbidden, Unauthorized):
            return False
        return True

    return is_admitted


def _bearer() -> str:
    return bearer_of(request.headers.get("Authorization", ""))
