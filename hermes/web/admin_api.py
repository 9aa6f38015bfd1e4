"""The operators' routes, for scripts. All are closed without the admin key."""

from __future__ import annotations

import gevent
from flask import Blueprint, Response, jsonify, request

from hermes.bootstrap import Hermes
from hermes.errors import NotFound
from hermes.observe.metrics import CONTENT_TYPE
from hermes.turns import MOMENT_S
from hermes.web import usage_api
from hermes.web.caller import operator

CLOSED = ("/admin", "/circuits", "/classifier", "/metrics", "/reload")
"""Where only the operator may go. Paths below that do not exist are closed too: nobody else learns which those are."""


def blueprint(hermes: Hermes) -> Blueprint:
    """Sessions, circuits, usage, configuration, metrics."""
    bp = Blueprint("admin", __name__)

    @bp.before_app_request
    def only_the_operator() -> None:
        if request.path.startswith(CLOSED):
            operator(hermes)

    _add_sessions(bp, hermes)
    _add_circuits(bp, hermes)
    _add_configuration(bp, hermes)
    usage_api.add_routes(bp, hermes)

    @bp.get("/metrics")
    def metrics() -> Response:
        return Response(hermes.metrics.exposition(lambda: gevent.sleep(MOMENT_S)), content_type=CONTENT_TYPE)

    return bp


def _add_sessions(bp: Blueprint, hermes: Hermes) -> None:
    @bp.get("/admin/sessions")
    def sessions() -> Response:
        timeout_s = hermes.policies.current().routing.session_timeout_s
        found = hermes.sessions.all(timeout_s)
        minutes = timeout_s / 60
        shown = int(minutes) if minutes.is_integer() else minutes
        return jsonify({"count": len(found), "session_timeout_minutes": shown, "sessions": found})

    @bp.delete("/admin/sessions/<key>")
    def evict(key: str) -> Response:
        session = hermes.sessions.get(key)
        if not hermes.sessions.evict(key):
            raise NotFound(f"There is no session {key}; GET /admin/sessions lists those that are.")
        before = {"tier": session.tier, "user_id": session.user_id} if session is not None else None
        hermes.trail.note(operator(hermes), "session.evict", key, before)
        return jsonify({"evicted": key})


def _add_circuits(bp: Blueprint, hermes: Hermes) -> None:
    @bp.get("/circuits")
    def circuits() -> Response:
        policy = hermes.policies.current()
        found = [hermes.breakers.circuit(endpoint, policy.breaker) for endpoint in policy.endpoints().values()]
        return jsonify({"circuits": [circuit.shown() for circuit in found]})

    @bp.post("/circuits/reset")
    def reset_circuits() -> Response:
        policy = hermes.policies.current()
        endpoints = policy.endpoints()
        wanted = request.args.get("endpoint")
        if wanted is not None and wanted not in endpoints:
            raise NotFound(f"There is no endpoint {wanted!r}; GET /circuits lists those that are.")
        names = [wanted] if wanted is not None else list(endpoints)
        before = {name: hermes.breakers.circuit(endpoints[name], policy.breaker).state for name in names}
        for name in names:
            hermes.breakers.reset(endpoints[name], policy.breaker)
        hermes.trail.note(operator(hermes), "circuit.reset", wanted or "*", before)
        return jsonify({"reset": names})


def _add_configuration(bp: Blueprint, hermes: Hermes) -> None:
    @bp.get("/admin/config")
    def config() -> Response:
        policy = hermes.policies.current()
        return jsonify({"source": policy.source, "warnings": list(policy.warnings), "config": policy.document})

    @bp.post("/reload")
    def reload() -> Response:
        policy = hermes.reload(operator(hermes))
        return jsonify({"status": "reloaded", "source": policy.source, "warnings": list(policy.warnings)})
