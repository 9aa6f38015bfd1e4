"""What loading another configuration would do, in sentences: tiers, models, prices, limits, who decides, who may call.

What stands in no sentence here stands in the comparison beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes.admission.pins import remark
from hermes.policy import Policy, RoutingPolicy
from hermes.types import Cascade, Endpoint, Price, RateLimits
from hermes.web.dashboard.marks import left_text, money_text

NANO: Final = 1e-9
SHOWN_WORDS: Final = 4
LIMITS: Final = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "concurrent": "requests at once",
}


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that would be other than it is."""

    text: str
    is_grave: bool = False
    """Callers would be refused, or somebody be signed out."""


def effects(old: Policy, new: Policy, pins: Mapping[str, str]) -> tuple[Effect, ...]:
    """
    Args:
        pins: those in force, by their keys.
    """
    return (
        *_tiers(old, new),
        *_endpoints(old.endpoints(), new.endpoints()),
        *_pins(old, new, pins),
        *_limits("user", old.limits.per_user, new.limits.per_user),
        *_limits("API key", old.limits.per_key, new.limits.per_key),
        *_routing(old.routing, new.routing),
        *_access(old, new),
    )


def _tiers(old: Policy, new: Policy) -> Iterator[Effect]:
    for tier, cascade in new.cascades.items():
        before = old.cascades.get(tier)
        if before is None:
            continue
        yield from _tier(f"The {tier} tier", before, cascade)
    for role, tier in new.gateway.roles.items():
        was = old.gateway.roles.get(role)
        if was != tier:
            yield Effect(f"The role {role} is served by the {tier} tier" + (f" instead of {was}" if was else ""))
    for role in old.gateway.roles.keys() - new.gateway.roles.keys():
        yield Effect(f"The role {role} is gone: requests for it are refused", is_grave=True)


def _tier(name: str, before: Cascade, after: Cascade) -> Iterator[Effect]:
    old, new = [e.id for e in before.endpoints], [e.id for e in after.endpoints]
    first, last = after.endpoints[0], before.endpoints[0]
    if first.id != last.id:
        yield Effect(f"{name} asks {_place(first)} first, and no longer {_place(last)}")
    added = [e for e in after.endpoints[1:] if e.id not in old]
    gone = [e for e in before.endpoints[1:] if e.id not in new]
    if added:
        yield Effect(f"{name} gets {', '.join(map(_place, added))} as a fallback")
    if gone:
        yield Effect(f"{name} loses {', '.join(map(_place, gone))}")
    if sorted(old) == sorted(new) and old != new and first.id == last.id:
        yield Effect(f"{name} asks its fallbacks in another order: {', '.join(e.model for e in after.endpoints[1:])}")
    if before.timeout_s != after.timeout_s:
        yield Effect(f"{name} gives a request {left_text(after.timeout_s)}, not {left_text(before.timeout_s)}")


def _place(endpoint: Endpoint) -> str:
    return f"{endpoint.model} at {endpoint.id.partition('@')[2] or endpoint.shown_url}"


def _endpoints(old: Mapping[str, Endpoint], new: Mapping[str, Endpoint]) -> Iterator[Effect]:
    for name, after in new.items():
        before = old.get(name)
        if before is None:
            continue
        if before.price != after.price:
            yield Effect(f"{after.model} costs {_price(after.price)}, not {_price(before.price)}")
        if before.region != after.region:
            yield Effect(f"{after.model} stands in {after.region or 'no region'}, not in {before.region or 'none'}")
        if [key.value for key in before.keys] != [key.value for key in after.keys]:
            yield Effect(f"{after.model} is asked with other provider keys, {len(after.keys)} of them")
        if before.context_window != after.context_window:
            yield Effect(f"{after.model} takes {_tokens(after.context_window)}, not {_tokens(before.context_window)}")
        if before.headers != after.headers or before.base_url != after.base_url:
            yield Effect(f"{after.model} is asked with other headers, or another user or query in its address")


