"""Circuits: which endpoint is out, until when, who carries the load; and closing one or all of them."""

from __future__ import annotations

import time

from flask import Blueprint, Response, request

from hermes.types import Endpoint
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.circuits import CircuitsView, Keys, circuits_view
from hermes.web.dashboard.views.kept import Kept

KEPT_S = 1.0


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/circuits` and what belongs to it."""
    view = Kept(lambda: view_of(site), KEPT_S)

    @bp.get("/dashboard/circuits")
    def circuits() -> Response:
        view.forget()
        return site.frame.page("circuits.html", view=view.get())

    @bp.get("/dashboard/ui/circuits")
    def circuits_part() -> Response:
        return site.frame.shared("_circuits.html", "", lambda: {"view": view.get()}, KEPT_S)

    @bp.post("/dashboard/circuits/reset")
    def reset() -> Response:
        wanted = request.values.get("endpoint") or None
        names = site.hermes.operations.reset_circuits(wanted, site.actor())
        view.forget()
        what = f"Circuit of {wanted.partition('@')[0]} closed" if wanted else f"All {len(names)} circuits closed"
        return site.frame.acted(Toast(what), "/dashboard/circuits", "_circuits.html", view=view.get())


def view_of(site: Site) -> CircuitsView:
    """What the page shows, as it is now."""
    hermes = site.hermes
    policy = hermes.policies.current()
    return circuits_view(
        policy,
        [hermes.breakers.circuit(endpoint, policy.breaker) for endpoint in policy.endpoints().values()],
        hermes.changes.recent(),
        site.figures.traffic(),
        lambda endpoint: _keys(site, endpoint),
        hermes.changes.last_failure,
        time.time(),
    )


def _keys(site: Site, endpoint: Endpoint) -> Keys:
    keyring = site.hermes.keyring
    usable = sum(key is not None for key in keyring.usable(endpoint))
    return Keys(usable, len(endpoint.keys), keyring.shortest_rest_s(endpoint))
