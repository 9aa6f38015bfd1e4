"""Whom a pin means."""

from __future__ import annotations

import pytest

from hermes.policy import Policy
from hermes.types import Allowance, Cascade, Endpoint, Place
from hermes.upstream.catalog import pinned

HERE = Endpoint("small@us.example/v1", "small", "https://us.example/v1", "us.example/v1", region="us")
THERE = Endpoint("large@eu.example/v1", "large", "https://eu.example/v1", "eu.example/v1", region="eu")
POLICY = Policy(cascades={"simple": Cascade("simple", (HERE,), 60.0), "complex": Cascade("complex", (THERE,), 60.0)})


@pytest.mark.parametrize(
    ("pin", "first"),
    [(None, HERE), ("small", HERE), (HERE.id, HERE), ("large", THERE), (THERE.id, THERE)],
)
def test_a_pin_means_an_endpoint_by_model_or_id(pin: str | None, first: Endpoint) -> None:
    assert pinned(POLICY, "simple", pin).endpoints[0] == first


def test_any_other_name_is_a_model_at_the_primary_and_what_is_known_of_the_primarys_is_not_taken_for_it() -> None:
    first, *others = pinned(POLICY, "simple", "new").endpoints

    assert (first.id, first.model, first.base_url, first.region) == ("new@us.example/v1", "new", HERE.base_url, "us")
    assert others == [HERE]


def test_a_pin_by_an_id_that_a_rule_allows_is_no_way_round_it() -> None:
    allowance = Allowance((Place(endpoints=frozenset({THERE.id}), rule=1),))

    permitted = [e for e in pinned(POLICY, "simple", THERE.id).endpoints if allowance.permits(e)]

    assert [e.base_url for e in permitted] == [THERE.base_url]
