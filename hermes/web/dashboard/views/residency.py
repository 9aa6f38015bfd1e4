"""Residency and PII: where each kind of request may go, what was found and masked, whether anything left its bounds.

The matrix is not drawn from the rules by hand: for every row a request is imagined that has just that attribute, and
the code that rules on real requests rules on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from hermes.admission.residency import Search, Subject, rule_on, search_for
from hermes.policy import Policy, ResidencyPolicy, ResidencyRule
from hermes.storage.residency import Hit, Sum
from hermes.types import Endpoint

RANGES: Final[Mapping[str, timedelta]] = {
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
USUAL: Final = "24h"

KIND_NAMES: Final[Mapping[str, str]] = {
    "email": "E-mail address",
    "phone": "Phone number",
    "iban": "IBAN",
    "credit_card": "Credit card",
    "national_id": "National id",
}
WORDS: Final[Mapping[str, str]] = {"ok": "allowed", "warn": "masked first", "bad": "blocked"}


@dataclass(frozen=True, slots=True)
class Column:
    """Who may be asked."""

    name: str
    sub: str
    begins_region: bool
    """Another region than the column before."""


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of request."""

    name: str
    sub: str
    cells: tuple[str, ...]
    """`ok`, `warn`, `bad` for each column."""

    requests: int | None


