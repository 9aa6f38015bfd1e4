"""The service contract of the organisation's own functions."""

from __future__ import annotations

from flask import Blueprint

from hermes.instance import Hermes
from hermes.web.completions import known_to_flask


def blueprint(hermes: Hermes) -> Blueprint:
    """`/v1/completions` and `/v1/completions/stream`."""
    bp = Blueprint("contract", __name__, url_prefix="/v1")

    for path in ("/completions", "/completions/stream"):
        bp.add_url_rule(path, view_func=known_to_flask, methods=["POST"], endpoint=path.strip("/").replace("/", "_"))
    return bp
