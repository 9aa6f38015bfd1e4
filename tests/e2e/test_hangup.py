"""When a caller leaves, the provider is let go within a second, nothing more is tried, and what was used is on file."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from . import replies
from .client import Exchange
from .gateway import eventually, new_user
from .provider import Provider
from .replies import Reply, chunk, drip, error, in_pieces, then_silence
from .world import World

WITHIN_S = 1.0
How = Literal["fin", "rst"]
HOW = pytest.mark.parametrize("how", ["fin", "rst"])
TALKING = replies.endless_stream("tok ")


def leave(world: World, exchange: Exchange, provider: Provider, how: How) -> float:
    """Leaves once the provider is at work; how long the provider then had to wait for its release, in seconds."""
    eventually(lambda: provider.calls_under_way, bool)
    left_at = exchange.vanish(how)
    call = provider.calls[0]
    eventually(lambda: call.ended_at, bool)
    assert call.ended_by == "caller"
    assert call.ended_at is not None
    return call.ended_at - left_at


def only_row(world: World, user: str) -> dict[str, Any]:
    """The user's one row, also after all that might still come."""
    world.gateway.usage(user_id=user)
    time.sleep(0.1)
    (row,) = world.gateway.usage(user_id=user)
    return row


def test_while_the_request_is_looked_through_for_personal_data(world: World) -> None:
    rule = {"match": {"detected": ["email", "phone"]}, "action": "redact"}
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=60)], residency={"rules": [rule]})
    text = "".join(f"user{number}@example.com +49 30 {900_000 + number} " for number in range(150_000))
    user = new_user()
    exchange = world.gateway.open_chat(text, user=user)
    time.sleep(0.5)

    exchange.vanish("fin")
    left_at = time.monotonic()
    assert world.gateway.usage(user_id=user)
    assert time.monotonic() - left_at < 5 * WITHIN_S  # rows come to the database in batches
    assert only_row(world, user)["status"] == "client_disconnected"
    assert world.primary.calls == []


@HOW
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(replies.silence(), id="before its head"),
        pytest.param(drip(replies.wire(replies.chat())), id="while its head drips"),
        pytest.param(then_silence(in_pieces([(0, b"{")], whole=False)), id="within its body"),
        pytest.param(then_silence(in_pieces([(0, b"<p>")], 500, whole=False)), id="within its error page"),
    ],
)
def test_before_the_first_byte(world: World, reply: Reply, stream: bool, how: How) -> None:
    slow = world.endpoint(world.primary, timeout_seconds=30)
    world.configure(simple=[slow, world.endpoint(world.fallback)])
    world.primary.script(reply)
    user = new_user()

    waited_s = leave(world, world.gateway.open_chat(user=user, stream=stream), world.primary, how)

    assert waited_s < WITHIN_S
    row = only_row(world, user)
    assert (row["status"], row["attempts"]) == ("client_disconnected", 1)
    assert row["prompt_tokens"] >= 1
    assert row["usage_estimated"] in (True, 1)
    assert world.calls() == ["primary"]
    assert world.gateway.circuits()["primary-model"]["failures"] == 0


@HOW
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(TALKING, id="a talking stream"),
        pytest.param(then_silence(replies.broken_stream("lorem ipsum dolor " * 20, end="keep")), id="a silent stream"),
    ],
)
def test_in_mid_stream(world: World, reply: Reply, how: How) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(reply)
    user = new_user()
    exchange = world.gateway.open_chat(user=user, stream=True)
    exchange.read_until(b"lorem" if reply is not TALKING else b"tok")

    waited_s = leave(world, exchange, world.primary, how)

    assert waited_s < WITHIN_S
    row = only_row(world, user)
    assert (row["status"], row["attempts"]) == ("client_disconnected", 1)
    assert row["usage_estimated"] in (True, 1)
    assert row["prompt_tokens"] >= 1
    assert row["completion_tokens"] >= (1 if reply is TALKING else 30)
    assert float(row["estimated_cost_usd"]) > 0
    assert world.gateway.circuits()["primary-model"]["failures"] == 0


@HOW
def test_while_the_teacher_is_asked(world: World, how: How) -> None:
    teacher = {"model": "t", "base_url": world.teacher.base_url, "api_key_env": "", "timeout_seconds": 20}
    world.configure(classifier={**teacher, "surrogate": {"enabled": False}})
    world.teacher.script(replies.silence())
    user = new_user()

    waited_s = leave(world, world.gateway.open_chat("ponder", tier=None, user=user), world.teacher, how)

    assert waited_s < WITHIN_S
    row = only_row(world, user)
    assert (row["status"], row["attempts"]) == ("client_disconnected", 0)
    assert world.calls() == ["teacher"]


@HOW
def test_during_the_pause_after_a_503(world: World, how: How) -> None:
    world.configure(
        retry={"backoff_503_sec": [0.7, 0.7]},
        simple=[world.endpoint(provider, timeout_seconds=30) for provider in (world.primary, world.fallback)],
    )
    world.primary.script(error(503))
    user = new_user()
    exchange = world.gateway.open_chat(user=user)
    eventually(lambda: world.primary.calls, bool)

    exchange.vanish(how)

    row = only_row(world, user)
    assert (row["status"], row["attempts"]) == ("client_disconnected", 1)
    eventually(lambda: len(world.calls()), lambda number: number > 1, within_s=0.9)
    assert world.calls() == ["primary"]


def test_when_the_provider_then_fails_the_fallback_is_not_asked_for_nobody(world: World) -> None:
    world.configure(simple=[world.endpoint(p, timeout_seconds=30) for p in (world.primary, world.fallback)])
    world.primary.script(error(500).but(pieces=[(0.5, replies.wire(error(500)))]))
    user = new_user()
    exchange = world.gateway.open_chat(user=user, stream=True)
    eventually(lambda: world.primary.calls, bool)

    exchange.vanish()

    assert only_row(world, user)["status"] == "client_disconnected"
    eventually(lambda: len(world.calls()), lambda number: number > 1, within_s=0.7)
    assert world.calls() == ["primary"]


def test_a_caller_who_leaves_just_before_the_usage_chunk_has_not_read_for_nothing(world: World) -> None:
    words = [(0.0, chunk({"content": "lorem ipsum dolor "})) for _ in range(25)]
    late = (4.0, replies.usage_chunk() + replies.DONE)
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(in_pieces([*words, late], headers=replies.EVENT_STREAM))
    user = new_user()
    exchange = world.gateway.open_chat(user=user, stream=True)
    exchange.read_until(b"lorem")

    leave(world, exchange, world.primary, "fin")

    row = only_row(world, user)
    assert row["completion_tokens"] >= 30
    assert float(row["estimated_cost_usd"]) > 0


def test_fifty_streams_that_are_left_leave_nothing_open(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(TALKING.only(has="stream"), replies.chat())
    user = new_user()

    def come_and_go(number: int) -> None:
        with world.gateway.open_chat(user=user, stream=True) as exchange:
            exchange.read_until(b"tok")
            exchange.vanish("rst" if number % 2 else "fin")

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(come_and_go, range(50)))

    assert eventually(lambda: world.primary.calls_under_way, lambda number: number == 0) == 0
    assert world.primary.open_connections <= 3
    rows = world.gateway.usage(wanted=50, user_id=user, limit=1000)
    assert [row["status"] for row in rows] == ["client_disconnected"] * 50
    after = world.gateway.chat()
    assert (after.status, after.took_s < 1) == (200, True)
