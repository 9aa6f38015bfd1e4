"""The matrix says of imagined requests what the rules say of real ones."""

from __future__ import annotations

from typing import Any

from hermes.policy import Policy, ResidencyPolicy, ResidencyRule
from hermes.storage.residency import Hit, Sum
from hermes.types import Cascade, Endpoint, Place
from hermes.web.dashboard.views.residency import ResidencyView, residency_view


def endpoint(model: str, region: str | None) -> Endpoint:
    return Endpoint(f"{model}@host", model, "http://host", "http://host", region=region)


ENDPOINTS = (endpoint("far", "us"), endpoint("own", "eu"), endpoint("lost", None))
EU = Place(frozenset({"eu"}), rule=1)


def shown(*rules: ResidencyRule, sums: Any = (), hits: Any = (), detect: Any = None) -> ResidencyView:
    residency = ResidencyPolicy(rules=rules) if detect is None else ResidencyPolicy(detect, rules)
    policy = Policy({"simple": Cascade("simple", ENDPOINTS, 1.0)}, residency=residency)
    return residency_view(policy, "24h", dict(sums), hits, 1000.0, lambda _: 990.0)


def matrix(view: ResidencyView) -> dict[str, dict[str, str]]:
    names = [column.name for column in view.columns]
    return {line.name: dict(zip(names, line.cells, strict=True)) for line in view.lines}


def test_endpoints_of_a_region_stand_together_and_those_without_one_last() -> None:
    view = shown(ResidencyRule(1))

    assert [(one.name, one.sub, one.begins_region) for one in view.columns] == [
        ("own", "eu", False),
        ("far", "us", True),
        ("lost", "no region", True),
    ]


def test_each_attribute_that_a_rule_asks_for_has_a_line() -> None:
    view = shown(
        ResidencyRule(1, data_classes=frozenset({"customer"}), place=EU),
        ResidencyRule(2, detected=frozenset({"email"}), action="redact"),
        ResidencyRule(3, detected=frozenset({"iban"}), action="block"),
        ResidencyRule(4, "payroll", use_cases=frozenset({"payroll"}), functions=frozenset({"f"}), action="block"),
        sums={("class", "customer"): Sum(12, 12), ("found", "email"): Sum(3, 5)}.items(),
    )

    fine, masked, blocked = dict.fromkeys(("own", "far", "lost"), "ok"), "warn", "bad"
    assert matrix(view) == {
        "Any other request": fine,
        "customer": {"own": "ok", "far": "bad", "lost": "bad"},
        "payroll": fine,
        "f": fine,
        "E-mail address": dict.fromkeys(fine, masked),
        "IBAN": dict.fromkeys(fine, blocked),
        "payroll and f": dict.fromkeys(fine, blocked),
    }
    assert {line.name: line.requests for line in view.lines if line.requests is not None} == {
        "customer": 12,
        "E-mail address": 3,
        "IBAN": 0,
    }
    assert [(kind.name, kind.number) for kind in view.kinds] == [("E-mail address", 5)]


def test_rules_are_told_as_they_are_configured() -> None:
    (first, second) = shown(
        ResidencyRule(1, "customers", data_classes=frozenset({"customer"}), place=EU, stores_text=False),
        ResidencyRule(2, place=Place(rule=2)),
    ).rules

    assert (first.when, first.where, first.action, first.keeps) == ("data class customer", "eu", "allow", "not kept")
    assert (second.when, second.where) == ("every request", "nowhere")


def test_a_kind_that_nobody_looks_for_is_told() -> None:
    view = shown(ResidencyRule(1, detected=frozenset({"iban"}), action="block"), detect=("email",))

    assert view.never_found == ("IBAN",)
    assert matrix(view)["IBAN"] == dict.fromkeys(("own", "far", "lost"), "ok")


def test_what_was_sent_is_shown_as_it_was_sent() -> None:
    hits = [
        Hit("t", "req_1", "masked", {"email": 1}, "scan", "to [EMAIL_1]"),
        Hit("t", "req_2", "masked", {"email": 1, "iban": 2}, None, None),
        Hit("t", "req_3", "blocked", {}, None, None),
    ]

    told = shown(hits=hits).hits

    assert [(hit.found, hit.text, hit.mark) for hit in told] == [
        ("E-mail address", "to [EMAIL_1]", "warn"),
        ("E-mail address, IBAN", "not kept", "warn"),
        ("nothing personal", "not sent", "bad"),
    ]
