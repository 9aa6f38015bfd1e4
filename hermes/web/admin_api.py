"""The operators' routes, for scripts. All are closed without the admin key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import gevent
from flask import Blueprint, Response, jsonify, request

from hermes.instance import Hermes
from hermes.observe.metrics import CONTENT_TYPE
from hermes.turns import MOMENT_S
from hermes.web import classifier_api, knowledge_api, traces_api, usage_api
from hermes.web.caller import operator, operator_watch
from hermes.web.lasting import Exports

CLOSED = ("/admin", "/circuits", "/classifier", "/metrics", "/reload")
"""Where only the operator may go. Paths below that do not exist are closed too: nobody else learns which those are."""

READS: Final = ("GET", "HEAD")
"""What an operator's session in a browser is enough for; changes come from the dashboard's own forms."""


class SignedIn(Protocol):
    """`hermes.web.dashboard.door.Door`."""

    def is_now(self) -> bool: ...

    def lead_there(self) -> Response: ...

    def watch(self) -> Callable[[], bool]: ...


def blueprint(
    hermes: Hermes, signed_in: SignedIn, classifier_page: classifier_api.PageFor, exports: Exports
) -> Blueprint:
    """Sessions, circuits, usage, traces, configuration, metrics.

    Args:
        signed_in: whether a browser that asks has an operator's session, and still has it; where it signs in.
        classifier_page: the classifier's report for people.
    """
    bp = Blueprint("admin", __name__)

    @bp.before_app_request
    def only_the_operator() -> Response | None:
        if not request.path.startswith(CLOSED):
            return None
        if request.method not in READS or "Authorization" in request.headers:
            operator(hermes)
            return None
        if signed_in.is_now():
            return None
        if request.accept_mimetypes.best_match(("application/json", "text/html")) == "text/html":
            return signed_in.lead_there()
        operator(hermes)
        return None

    _add_sessions(bp, hermes)
    _add_circuits(bp, hermes)
    _add_configuration(bp, hermes)
    usage_api.add_routes(
        bp,
        hermes,
        exports,
        watch=lambda: operator_watch(hermes) if "Authorization" in request.headers else signed_in.watch(),
    )
    traces_api.add_routes(bp, hermes)
    classifier_api.add_routes(bp, hermes, classifier_page)
    knowledge_api.add_routes(bp, hermes)

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
        hermes.operations.evict_session(key, operator(hermes))
        return jsonify({"evicted": key})


def _add_circuits(bp: Blueprint, hermes: Hermes) -> None:
    @bp.get("/circuits")
    def circuits() -> Response:
        policy = hermes.policies.current()
        found = [hermes.breakers.circuit(endpoint, policy.breaker) for endpoint in policy.endpoints().values()]
        return jsonify({"circuits": [circuit.shown() for circuit in found]})

    @bp.post("/circuits/reset")
    def reset_circuits() -> Response:
        names = hermes.operations.reset_circuits(request.args.get("endpoint"), operator(hermes))
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
