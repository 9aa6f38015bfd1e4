"""Keys, pins, budgets and the record of their changes, for scripts; and the pins in force, for clients to cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from flask import Blueprint, Response, jsonify, request

from hermes.admission.budget_form import shown_budget
from hermes.admission.pins import in_force, remark
from hermes.directory import Budget
from hermes.errors import InvalidRequest
from hermes.instance import Hermes
from hermes.web import shadow_api
from hermes.web.caller import caller, operator
from hermes.web.http import limit_of, read_body

MAX_BODY_BYTES = 1024 * 1024
AUDIT_ROWS = 100
AUDIT_ROWS_MAX = 1000

Spent = Callable[[Budget], Mapping[str, Any]]
"""What was used of a budget: spent_usd, spent_tokens, spent_requests, period_start, resets_at."""


def blueprint(hermes: Hermes) -> Blueprint:
    """`/admin/keys`, `/admin/pins`, `/admin/budgets`, `/admin/shadow`, `/admin/audit`, `/v1/pins`."""
    bp = Blueprint("directory", __name__)
    _add_keys(bp, hermes)
    _add_pins(bp, hermes)
    _add_budgets(bp, hermes, hermes.spent)
    shadow_api.add_routes(bp, hermes, _json_body)

    @bp.get("/admin/audit")
    def audit() -> Response:
        return jsonify({"entries": hermes.directory.audit(limit_of(request.args, AUDIT_ROWS, AUDIT_ROWS_MAX))})

    @bp.get("/v1/pins")
    def pins() -> Response:
        caller(hermes, scope="gateway")
        is_enabled = not hermes.switch.is_stopped()
        return jsonify(in_force(hermes.policies.current(), hermes.directories.current(), is_enabled=is_enabled))

    return bp


def _add_keys(bp: Blueprint, hermes: Hermes) -> None:
    @bp.get("/admin/keys")
    def keys() -> Response:
        return jsonify({"keys": hermes.api_keys()})

    @bp.post("/admin/keys")
    def create_key() -> tuple[Response, int, dict[str, str]]:
        made = hermes.editor.create_key(_json_body(), operator(hermes))
        return jsonify(made), 201, {"Cache-Control": "no-store"}

    @bp.delete("/admin/keys/<key_id>")
    def revoke_key(key_id: str) -> Response:
        return jsonify(hermes.editor.revoke_key(key_id, operator(hermes)))


def _add_pins(bp: Blueprint, hermes: Hermes) -> None:
    @bp.get("/admin/pins")
    def all_pins() -> Response:
        return jsonify({"pins": hermes.directory.get_pins()})

    @bp.get("/admin/pins/<key>")
    def pin(key: str) -> Response:
        return jsonify(hermes.editor.pin(key))

    @bp.put("/admin/pins/<key>")
    def set_pin(key: str) -> Response:
        pin = hermes.editor.set_pin(key, _json_body(), operator(hermes))
        warning = remark(key, pin["value"], hermes.policies.current())
        return jsonify({**pin, "warning": warning} if warning else pin)

    @bp.delete("/admin/pins/<key>")
    def delete_pin(key: str) -> Response:
        hermes.editor.delete_pin(key, operator(hermes))
        return jsonify({"deleted": key})


def _add_budgets(bp: Blueprint, hermes: Hermes, spent: Spent) -> None:
    def shown(budget: Budget) -> dict[str, Any]:
        return {**shown_budget(budget), **spent(budget)}

    @bp.get("/admin/budgets")
    def budgets() -> Response:
        return jsonify({"budgets": [shown(budget) for budget in hermes.directory.list_budgets()]})

    @bp.put("/admin/budgets")
    def put_budget() -> Response:
        return jsonify(shown_budget(hermes.editor.put_budget(_json_body(), operator(hermes))))

    @bp.delete("/admin/budgets")
    def delete_budget() -> Response:
        named = request.args.to_dict() or _json_body()
        hermes.editor.delete_budget(named, operator(hermes))
        return jsonify({"deleted": named})


def _json_body() -> Any:
    """The request's body, as strict JSON: no halves of surrogate pairs, no NaN, which databases and clients refuse."""
    try:
        return orjson.loads(read_body(request.environ, MAX_BODY_BYTES))
    except orjson.JSONDecodeError:
        raise InvalidRequest("The body must be JSON.") from None
