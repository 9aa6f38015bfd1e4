"""What is told of the runs to scripts: by the admin API and the command line alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes.evaluation.gate import Gate
from hermes.evaluation.promotion import Promotions
from hermes.evaluation.shadow import sample_rate
from hermes.policy import Policy
from hermes.trials import Run, ShadowReply, Side

RUNS = 20


def report(promotions: Promotions, runs: list[Run], policy: Policy, pins: Mapping[str, str]) -> dict[str, Any]:
    """Roles with a target, and runs with what the gate says of each."""
    shadow = policy.shadow
    return {
        "auto_promote": shadow.auto_promote,
        "judge": None if shadow.judge is None else shadow.judge.model,
        "roles": {
            role: {
                "pin": pins.get(f"model.{role}"),
                "target": pins.get(f"model.{role}.target"),
                "sample_rate": sample_rate(pins, role),
            }
            for role in policy.gateway.roles
        },
        "runs": [shown_run(run, promotions.gate(run, shadow.gate)) for run in runs],
    }


def shown_run(run: Run, gate: Gate) -> dict[str, Any]:
    """A run as JSON has it."""
    return {**run.shown(), "gate": gate.shown()}


def shown_reply(reply: ShadowReply) -> dict[str, Any]:
    """A sample as JSON has it."""
    return {
        "id": reply.id,
        "run": reply.run_id,
        "created_at": reply.created_at,
        "request_id": reply.request_id,
        "role": reply.role,
        "function_name": reply.function_name,
        "stream": bool(reply.stream),
        "prompt": reply.prompt,
        "primary": _side(reply.primary),
        "target": _side(reply.target),
        "similarity": reply.similarity,
        "verdict": reply.verdict,
        "judge": {
            "verdict": reply.opinion,
            "by": reply.opinion_by,
            "orders": reply.orders.split(",") if reply.orders else [],
            "reason": reply.reason,
            "error": reply.judge_error,
            "cost_usd": _usd(reply.judge_nanousd),
        },
        "person": None if reply.person is None else {"verdict": reply.person, "by": reply.person_by},
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "model": side.model,
        "endpoint": side.endpoint,
        "answer": side.answer,
        "latency_ms": side.latency_ms,
        "ttft_ms": side.ttft_ms,
        "prompt_tokens": side.prompt_tokens,
        "completion_tokens": side.completion_tokens,
        "cost_usd": _usd(side.nanousd),
        "error": side.error,
    }


def _usd(nanousd: int | None) -> float | None:
    return None if nanousd is None else nanousd / 1e9
