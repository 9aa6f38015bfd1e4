"""Whether it lives, and whether it can serve."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from hermes.instance import DEGRADED, Hermes


def blueprint(hermes: Hermes) -> Blueprint:
    """`/health` for restarts, `/health/ready` for load balancers."""
    bp = Blueprint("health", __name__)

    @bp.get("/health")
    def health() -> Response:
        timeout_s = hermes.policies.current().routing.session_timeout_s
        return jsonify({"status": "ok", "sessions": hermes.sessions.count(timeout_s)})

    @bp.get("/health/ready")
    def ready() -> tuple[Response, int]:
        checks = hermes.readiness()
        is_ready = all(state == "ok" or state.startswith(DEGRADED) for state in checks.values())
        return jsonify({"status": "ready" if is_ready else "not ready", **checks}), 200 if is_ready else 503

    return bp