def _price(price: Price | None) -> str:
    if price is None:
        return "what the price library says"
    into, out = (nano * NANO for nano in (price.input_nanousd_per_mtok, price.output_nanousd_per_mtok))
    return f"{money_text(into)} in and {money_text(out)} out a million tokens"


def _tokens(window: int | None) -> str:
    return "an unknown number of tokens" if window is None else f"{window:,} tokens"


def _pins(old: Policy, new: Policy, pins: Mapping[str, str]) -> Iterator[Effect]:
    for key, value in pins.items():
        told = remark(key, value, new)
        if told and not remark(key, value, old):
            yield Effect(f"The pin {key} names a model that is gone. {told}", is_grave=True)


def _limits(whose: str, old: RateLimits, new: RateLimits) -> Iterator[Effect]:
    for name, words in LIMITS.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield Effect(f"Each {whose} may ask for {_limit(after, words)}, not {_limit(before, words)}")


def _limit(number: int, words: str) -> str:
    return f"{number:,} {words}" if number else f"any number of {words}"


def _routing(old: RoutingPolicy, new: RoutingPolicy) -> Iterator[Effect]:
    before, after = _teacher(old), _teacher(new)
    if before != after:
        yield Effect(f"The teacher is {after or 'nobody'}, not {before or 'nobody'}")
    for name, words in (
        ("enabled", "The surrogate decides"),
        ("path", "The surrogate is read from"),
        ("confidence_threshold", "The surrogate decides from a confidence of"),
        ("target", "The surrogate is to agree with the teacher in"),
        ("audit_rate", "The teacher checks the surrogate's decisions at a rate of"),
    ):
        was, is_now = getattr(old.surrogate, name), getattr(new.surrogate, name)
        if was != is_now:
            yield Effect(f"{words}: {_said(is_now)}, not {_said(was)}")
    for tier, keywords in new.override_keywords.items():
        yield from _words(f"decide for the {tier} tier", old.override_keywords.get(tier, ()), keywords)
    yield from _words("lead a session up", old.escalation_keywords, new.escalation_keywords)
    yield from _words("lead a session down", old.de_escalation_keywords, new.de_escalation_keywords)
    if old.default_tier != new.default_tier:
        yield Effect(f"When nobody can decide, it is {new.default_tier}, not {old.default_tier}")
    if old.session_timeout_s != new.session_timeout_s:
        now, then = left_text(new.session_timeout_s), left_text(old.session_timeout_s)
        yield Effect(f"A session keeps its tier for {now}, not {then}")


def _teacher(routing: RoutingPolicy) -> str:
    return "" if routing.teacher is None else _place(routing.teacher.endpoint)


def _said(value: Any) -> str:
    if value is None:
        return "the fitted one"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _words(what: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Effect]:
    added = [word for word in new if word not in old]
    gone = [word for word in old if word not in new]
    if added:
        yield Effect(f"{_some(added)} now {what}")
    if gone:
        yield Effect(f"{_some(gone)} no longer {what}")


def _some(words: list[str]) -> str:
    shown = ", ".join(f"“{word}”" for word in words[:SHOWN_WORDS])
    return shown if len(words) <= SHOWN_WORDS else f"{shown} and {len(words) - SHOWN_WORDS} more words"


def _access(old: Policy, new: Policy) -> Iterator[Effect]:
    if new.auth.require_client_key and not old.auth.require_client_key:
        yield Effect("The router answers 401 to callers without an API key", is_grave=True)
    if old.auth.require_client_key and not new.auth.require_client_key:
        yield Effect("The router serves callers without an API key")
    if old.auth.admin_key != new.auth.admin_key:
        yield Effect("The admin key is another one: every operator has to sign in again", is_grave=True)
    if old.logging.store_prompts != new.logging.store_prompts:
        yield Effect(f"Of prompts is kept: {new.logging.store_prompts}, not {old.logging.store_prompts}")
    if old.logging.retention_days != new.logging.retention_days:
        yield Effect(f"Rows and traces are kept for {new.logging.retention_days} days")
