"""Targets that are compared with pinned models, for scripts: what is known of them, and what is done about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from flask import Blueprint, Response, jsonify, request

from hermes.admission.fields import Fields
from hermes.admission.pins import REASON_CHARS
from hermes.errors import InvalidRequest
from hermes.evaluation.report import RUNS, report, shown_reply, shown_run
from hermes.instance import Hermes
from hermes.metadata import MAX_NAME_CHARS
from hermes.trials import OPINIONS, Opinion, Run
from hermes.web.caller import operator

SAMPLES: Final = 20
SAMPLES_MAX: Final = 200
VERDICTS: Final = (*OPINIONS, "none", "error")
ACT_FIELDS: Final = ("run", "role", "force", "reason")
MOST_ID: Final = 2**53


def add_routes(bp: Blueprint, hermes: Hermes, json_body: Callable[[], Any]) -> None:
    """`/admin/shadow` and the acts below it."""
    promotions = hermes.comparing.promotions

    @bp.get("/admin/shadow")
    def shadow() -> Response:
        policy, pins = hermes.policies.current(), hermes.directories.current().pins
        comparing = hermes.comparing
        found = report(promotions, comparing.rows.runs(RUNS), policy, pins)
        found["queue"] = {"depth": comparing.shadow.depth(), "dropped": dict(comparing.shadow.dropped)}
        found["spent_today_usd"] = comparing.spend.spent(policy.budgets.timezone) / 1e9
        found["daily_usd"] = policy.shadow.daily_nanousd / 1e9
        if "run" in request.args:
            found["samples"] = _samples(hermes, request.args)
        return jsonify(found)

    @bp.post("/admin/shadow/verdict")
    def verdict() -> Response:
        fields = Fields(json_body(), ("id", "verdict"))
        said = fields.choice("verdict", OPINIONS) if fields.has("verdict") else None
        reply = promotions.verdict(fields.whole_number("id", MOST_ID), cast("Opinion | None", said), operator(hermes))
        return jsonify(shown_reply(reply))

    @bp.post("/admin/shadow/promote")
    def promote() -> Response:
        fields = Fields(json_body(), ACT_FIELDS)
        force = fields.get("force")
        if force not in (None, True, False):
            raise fields.wrong("force", "must be true or false")
        rules = hermes.policies.current().shadow.gate
        reason, run_id = _reason(fields), _run_id(hermes, fields, "trial")
        return _acted(hermes, promotions.promote(run_id, rules, operator(hermes), force=bool(force), reason=reason))

    @bp.post("/admin/shadow/reject")
    def reject() -> Response:
        fields = Fields(json_body(), ACT_FIELDS)
        reason, run_id = _reason(fields), _run_id(hermes, fields, "trial")
        return _acted(hermes, promotions.reject(run_id, operator(hermes), reason))

    @bp.post("/admin/shadow/rollback")
    def rollback() -> Response:
        fields = Fields(json_body(), ACT_FIELDS)
        reason, run_id = _reason(fields), _run_id(hermes, fields, "promoted")
        return _acted(hermes, promotions.roll_back(run_id, operator(hermes), reason))


def _run_id(hermes: Hermes, fields: Fields, kind: str) -> int:
    """The run that is named, or the role's own one."""
    if fields.has("run"):
        return fields.whole_number("run", MOST_ID)
    if not fields.has("role"):
        raise InvalidRequest("run or role is missing: say which run, or the role whose run it is.", param="run")
    return hermes.comparing.promotions.running(fields.text("role", MAX_NAME_CHARS), kind).id


def _reason(fields: Fields) -> str:
    return fields.text("reason", REASON_CHARS) if fields.has("reason") else ""


def _acted(hermes: Hermes, run: Run) -> Response:
    gate = hermes.comparing.promotions.gate(run, hermes.policies.current().shadow.gate)
    return jsonify(shown_run(run, gate))


def _samples(hermes: Hermes, args: Mapping[str, str]) -> list[dict[str, Any]]:
    run_id = _number(args, "run", 0, MOST_ID)
    verdict = args.get("verdict") or None
    if verdict is not None and verdict not in VERDICTS:
        raise InvalidRequest(f"verdict must be one of {', '.join(VERDICTS)}.", param="verdict")
    limit, offset = _number(args, "limit", SAMPLES, SAMPLES_MAX), _number(args, "offset", 0, MOST_ID)
    rows = hermes.comparing.rows.replies(run_id, verdict=verdict, limit=limit, offset=offset)
    return [shown_reply(row) for row in rows]


def _number(args: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = args.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= most):
        raise InvalidRequest(f"{name} must be a whole number from 0 to {most}.", param=name)
    return int(text)
