"""What an answer used is known, or estimated and marked; never nothing, and never the caller's trouble."""

from __future__ import annotations

from typing import Any

import pytest

from . import replies
from .replies import error, stream
from .world import World


def test_stream_options_that_are_refused_are_left_out_from_then_on(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, model="plain-old-server")])
    refusal = error(400, "Unrecognized request argument supplied: stream_options")
    world.primary.script(refusal.only(has="stream_options"), stream("ok", usage=None))

    answers = [world.gateway.chat(stream=True) for _ in range(2)]

    assert [got.text for got in answers] == ["ok", "ok"]
    assert ["stream_options" in call.json for call in world.primary.calls] == [True, False, False]
    assert world.gateway.row(answers[1])["usage_estimated"] in (True, 1)


@pytest.mark.parametrize("how", ["plain", "stream"])
def test_usage_that_the_provider_does_not_tell_is_estimated_and_marked(world: World, how: str) -> None:
    words = ["word "] * 400
    reply = stream(*words, usage=None) if how == "stream" else replies.chat("".join(words), usage=None)
    world.primary.script(reply)

    got = world.gateway.chat("write something", stream=how == "stream")

    row = world.gateway.row(got)
    assert row["usage_estimated"] in (True, 1)
    assert row["prompt_tokens"] >= 1
    assert 300 <= row["completion_tokens"] <= 900
    assert float(row["estimated_cost_usd"]) > 0


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream": None}], ids=["absent", "false", "null"])
def test_stream_options_are_never_added_where_nothing_is_streamed(world: World, fields: dict[str, Any]) -> None:
    assert world.gateway.chat(**fields).status == 200

    assert "stream_options" not in world.primary.calls[0].json


UNUSABLE = [
    {},
    [],
    "many",
    7,
    {"prompt_tokens": None, "completion_tokens": None},
    {"prompt_tokens": -5, "completion_tokens": 3},
    {"prompt_tokens": 10**30, "completion_tokens": 1},
    {"prompt_tokens": "eleven", "completion_tokens": "seven"},
]


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("usage", UNUSABLE, ids=str)
def test_usage_that_makes_no_sense_is_estimated_instead(world: World, usage: Any, streamed: bool) -> None:
    """Otherwise a provider's slip would make answers free."""
    words = "word " * 100
    world.primary.script(stream(words, usage=usage) if streamed else replies.chat(words, usage=usage))

    got = world.gateway.chat("write", stream=streamed)

    assert (got.status, got.text) == (200, words)
    row = world.gateway.row(got)
    assert (row["status"], bool(row["usage_estimated"])) == ("ok", True)
    assert row["prompt_tokens"] >= 1
    assert 75 <= row["completion_tokens"] <= 250
    assert row["total_tokens"] == row["prompt_tokens"] + row["completion_tokens"]


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_cached_and_reasoning_tokens_are_told_apart_and_priced(world: World, streamed: bool) -> None:
    price = {"input_per_mtok": 10, "output_per_mtok": 20, "cached_input_per_mtok": 1}
    world.configure(simple=[world.endpoint(world.primary, price=price)])
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    world.primary.script(stream("x", usage=usage) if streamed else replies.chat("x", usage=usage))

    row = world.gateway.row(world.gateway.chat(stream=streamed))

    assert (row["cached_tokens"], row["reasoning_tokens"], row["total_tokens"]) == (400, 30, 1100)
    assert float(row["estimated_cost_usd"]) == pytest.approx((600 * 10 + 400 * 1 + 100 * 20) / 1e6)


def test_running_totals_are_not_added_up(world: World) -> None:
    totals = [{"prompt_tokens": 23, "completion_tokens": n, "total_tokens": 23 + n} for n in (1, 2, 3)]
    events = [replies.chunk({"content": "x"}, usage=total) for total in totals]
    world.primary.script(replies.sse(b"".join(events) + replies.chunk({}, "stop", usage=None) + replies.DONE))

    row = world.gateway.row(world.gateway.chat(stream=True))

    assert (row["prompt_tokens"], row["completion_tokens"], row["total_tokens"]) == (23, 3, 26)


def test_what_nobody_knows_the_price_of_costs_unknown_and_not_nothing(world: World) -> None:
    world.configure(simple=[{**world.endpoint(world.primary, model="of-our-own-making"), "price": None}])

    got = world.gateway.chat()

    assert world.gateway.row(got)["estimated_cost_usd"] is None
    assert "x-hermes-cost-usd" not in got.headers or not got.headers["x-hermes-cost-usd"][:1].isdigit()
