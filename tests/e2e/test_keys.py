"""Provider keys take turns: a limited key rests, the next one is asked at once, and the breaker hears nothing of it."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from . import replies
from .gateway import eventually
from .replies import answer, error
from .world import KEYS, World

QUOTA = {
    "error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
}


def with_keys(world: World, number: int) -> list[str]:
    """Gives the primary so many fresh keys; their values."""
    first = world.endpoint(world.primary, keys=number)
    world.configure(simple=[first, world.endpoint(world.fallback)])
    return [KEYS[name] for name in first["api_key_envs"]]


def keys_asked(world: World) -> list[str]:
    return [call.key for call in world.primary.calls]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_429_turns_to_the_next_key_at_once(world: World, stream: bool) -> None:
    a, b = with_keys(world, 2)
    world.primary.script(error(429).only(key=a), (replies.stream if stream else replies.chat)("of b"))

    got = world.gateway.chat(stream=stream)

    assert (got.text, got.headers["x-hermes-fallback-level"]) == ("of b", "0")
    assert keys_asked(world) == [a, b]
    assert world.primary.calls[1].at - world.primary.calls[0].at < 0.3
    assert world.gateway.circuits()["primary-model"]["failures"] == 0
    (rotation,) = world.gateway.traces(event="key_rotation", request_id=got.request_id)
    assert rotation["tier"] == "simple"
    assert world.gateway.row(got)["attempts"] == 2


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(None, id="none"),
        pytest.param("30", id="seconds"),
        pytest.param("in 30 s", id="a date"),
        pytest.param("a while", id="garbage"),
        pytest.param("-5", id="negative"),
        pytest.param("99999999999", id="longer than a life"),
        pytest.param("Thu, 01 Jan 1970 00:00:00 GMT", id="a date in the past"),
    ],
)
def test_a_limited_key_rests(world: World, wait: str | None) -> None:
    a, b = with_keys(world, 2)
    headers = {} if wait is None else {"Retry-After": wait}
    if wait == "in 30 s":
        headers = {"Retry-After": formatdate(time.time() + 30, usegmt=True)}
    world.primary.script(error(429, headers=headers).only(key=a), replies.chat())

    assert [world.gateway.chat().status for _ in range(3)] == [200] * 3

    assert keys_asked(world) == [a, b, b, b]


def test_a_key_comes_back_when_its_rest_is_over(world: World) -> None:
    a, b = with_keys(world, 2)
    world.primary.script(error(429, headers={"Retry-After": "1"}).only(key=a).but(times=1), replies.chat())
    world.gateway.chat()
    limited_at = world.primary.calls[0].at

    eventually(lambda: (world.gateway.chat(), keys_asked(world))[1], lambda asked: asked[-1] == a, within_s=3)

    assert 1 <= world.primary.calls[-1].at - limited_at < 2
    assert set(keys_asked(world)[1:-1]) == {b}


def test_an_exhausted_account_rests_longer_than_it_asks_for(world: World) -> None:
    a, b = with_keys(world, 2)
    world.primary.script(answer(429, QUOTA, headers={"Retry-After": "0"}).only(key=a), replies.chat())

    assert [world.gateway.chat().status for _ in range(2)] == [200, 200]

    assert keys_asked(world) == [a, b, b]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_when_every_key_is_limited_each_is_asked_once_and_then_the_fallback(world: World, stream: bool) -> None:
    keys = with_keys(world, 3)
    world.primary.script(error(429, headers={"Retry-After": "20"}))
    world.fallback.script((replies.stream if stream else replies.chat)("from fallback"))

    first, second = (world.gateway.chat(stream=stream) for _ in range(2))

    assert (first.text, second.text) == ("from fallback", "from fallback")
    assert keys_asked(world) == keys, "the second request asks no resting key"


def test_when_all_keys_rest_and_nothing_is_left_the_caller_learns_when_to_come_back(world: World) -> None:
    world.lone.script(error(429, headers={"Retry-After": "20"}))

    first, second = (world.gateway.chat(tier="complex") for _ in range(2))

    assert first.status == 502
    assert second.status in (502, 503)
    assert first.error["attempts"][0]["status"] == 429
    assert [1 <= int(got.headers["retry-after"]) <= 20 for got in (first, second)] == [True, True]
    assert len(world.lone.calls) == 1


@pytest.mark.parametrize("keys", [0, 1], ids=["without a key", "with the same key"])
def test_another_model_of_the_same_provider_is_still_asked(world: World, keys: int) -> None:
    """Providers limit models one by one; the usual fallback is a cheaper model of the same house."""
    first = world.endpoint(world.primary, keys=keys, model="large")
    world.configure(simple=[first, {**first, "model": "small"}])
    world.primary.script(error(429).only(model="large"), replies.chat("of the small one"))

    answers = [world.gateway.chat() for _ in range(2)]

    assert [got.status for got in answers] == [200, 200]
    assert [call.json["model"] for call in world.primary.calls] == ["large", "small", "small"]
