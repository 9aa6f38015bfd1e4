"""The routes that OpenAI's clients know."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify

from hermes.errors import NotFound
from hermes.instance import Hermes
from hermes.policy import Policy
from hermes.web.caller import caller
from hermes.web.completions import known_to_flask


def blueprint(hermes: Hermes) -> Blueprint:
    """`/v1/chat/completions` and `/v1/models`."""
    bp = Blueprint("openai", __name__, url_prefix="/v1")

    bp.add_url_rule("/chat/completions", view_func=known_to_flask, methods=["POST"], endpoint="chat")
    bp.add_url_rule("/embeddings", view_func=known_to_flask, methods=["POST"], endpoint="embeddings")

    @bp.get("/models")
    def models() -> Response:
        caller(hermes, scope=None)
        return jsonify({"object": "list", "data": [_model(name) for name in _models(hermes.policies.current())]})

    @bp.get("/models/<path:name>")
    def model(name: str) -> Response:
        caller(hermes, scope=None)
        if name not in _models(hermes.policies.current()):
            raise NotFound(f"There is no model {name}; GET /v1/models lists those that are.", code="model_not_found")
        return jsonify(_model(name))

    return bp


def _models(policy: Policy) -> list[str]:
    """What may be asked for: `auto`, the tiers, the roles, and the configured models (which are routed like `auto`)."""
    names = ["auto", "simple", "complex", *policy.gateway.roles]
    return list(dict.fromkeys([*names, *(e.model for e in policy.endpoints().values())]))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hermes"}
