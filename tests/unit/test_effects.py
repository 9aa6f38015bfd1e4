"""What the configuration page says that a file would do."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from hermes import configfile
from hermes.policy import Policy
from hermes.web.dashboard.views.effects import effects

ENVIRON = {"KEY_A": "key-a-value", "KEY_B": "key-b-value", "ADMIN": "admin-value", "ADMIN_2": "other-admin-value"}
BASE: dict[str, Any] = {
    "auth": {"api_key_env": "ADMIN"},
    "models": {
        "simple": {
            "endpoints": [
                {"model": "small", "base_url": "http://one.example/v1", "api_key_env": "KEY_A"},
                {"model": "spare", "base_url": "http://two.example/v1", "api_key_env": ""},
            ]
        },
        "complex": {"endpoints": [{"model": "large", "base_url": "http://one.example/v1", "api_key_env": "KEY_A"}]},
    },
    "gateway": {"roles": {"chat": "simple", "reasoning": "complex", "draft": "simple"}},
    "routing": {"override_keywords": {"complex": ["deploy"], "simple": ["lol"]}},
}

Change = Callable[[dict[str, Any]], None]


def policy(change: Change | None = None) -> Policy:
    document = copy.deepcopy(BASE)
    if change is not None:
        change(document)
    return configfile.parse(json.dumps(document), "file", ENVIRON)


def simple(document: dict[str, Any]) -> list[dict[str, Any]]:
    endpoints: list[dict[str, Any]] = document["models"]["simple"]["endpoints"]
    return endpoints


CHANGES = [
    pytest.param(lambda d: None, [], id="nothing"),
    pytest.param(
        lambda d: simple(d).insert(0, simple(d).pop(1)),
        ["The simple tier asks spare at two.example/v1 first, and no longer small at one.example/v1"],
        id="another first one",
    ),
    pytest.param(
        lambda d: simple(d).append({"model": "new", "base_url": "http://new.example/v1", "api_key_env": ""}),
        [
            "The simple tier gets new at new.example/v1 as a fallback",
            "The simple tier gives a request 6 min, not 4 min",
        ],
        id="one more",
    ),
    pytest.param(
        lambda d: simple(d)[1].update(price={"input_per_mtok": 0.05, "output_per_mtok": 2}),
        ["spare costs $0.0500 in and $2.00 out a million tokens, not what the price library says"],
        id="a price",
    ),
    pytest.param(
        lambda d: simple(d)[0].update(api_key_env="KEY_B"),
        ["small is asked with other provider keys, 1 of them"],
        id="another key",
    ),
    pytest.param(
        lambda d: d.update(limits={"per_key": {"concurrent": 3}}),
        ["Each API key may ask for 3 requests at once, not any number of requests at once"],
        id="a limit",
    ),
    pytest.param(
        lambda d: d["gateway"]["roles"].pop("draft"),
        ["!The role draft is gone: requests for it are refused"],
        id="a role less",
    ),
    pytest.param(
        lambda d: d["routing"].update(override_keywords={"complex": ["deploy", "prove"], "simple": []}),
        ["“lol” no longer decide for the simple tier", "“prove” now decide for the complex tier"],
        id="keywords",
    ),
    pytest.param(
        lambda d: d["auth"].update(require_client_key=True, api_key_env="ADMIN_2"),
        [
            "!The router answers 401 to callers without an API key",
            "!The admin key is another one: every operator has to sign in again",
        ],
        id="who may call",
    ),
    pytest.param(
        lambda d: d.update(classifier={"surrogate": {"confidence_threshold": 0.8}}),
        ["The surrogate decides from a confidence of: 0.8, not the fitted one"],
        id="the surrogate",
    ),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_each_change_is_a_sentence(change: Change, expected: list[str]) -> None:
    found = [f"{'!' if effect.is_grave else ''}{effect.text}" for effect in effects(policy(), policy(change), {})]

    assert found == expected


def test_a_pin_whose_model_would_be_gone_is_told() -> None:
    (lost, _, pin) = effects(policy(), policy(lambda d: simple(d).pop(1)), {"model.chat": "spare"})

    assert lost.text == "The simple tier loses spare at two.example/v1"
    assert pin.is_grave
    assert pin.text.startswith("The pin model.chat names a model that is gone. No configured endpoint has the model")


def test_no_sentence_holds_a_secret() -> None:
    def change(document: dict[str, Any]) -> None:
        simple(document)[0].update(api_key_env="KEY_B", headers={"x-a": "canary-header"})

    told = " ".join(effect.text for effect in effects(policy(), policy(change), {}))

    assert "other headers" in told
    assert "canary" not in told
    assert "value" not in told
