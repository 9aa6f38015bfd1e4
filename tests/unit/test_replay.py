"""Recorded traffic, decided anew: what moves, who decides, what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hermes.learning.replay import Replay, Replayed
from hermes.policy import Policy, SurrogatePolicy
from hermes.storage.recorded import Recorded
from hermes.types import Price, Tier, Verdict
from tests.unit.test_router import POLICY, with_routing


class ByLength:
    """A surrogate that is sure of everything: long is complex."""

    version = "by length"

    def __init__(self, sure: bool = True) -> None:
        self.sure = sure

    def threshold_of(self, tier: Tier, configured: float | None = None) -> float:
        return 0.9 if self.sure else 2.0

    def judge(self, text: str) -> Verdict:
        return Verdict("complex" if len(text) > 20 else "simple", 0.95)

    def reconsider(self, text: str) -> None:
        return None


def recorded(
    text: str | None, tier: str = "simple", decision: str = "surrogate", at: int = 0, **fields: Any
) -> Recorded:
    values: dict[str, Any] = {
        "created_at": f"2026-05-10T12:{at // 60:02d}:{at % 60:02d}.000Z",
        "session_key": text,
        "key_id": None,
        "decision": decision,
        "tier": tier,
        "model": POLICY.cascades["simple"].endpoints[0].model,
        "text": text,
        "prompt_tokens": 1_000_000,
        "completion_tokens": 0,
        "cached_tokens": 0,
        "cost_usd": 1.0,
        "deviated": False,
    }
    return Recorded(**{**values, **fields})


def replayed(
    *requests: Recorded, surrogate: Any = None, policy: Policy = POLICY, verdicts: dict[str, str] | None = None
) -> Replayed:
    return Replay(policy, lambda _: surrogate or ByLength(), verdicts or {}).run(requests)


LONG = "what about all of this, then, in detail"


def test_what_goes_to_another_tier_is_counted() -> None:
    found = replayed(recorded("short"), recorded(LONG), recorded("brief", "complex"))

    assert found.shown()["tiers"] == {"simple": {"simple": 1, "complex": 1}, "complex": {"simple": 1, "complex": 0}}
    assert found.shown()["moved"] == 2
    assert found.shown()["decided_by"] == {"before": {"surrogate": 3}, "after": {"surrogate": 3}}


def test_what_cannot_be_judged_or_was_forced_stays() -> None:
    found = replayed(
        recorded(None), recorded("x" * 120), recorded(LONG, decision="header"), recorded(LONG, decision="role")
    )

    assert (found.requests, found.unjudged, found.forced, sum(found.moved.values())) == (4, 2, 2, 0)


def test_a_teacher_says_what_it_has_said() -> None:
    found = replayed(
        recorded("short", "complex", "teacher"),
        recorded("known", "simple"),
        recorded("unknown", "simple"),
        surrogate=ByLength(sure=False),
        verdicts={"known": "complex"},
    )

    assert found.moved == {("complex", "complex"): 1, ("simple", "complex"): 1, ("simple", "simple"): 1}
    assert (found.teacher_before, found.teacher_after, found.guessed) == (1, 3, 1)


def test_later_turns_keep_the_tier_that_the_first_one_would_have() -> None:
    first = recorded(LONG, "simple", session_key="s")
    later = recorded("and?", "simple", "session", at=5, session_key="s")
    too_late = recorded("and?", "simple", "session", at=3000, session_key="s")

    found = replayed(first, later, too_late)

    assert found.decided_after == {"surrogate": 2, "session": 1}
    assert found.moved == {("simple", "complex"): 2, ("simple", "simple"): 1}


def test_a_conversation_that_began_again_is_decided_again() -> None:
    found = replayed(recorded("short", session_key="s"), recorded(LONG, at=1, session_key="s"))

    assert found.decided_after == {"surrogate": 2}


def test_keywords_of_the_other_configuration_count() -> None:
    policy = with_routing(override_keywords={"complex": ("short",)})

    found = replayed(recorded("a short one"), policy=policy)

    assert found.decided_after == {"override": 1}
    assert found.moved == {("simple", "complex"): 1}


def test_what_has_no_price_is_in_neither_sum() -> None:
    found = replayed(recorded("short", cost_usd=None), recorded("brief"))

    assert found.shown()["cost_usd"] == {"before": 1.0, "after": 1.0, "unpriced": 1}


def test_without_a_surrogate_the_teacher_would_be_asked() -> None:
    policy = with_routing(surrogate=SurrogatePolicy(enabled=False))

    found = replayed(recorded("short", "simple", "teacher"), policy=policy)

    assert found.decided_after == {"teacher": 1}


def test_another_tier_is_priced_at_its_first_endpoint() -> None:
    price = Price(2 * 10**9, 10**9)  # 2 and 1 USD a million tokens
    big = replace(POLICY.cascades["complex"].endpoints[0], price=price)
    cascades = {**POLICY.cascades, "complex": replace(POLICY.cascades["complex"], endpoints=(big,))}

    found = replayed(recorded(LONG, completion_tokens=500_000), policy=replace(POLICY, cascades=cascades))

    assert (found.before_usd, found.after_usd, found.unpriced) == (1.0, 2.5, 0)