@dataclass(frozen=True, slots=True)
class Kind:
    """How much of one kind of personal data was found."""

    name: str
    number: int
    percent: float
    """Of the most frequent one."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit."""

    age_s: float
    at_s: float
    request_id: str
    function_name: str
    found: str
    text: str
    mark: str
    word: str


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A rule as it is configured."""

    number: int
    name: str
    when: str
    where: str
    action: str
    keeps: str


@dataclass(frozen=True, slots=True)
class ResidencyView:
    """All of the page."""

    range: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    rules: tuple[RuleLine, ...]
    kinds: tuple[Kind, ...]
    found: int
    hits: tuple[Shown, ...]
    never_found: tuple[str, ...]
    """Kinds that a rule wants to know of, and nobody looks for."""

    ruled: int
    blocked: int
    masked: int
    bound: int
    calls: int
    """That were made for bound requests, each checked."""

    outside: int


def residency_view(
    policy: Policy, range_: str, sums: Mapping[tuple[str, str], Sum], hits: Sequence[Hit], now_s: float, at_s: Any
) -> ResidencyView:
    """
    Args:
        sums: by subject and name, of the range.
        at_s: seconds since 1970 of a row's time.
    """
    endpoints = _endpoints(policy)
    rules = policy.residency.rules
    whole = {name: sums.get(("all", name), Sum()) for name in ("ruled", "blocked", "masked", "bound", "outside")}
    kinds = _kinds(sums)
    return ResidencyView(
        range_,
        _columns(endpoints),
        tuple(_line(policy.residency, one, endpoints, sums) for one in _imagined(policy.residency)) if rules else (),
        tuple(_rule_line(rule) for rule in rules),
        kinds,
        sum(kind.number for kind in kinds),
        tuple(_shown(hit, now_s, at_s(hit.created_at)) for hit in hits),
        _never_found(policy.residency),
        whole["ruled"].requests,
        whole["blocked"].requests,
        whole["masked"].requests,
        whole["bound"].requests,
        whole["bound"].items,
        whole["outside"].items,
    )


@dataclass(frozen=True, slots=True)
class Imagined:
    """A request that has one attribute, or those that one rule asks for."""

    name: str
    sub: str
    subject: Subject
    found: Mapping[str, int]
    counted: tuple[str, str] | None = None


def _imagined(policy: ResidencyPolicy) -> list[Imagined]:
    rows = [Imagined("Any other request", "no attribute that a rule asks for", Subject(), {})]
    for name in _words(policy, "data_classes"):
        rows.append(Imagined(name, "data class", Subject(data_classes=(name,)), {}, ("class", name)))
    for name in _words(policy, "use_cases"):
        rows.append(Imagined(name, "use case", Subject(use_case=name), {}))
    for name in _words(policy, "functions"):
        rows.append(Imagined(name, "function", Subject(function_name=name), {}))
    for name in _words(policy, "detected"):
        rows.append(Imagined(KIND_NAMES[name], "found in the text", Subject(), {name: 1}, ("found", name)))
    return [*rows, *(_of_rule(rule) for rule in policy.rules if _conditions(rule) > 1)]


def _of_rule(rule: ResidencyRule) -> Imagined:
    def first(words: frozenset[str] | None) -> str | None:
        return None if words is None else min(words)

    data_class, kind = first(rule.data_classes), first(rule.detected)
    subject = Subject(first(rule.use_cases), first(rule.functions), () if data_class is None else (data_class,))
    told = [word for word in (*subject.data_classes, subject.use_case, subject.function_name) if word]
    told += [KIND_NAMES[kind]] if kind is not None else []
    return Imagined(" and ".join(told), f"all of {rule.called}", subject, {kind: 1} if kind is not None else {})


def _conditions(rule: ResidencyRule) -> int:
    return sum(words is not None for words in (rule.use_cases, rule.functions, rule.data_classes, rule.detected))


def _words(policy: ResidencyPolicy, name: str) -> list[str]:
    return sorted({word for rule in policy.rules for word in getattr(rule, name) or ()})


def _line(
    policy: ResidencyPolicy, one: Imagined, endpoints: Sequence[Endpoint], sums: Mapping[tuple[str, str], Sum]
) -> Line:
    search: Search = search_for(policy, one.subject)
    ruling = rule_on(search, one.subject, {kind: 1 for kind in one.found if kind in search.kinds})
    fine = "warn" if any(rule.action == "redact" for rule in ruling.rules) else "ok"
    is_blocked = ruling.blocked_by is not None
    cells = ("bad" if is_blocked or not ruling.allowance.permits(endpoint) else fine for endpoint in endpoints)
    requests = None if one.counted is None else sums.get(one.counted, Sum()).requests
    return Line(one.name, one.sub, tuple(cells), requests)


def _endpoints(policy: Policy) -> list[Endpoint]:
    """All who may be asked, one region beside the other; those without one last."""
    teacher = policy.routing.teacher
    beside = [endpoint for endpoint in (teacher.endpoint if teacher else None, policy.embedder) if endpoint is not None]
    known = {endpoint.id: endpoint for endpoint in (*policy.endpoints().values(), *beside)}
    return sorted(known.values(), key=lambda endpoint: (endpoint.region is None, endpoint.region or ""))


def _columns(endpoints: Sequence[Endpoint]) -> tuple[Column, ...]:
    before = [endpoints[0].region if endpoints else None, *(endpoint.region for endpoint in endpoints)]
    return tuple(
        Column(endpoint.model, endpoint.region or "no region", endpoint.region != before[number])
        for number, endpoint in enumerate(endpoints)
    )


def _rule_line(rule: ResidencyRule) -> RuleLine:
    shown = rule.shown()
    where = [*(shown["regions"] or ()), *(shown["endpoints"] or ())]
    return RuleLine(
        rule.number,
        rule.name,
        shown["why"],
        "anywhere" if rule.place is None else ", ".join(where) or "nowhere",
        rule.action,
        "kept" if rule.stores_text else "not kept",
    )


def _kinds(sums: Mapping[tuple[str, str], Sum]) -> tuple[Kind, ...]:
    found = {name: one.items for (subject, name), one in sums.items() if subject == "found"}
    most = max(found.values(), default=0)
    listed = sorted(found.items(), key=lambda item: -item[1])
    return tuple(Kind(KIND_NAMES.get(name, name), number, number / most * 100) for name, number in listed if number)


def _shown(hit: Hit, now_s: float, at_s: float) -> Shown:
    is_blocked = hit.action == "blocked"
    found = ", ".join(KIND_NAMES.get(name, name) for name in hit.found)
    return Shown(
        max(0.0, now_s - at_s),
        at_s,
        hit.request_id,
        hit.function_name or "",
        found or "nothing personal",
        "not sent" if is_blocked else hit.preview or "not kept",
        "bad" if is_blocked else "warn",
        hit.action,
    )


def _never_found(policy: ResidencyPolicy) -> tuple[str, ...]:
    wanted = {kind for rule in policy.rules for kind in rule.detected or ()}
    return tuple(sorted(KIND_NAMES[kind] for kind in wanted - set(policy.detect)))
