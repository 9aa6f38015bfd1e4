"""Which rules are for a request, and what they say together."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.admission.residency import Ruling, Subject, rule_on, search_for
from hermes.errors import ResidencyBlocked
from hermes.policy import ResidencyPolicy, ResidencyRule
from hermes.types import Endpoint, Place

EU = Place(frozenset({"eu"}), rule=1)


def endpoint(region: str | None, model: str = "m") -> Endpoint:
    return Endpoint(f"{model}@host", model, "http://host", "http://host", region=region)


def ruled(*rules: ResidencyRule, found: dict[str, int] | None = None, **subject: Any) -> Ruling:
    asked = Subject(**subject)
    return rule_on(search_for(ResidencyPolicy(rules=rules), asked), asked, found or {})


def rule(number: int = 1, **parts: Any) -> ResidencyRule:
    words = {
        name: frozenset({value}) if isinstance(value, str) and name not in ("action", "name") else value
        for name, value in parts.items()
    }
    return ResidencyRule(number, **words)


@pytest.mark.parametrize(
    ("parts", "subject", "is_for_it"),
    [
        pytest.param({}, {}, True, id="no condition: every request"),
        pytest.param({"use_cases": "payroll"}, {"use_case": "payroll"}, True, id="use case"),
        pytest.param({"use_cases": "payroll"}, {"use_case": "Payroll"}, True, id="without regard to case"),
        pytest.param({"use_cases": "payroll"}, {}, False, id="no use case"),
        pytest.param({"functions": "scan"}, {"function_name": "scan"}, True, id="function"),
        pytest.param({"functions": "scan"}, {"function_name": "scanner"}, False, id="another function"),
        pytest.param(
            {"data_classes": "customer"}, {"data_classes": ("public", "CUSTOMER")}, True, id="one of its classes"
        ),
        pytest.param(
            {"use_cases": "payroll", "data_classes": "customer"}, {"use_case": "payroll"}, False, id="all must hold"
        ),
    ],
)
def test_a_rule_is_for_a_request_where_all_its_conditions_hold(
    parts: dict[str, Any], subject: dict[str, Any], is_for_it: bool
) -> None:
    ruling = ruled(rule(place=EU, **parts), **subject)

    assert bool(ruling.rules) is is_for_it
    assert ruling.allowance.permits(endpoint("us")) is not is_for_it


def test_an_endpoint_without_a_region_is_in_none() -> None:
    assert not ruled(rule(place=EU)).allowance.permits(endpoint(None))


def test_a_place_may_be_an_endpoint_by_its_id_or_its_model() -> None:
    place = Place(endpoints=frozenset({"own", "b@host"}), rule=1)

    allowance = ruled(rule(place=place)).allowance

    assert [allowance.permits(endpoint(None, model)) for model in ("own", "b", "c")] == [True, True, False]


def test_where_two_rules_name_places_only_what_both_hold_is_allowed() -> None:
    both = ruled(rule(place=EU), rule(2, place=Place(frozenset({"eu", "ch"}), rule=2))).allowance

    assert [both.permits(endpoint(region)) for region in ("eu", "ch", "us")] == [True, False, False]


def test_an_empty_list_of_regions_allows_nobody() -> None:
    assert not ruled(rule(place=Place(rule=1))).allowance.permits(endpoint("eu"))


def test_texts_are_kept_only_where_every_rule_lets_them_be() -> None:
    assert ruled(rule()).allowance.stores_text
    assert not ruled(rule(), rule(2, stores_text=False)).allowance.stores_text


def test_texts_are_looked_through_only_for_what_a_rule_wants_to_know() -> None:
    policy = ResidencyPolicy(
        detect=("email", "iban"),
        rules=(
            rule(use_cases="payroll", detected="iban"),
            rule(2, detected=frozenset({"email", "phone"}), action="redact"),
            rule(3, data_classes="customer", action="redact"),
        ),
    )

    assert search_for(ResidencyPolicy(rules=(rule(place=EU),)), Subject()).kinds == frozenset()
    plain = search_for(policy, Subject())
    assert (plain.kinds, plain.masks) == ({"email"}, {"email"})
    assert search_for(policy, Subject(use_case="payroll")).kinds == {"email", "iban"}
    assert search_for(policy, Subject(data_classes=("customer",))).masks == {"email", "iban"}


def test_a_rule_for_what_is_detected_is_for_requests_that_hold_it() -> None:
    ibans_stay = rule(detected="iban", place=EU)

    assert ruled(ibans_stay, found={"email": 1}).rules == ()
    assert not ruled(ibans_stay, found={"iban": 2}).allowance.permits(endpoint("us"))


def test_a_rule_that_blocks_says_which_it_is_and_why() -> None:
    ruling = ruled(rule(detected="iban", action="block", name="no accounts"), found={"iban": 1})

    with pytest.raises(ResidencyBlocked, match=r"rule 1 \(no accounts\) blocks this request: it holds iban") as blocked:
        ruling.check()
    assert (blocked.value.status, blocked.value.code, blocked.value.should_retry) == (403, "residency_blocked", False)


def test_the_proof_names_rules_places_and_counts() -> None:
    redact = rule(2, detected="email", action="redact", stores_text=False)

    proof = ruled(
        rule(data_classes="customer", place=EU), redact, found={"email": 3}, data_classes=("customer",)
    ).proof()

    assert proof["data_classes"] == ["customer"]
    assert (proof["found"], proof["masked"], proof["stores_text"]) == ({"email": 3}, {"email": 3}, False)
    assert [(one["rule"], one["action"], one["regions"], one["why"]) for one in proof["rules"]] == [
        (1, "allow", ["eu"], "data class customer"),
        (2, "redact", None, "detected email"),
    ]
