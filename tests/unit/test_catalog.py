"""Whom a pin means."""

from __future__ import annotations

from hermes.policy import Policy
from hermes.types import Allowance, Cascade, Endpoint, Place
from hermes.upstream.catalog import pinned

HERE = Endpoint("small@us.example/v1", "small", "https://us.example/v1", "us.example/v1", region="us")
THERE = Endpoint("large@eu.example/v1", "large", "https://eu.example/v1", "eu.example/v1", region="eu")
POLICY = Policy(cascades={"simple": Cascade("simple", (HERE,), 60.0), "complex": Cascade("complex", (THERE,), 60.0)})


def test_a_pin_means_the_endpoint_of_its_model() -> None:
    assert [pinned(POLICY, "simple", pin).endpoints[0] for pin in (None, "small", "large")] == [HERE, HERE, THERE]


def test_any_other_name_is_a_model_at_the_primary_and_what_is_known_of_the_primarys_is_not_taken_for_it() -> None:
    first, *others = pinned(POLICY, "simple", "new").endpoints

    assert (first.id, first.model, first.base_url, first.region) == ("new@us.example/v1", "new", HERE.base_url, "us")
    assert others == [HERE]


def test_a_pin_of_the_id_that_a_rule_allows_is_no_way_round_it() -> None:
    allowed = frozenset({THERE.id})
    allowance = Allowance((Place(endpoints=allowed, ids=allowed, rule=1),))

    assert not any(map(allowance.permits, pinned(POLICY, "simple", THERE.id).endpoints))
    assert allowance.permits(THERE)
