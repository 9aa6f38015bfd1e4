"""A receipt tells a request's story in order, and what the other tier would have cost; nothing in it is made up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from hermes.accounting.receipt import receipt
from hermes.types import Attempt, Cascade, Endpoint, Tier, Usage, UsageRecord


def endpoint(model: str) -> Endpoint:
    return Endpoint(f"{model}@host/v1", model, "https://host/v1", "https://host/v1")


CASCADES: dict[Tier, Cascade] = {
    "simple": Cascade("simple", (endpoint("cheap"), endpoint("cheap-2")), 60),
    "complex": Cascade("complex", (endpoint("dear"),), 60),
}


class FixedPrices:
    """A micro-USD a token of *dear*; half of it where the prompt was cached. Nothing is known of other models."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        return 1000 * usage.total_tokens - 500 * usage.cached_tokens if endpoint.model == "dear" else None


def a_row(tried: list[Attempt] | None = None, **values: Any) -> dict[str, Any]:
    """An answered request's row, as the repository gives it."""
    record = asdict(UsageRecord("req_1", "2026-05-10T12:00:00.000Z", "/v1/chat/completions"))
    answered = {
        "tier": "simple",
        "decision": "teacher",
        "model": "cheap",
        "endpoint": "cheap@host/v1",
        "fallback_level": 0,
        "attempts": 1,
        "session_key": "abc123",
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "estimated_cost_usd": 0.00015,
    }
    kept = [asdict(attempt) for attempt in tried or ()]
    return {**record, **answered, "details": {"attempts": kept} if kept else {}, **values}


def test_what_a_request_was_given_to_know_is_told() -> None:
    known = {"use_case": "shop", "chunks": [{"id": 7, "source": "a.md", "chunk": 1, "score": 0.8}]}

    assert receipt(a_row(details={"knowledge": known}), CASCADES, FixedPrices())["knowledge"] == known


def test_an_answered_request() -> None:
    told = receipt(a_row(confidence=0.9), CASCADES, FixedPrices())

    assert list(told) == ["row", "decision", "attempts", "residency", "masked", "price", "other_tier"]
    assert told["decision"] == [
        "The teacher classified the message as simple, with confidence 0.900.",
        "The conversation's session is abc123.",
        "cheap answered, the first choice of the tier.",
    ]
    assert told["attempts"] == [
        {
            "endpoint": "cheap@host/v1",
            "model": "cheap",
            "status": 200,
            "message": "answered",
            "called": True,
            "duration_ms": None,
        }
    ]
    assert told["masked"] == []
    assert told["price"] == {"model": "cheap", "usd": 0.00015}
    assert told["other_tier"] == {"tier": "complex", "model": "dear", "usd": 0.00015}
    assert told["row"]["request_id"] == "req_1"
    assert "details" not in told["row"]


def test_a_fallback_tells_who_was_asked_before() -> None:
    attempts = [
        Attempt("cheap@host/v1", "cheap", None, "skipped: its circuit is open", called=False),
        Attempt("mid@host/v1", "mid", 503, "the provider answered 503", duration_ms=9.5),
        Attempt("cheap-2@host/v1", "cheap-2", 200, "answered", duration_ms=40.0),
    ]

    told = receipt(a_row(attempts, model="cheap-2", fallback_level=2, attempts=2), CASCADES, FixedPrices())

    assert told["attempts"] == [asdict(attempt) for attempt in attempts]
    assert told["decision"][-3:] == [
        "cheap was passed over (its circuit is open).",
        "mid was asked: the provider answered 503.",
        "cheap-2 answered, fallback 2 of the tier.",
    ]


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        pytest.param(
            {"decision": "header"}, ["The caller asked for the simple tier, by header or as the model."], id="forced"
        ),
        pytest.param(
            {"decision": "role", "role": "chat"},
            ["The caller asked for a role (chat); the simple tier serves it."],
            id="role",
        ),
        pytest.param(
            {"decision": "override"},
            [
                "An override keyword in the new message asked for the simple tier.",
                "The conversation's session is abc123.",
            ],
            id="a keyword",
        ),
        pytest.param(
            {"decision": "session", "session_key": None},
            ["The conversation had the simple tier already, and nothing in the message spoke against it."],
            id="a session that is not known by name",
        ),
        pytest.param(
            {"decision": "surrogate", "confidence": 0.97251, "session_key": None},
            ["The surrogate classified the message as simple, with confidence 0.973."],
            id="the surrogate",
        ),
        pytest.param(
            {"decision": "default", "session_key": None},
            ["Nothing could classify the message, so the default tier was taken: simple."],
            id="the default",
        ),
    ],
)
def test_every_source_of_a_decision_has_its_words(values: dict[str, Any], steps: list[str]) -> None:
    told = receipt(a_row(**values), CASCADES, FixedPrices())

    assert told["decision"] == [*steps, "cheap answered, the first choice of the tier."]


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        pytest.param(
            {"status": "interrupted", "error_message": "the connection was lost"},
            [
                "cheap answered, the first choice of the tier.",
                "The provider broke off its stream: the connection was lost",
            ],
            id="a broken stream",
        ),
        pytest.param(
            {"status": "client_disconnected"},
            ["cheap answered, the first choice of the tier.", "The caller hung up before the end."],
            id="a caller who left",
        ),
        pytest.param(
            {"status": "error", "attempts": 0, "model": None}, ["The request failed."], id="no reason is kept"
        ),
    ],
)
def test_every_end_has_its_words(values: dict[str, Any], steps: list[str]) -> None:
    tried = [Attempt("cheap@host/v1", "cheap", 200, "answered")] if values.get("attempts", 1) else []

    told = receipt(a_row(tried, decision="header", **values), CASCADES, FixedPrices())

    assert told["decision"][1:] == steps


