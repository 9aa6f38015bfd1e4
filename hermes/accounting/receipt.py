"""The receipt of one request: what was decided and why, who was asked, what it cost, and what it would have cost.

Made of the usage row alone, so that it can be had as long as the row is kept; only the price on the other tier is that
of the configuration in force now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes.accounting.exchange import Prices
from hermes.accounting.prices import NANOUSD_PER_USD
from hermes.types import TIERS, Cascade, Tier, Usage

Row = Mapping[str, Any]

DECIDED: Final[Mapping[str, str]] = {
    "header": "The caller asked for the {tier} tier, by header or as the model.",
    "role": "The caller asked for a role{role}; the {tier} tier serves it.",
    "override": "An override keyword in the new message asked for the {tier} tier.",
    "session": "The conversation had the {tier} tier already, and nothing in the message spoke against it.",
    "surrogate": "The surrogate classified the message as {tier}{confidence}.",
    "teacher": "The teacher classified the message as {tier}{confidence}.",
    "default": "Nothing could classify the message, so the default tier was taken: {tier}.",
}
"""What each source of a decision means."""

KEPT: Final = frozenset({"override", "session", "surrogate", "teacher", "default"})
"""Decisions that a conversation keeps; what the caller forces holds for one request."""


def receipt(row: Row, cascades: Mapping[Tier, Cascade], prices: Prices) -> dict[str, Any]:
    """What `GET /admin/usage/{request_id}` answers.

    Args:
        row: the usage row as `UsageRepository.get` gives it, with its `details`.
        cascades: the tiers in force now.
    """
    details = row["details"]
    attempts = _attempts(row, details.get("attempts") or ())
    return {
        "row": {name: value for name, value in row.items() if name != "details"},
        "decision": [*_choice(row), *_outcome(row, attempts)],
        "attempts": attempts,
        "residency": details.get("residency"),
        "masked": _masked(details.get("residency")),
        "price": {"model": row["model"], "usd": row["estimated_cost_usd"]},
        "other_tier": _other_tier(row, cascades, prices),
        **{name: details[name] for name in ("knowledge",) if name in details},
    }


def _masked(residency: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What was masked and why: each kind with the rule that asked for it; never a value."""
    if residency is None:
        return []
    redacting = [rule for rule in residency["rules"] if rule["action"] == "redact"]
    return [
        {"kind": kind, "count": count, "rule": rule["rule"], "why": rule["why"]}
        for kind, count in residency["masked"].items()
        for rule in [next(rule for rule in redacting if rule["detected"] is None or kind in rule["detected"])]
    ]


def _attempts(row: Row, kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every upstream call and every endpoint that was passed over, in their order."""
    if kept or row["status"] != "ok" or row["attempts"] != 1:
        return [dict(attempt) for attempt in kept]
    # One call that went well is not kept beside the row, which says it all but for how long the answer's head took.
    said = {"status": 200, "message": "answered", "called": True, "duration_ms": None}
    return [{"endpoint": row["endpoint"], "model": row["model"], **said}]


def _choice(row: Row) -> list[str]:
    """How the tier was chosen."""
    sentence = DECIDED.get(row["decision"] or "")
    if sentence is None:
        return ["The request ended before a tier was chosen."]
    confidence = "" if row["confidence"] is None else f", with confidence {row['confidence']:.3f}"
    role = f" ({row['role']})" if row["role"] else ""
    steps = [sentence.format(tier=row["tier"], confidence=confidence, role=role)]
    if row["session_key"] and row["decision"] in KEPT:
        steps.append(f"The conversation's session is {row['session_key']}.")
    return steps


def _outcome(row: Row, attempts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who was asked, and how it ended."""
    steps = [
        f"{attempt['model']} was passed over ({attempt['message'].removeprefix('skipped: ')})."
        if not attempt["called"]
        else f"{attempt['model']} was asked: {attempt['message']}."
        for attempt in attempts
        if attempt["message"] != "answered"
    ]
    if row["status"] == "ok" or any(attempt["message"] == "answered" for attempt in attempts):
        level = row["fallback_level"] or 0
        steps.append(f"{row['model']} answered, {f'fallback {level}' if level else 'the first choice'} of the tier.")
    return [*steps, *_end(row)]


def _end(row: Row) -> list[str]:
    reason = f": {row['error_message']}" if row["error_message"] else "."
    ends = {
        "refused": f"Hermes refused the request{reason}",
        "error": f"The request failed{reason}",
        "interrupted": f"The provider broke off its stream{reason}",
        "client_disconnected": "The caller hung up before the end.",
    }
    return [ends[row["status"]]] if row["status"] in ends else []


def _other_tier(row: Row, cascades: Mapping[Tier, Cascade], prices: Prices) -> dict[str, Any] | None:
    """What the same tokens cost at the other tier's first endpoint; None where no tier was chosen."""
    tier = next((tier for tier in TIERS if row["tier"] in TIERS and tier != row["tier"]), None)
    if tier is None:
        return None
    endpoint = cascades[tier].endpoints[0]
    usage = _usage(row)
    cost = None if usage is None else prices.cost_nanousd(endpoint, usage)
    return {"tier": tier, "model": endpoint.model, "usd": None if cost is None else cost / NANOUSD_PER_USD}


def _usage(row: Row) -> Usage | None:
    if row["prompt_tokens"] is None or row["completion_tokens"] is None:
        return None
    return Usage(
        row["prompt_tokens"],
        row["completion_tokens"],
        row["total_tokens"] or row["prompt_tokens"] + row["completion_tokens"],
        row["cached_tokens"] or 0,
        row["reasoning_tokens"] or 0,
        row["usage_estimated"],
    )
