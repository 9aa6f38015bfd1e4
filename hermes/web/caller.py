"""Who calls a route: the `Authorization` header of the current request, weighed by what is in force now."""

from __future__ import annotations

from flask import request

from hermes.admission.auth import bearer_of
from hermes.directory import Scope
from hermes.instance import Hermes
from hermes.types import Principal


def caller(hermes: Hermes, *, scope: Scope | None) -> Principal:
    """The caller of a route for clients; raises as `Authenticator.authenticate`."""
    policy, directory = hermes.policies.current().auth, hermes.directories.current()
    return hermes.auth.authenticate(_bearer(), policy, directory, scope=scope)


def operator(hermes: Hermes) -> str:
    """Who calls a route for operators, as audit rows have it; raises as `Authenticator.require_admin`."""
    return hermes.auth.require_admin(_bearer(), hermes.policies.current().auth, hermes.directories.current())


def _bearer() -> str:
    return bearer_of(request.headers.get("Authorization", ""))
