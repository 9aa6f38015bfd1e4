"""The service contract of the organisation's own functions."""

from __future__ import annotations

from flask import Blueprint, Response

from hermes.bootstrap import Hermes
from hermes.web.completions import respond


def blueprint(hermes: Hermes) -> Blueprint:
    """`/v1/completions` and `/v1/completions/stream`."""
    bp = Blueprint("contract", __name__, url_prefix="/v1")

    @bp.post("/completions")
    def completions() -> Response:
        return respond(hermes, hermes.gateway.complete)

    @bp.post("/completions/stream")
    def completions_stream() -> Response:
        return respond(hermes, hermes.gateway.complete, wants_stream=True)

    return bp