def test_a_request_that_was_refused_before_anything_was_chosen() -> None:
    nothing = (
        "tier",
        "decision",
        "model",
        "endpoint",
        "session_key",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
    )
    row = a_row(status="refused", error_message="messages is missing", attempts=0, estimated_cost_usd=None)

    told = receipt({**row, **dict.fromkeys(nothing)}, CASCADES, FixedPrices())

    assert told["decision"] == [
        "The request ended before a tier was chosen.",
        "Hermes refused the request: messages is missing",
    ]
    assert told["attempts"] == []
    assert told["price"] == {"model": None, "usd": None}
    assert told["other_tier"] is None


def test_a_failed_request_has_no_price_and_no_other() -> None:
    tried = [Attempt("cheap@host/v1", "cheap", 500, "the provider answered 500")]
    unknown = {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None, "estimated_cost_usd": None}

    told = receipt(a_row(tried, status="error", error_message="nobody answered", **unknown), CASCADES, FixedPrices())

    assert told["decision"][-2:] == [
        "cheap was asked: the provider answered 500.",
        "The request failed: nobody answered",
    ]
    assert told["other_tier"] == {"tier": "complex", "model": "dear", "usd": None}


@pytest.mark.parametrize(
    ("values", "other"),
    [
        pytest.param({"tier": "complex"}, {"tier": "simple", "model": "cheap", "usd": None}, id="a price nobody knows"),
        pytest.param({"cached_tokens": 100}, {"tier": "complex", "model": "dear", "usd": 0.0001}, id="cached tokens"),
        pytest.param({"total_tokens": None}, {"tier": "complex", "model": "dear", "usd": 0.00015}, id="no total"),
    ],
)
def test_what_the_other_tier_would_have_cost(values: dict[str, Any], other: dict[str, Any]) -> None:
    assert receipt(a_row(**values), CASCADES, FixedPrices())["other_tier"] == other


def test_attempts_that_were_not_kept_are_not_made_up() -> None:
    """A row that was too long for the spool loses its details."""
    told = receipt(a_row(attempts=3), CASCADES, FixedPrices())

    assert told["attempts"] == []
    assert told["decision"][-1] == "cheap answered, the first choice of the tier."


def test_what_was_masked_is_told_where_the_row_has_it() -> None:
    rules = [
        {"rule": 1, "action": "allow", "detected": None, "why": "every request"},
        {"rule": 2, "action": "redact", "detected": ["iban"], "why": "detected iban"},
        {"rule": 3, "action": "redact", "detected": None, "why": "data class customer"},
    ]
    proof = {"rules": rules, "masked": {"email": 2, "iban": 1}}

    told = receipt(a_row(details={"residency": proof}), CASCADES, FixedPrices())

    assert told["residency"] == proof
    assert told["masked"] == [
        {"kind": "email", "count": 2, "rule": 3, "why": "data class customer"},
        {"kind": "iban", "count": 1, "rule": 2, "why": "detected iban"},
    ]
