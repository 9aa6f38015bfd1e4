"""The configuration is replaced again and again while callers ask, by good files and bad ones: nobody notices."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from . import replies
from .gateway import Gateway, new_user
from .load import Load
from .world import World

ROUNDS = 8
COSTS = {"cheap": Decimal("0.000025"), "dear": Decimal("0.00025")}
"""Of 11 and 7 tokens, by the prices below."""


def half(gateway: Gateway, text: str) -> None:
    """Another program is amid writing the file."""
    (gateway.folder / "router_config.yaml").write_text(text[: len(text) // 2], encoding="utf-8")


def gone(gateway: Gateway, text: str) -> None:
    (gateway.folder / "router_config.yaml").unlink()


def misspelt(gateway: Gateway, text: str) -> None:
    gateway.write_config({**json.loads(text), "retrys": {}})


def priceless(gateway: Gateway, text: str) -> None:
    """Good up to the last thing that is read of it."""
    config = json.loads(text)
    config["models"]["complex"]["endpoints"][-1]["price"] = {"input_per_mtok": "much"}
    gateway.write_config(config)


BAD: list[Callable[[Gateway, str], None]] = [half, gone, misspelt, priceless]


@pytest.mark.parametrize("streams", [False, True], ids=["plain", "streams"])
def test_no_request_fails_and_each_has_one_configuration(world: World, streams: bool) -> None:
    """A row's model and its price are of the same file: there is no time at which half of another one is in force."""
    gateway, user = world.gateway, new_user()
    configs = {"cheap": config(world, "cheap", 1.0), "dear": config(world, "dear", 10.0)}
    world.configure(**configs["cheap"])
    files = {name: json.dumps(world.config(**sections)) for name, sections in configs.items()}
    world.primary.script(replies.stream("a", "b", every_s=0.005).only(has="stream"), replies.chat())

    with Load(lambda _: gateway.chat(user=user, stream=streams)) as load:
        for number in range(ROUNDS):
            in_force = ("dear", "cheap")[number % 2]
            assert gateway.reload(files[in_force]).status == 200
            load.goes_on(6)
            assert asked_for(gateway) == in_force
            BAD[number % len(BAD)](gateway, files["cheap" if in_force == "dear" else "dear"])
            refused = gateway.admin("POST", "/reload")
            assert (refused.status, refused.error["code"]) == (400, "invalid_configuration")
            load.goes_on(6)
            assert asked_for(gateway) == in_force

    assert load.faults == []
    assert {(got.status, got.problem) for got in load.answers} == {(200, None)}
    rows = gateway.usage(len(load.answers), user_id=user, limit=1000)
    assert len(rows) == len(load.answers)
    priced = {(row["model"], Decimal(str(row["estimated_cost_usd"]))) for row in rows}
    assert priced == set(COSTS.items())


def config(world: World, name: str, price: float) -> dict[str, Any]:
    entry = world.endpoint(world.primary, price={"input_per_mtok": price, "output_per_mtok": 2 * price})
    return {"simple": [{**entry, "model": name}]}


def asked_for(gateway: Gateway) -> str:
    """The model of a request that begins now."""
    return gateway.chat().headers["x-hermes-model"]
