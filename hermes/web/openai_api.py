"""The routes that OpenAI's clients know."""

from __future__ import annotations

import time
from typing import Any

from flask import Blueprint, Response, jsonify, request

from hermes.admission.auth import authenticate, bearer_of
from hermes.bootstrap import Hermes
from hermes.errors import ClientGone, NotFound
from hermes.gateway import Call
from hermes.policy import Policy
from hermes.web import errors
from hermes.web.http import REQUEST_ID, begin, body_reader


def blueprint(hermes: Hermes) -> Blueprint:
    """`/v1/chat/completions` and `/v1/models`."""
    bp = Blueprint("openai", __name__, url_prefix="/v1")

    @bp.post("/chat/completions")
    def chat_completions() -> Response:
        try:
            reply = hermes.gateway.chat(_call(hermes, request.environ))
        except ClientGone as left:
            return errors.gone(left)
        response = Response(reply.body, reply.status, reply.headers, direct_passthrough=True)
        response.headers["X-Request-Id"] = request.environ[REQUEST_ID]
        return response

    @bp.get("/models")
    def models() -> Response:
        authenticate(_bearer(), hermes.policies.current().auth)
        return jsonify({"object": "list", "data": [_model(name) for name in _models(hermes.policies.current())]})

    @bp.get("/models/<path:name>")
    def model(name: str) -> Response:
        authenticate(_bearer(), hermes.policies.current().auth)
        if name not in _models(hermes.policies.current()):
            raise NotFound(f"There is no model {name}; GET /v1/models lists those that are.", code="model_not_found")
        return jsonify(_model(name))

    return bp


def _call(hermes: Hermes, environ: dict[str, Any]) -> Call:
    return Call(
        route=environ["PATH_INFO"],
        request_id=begin(environ),
        read_body=body_reader(environ),
        bearer=bearer_of(environ.get("HTTP_AUTHORIZATION", "")),
        lifeline=hermes.hangups.lifeline(environ.get("gunicorn.socket")),
        began=time.monotonic(),
        tier=environ.get("HTTP_X_HERMES_TIER"),
        session=environ.get("HTTP_X_HERMES_SESSION"),
        user=environ.get("HTTP_X_HERMES_USER", ""),
        timeout=environ.get("HTTP_X_REQUEST_TIMEOUT"),
    )


def _bearer() -> str:
    return bearer_of(request.headers.get("Authorization", ""))


def _models(policy: Policy) -> list[str]:
    """What may be asked for: `auto`, the tiers, the roles, and the configured models (which are routed like `auto`)."""
    names = ["auto", "simple", "complex", *policy.gateway.roles]
    return list(dict.fromkeys([*names, *(e.model for e in policy.endpoints().values())]))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hermes"}
