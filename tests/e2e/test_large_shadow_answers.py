"""Whatever a target or a judge answers, and however much of it, callers hardly notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from . import replies
from .gateway import eventually
from .replies import EVENT_STREAM, Reply
from .test_large_bodies import WORST_GAP_S, ticking
from .test_shadow import TARGET, ask, key_of, pin
from .world import World

MB = 1024 * 1024
LARGE = 12 * MB
JUST_COMPARED = MB - 2000
"""Longer answers are not compared."""

TREATED_WITHIN_S = 30.0
TRIES = 4


def whole(content: bytes) -> Reply:
    """A completion with this as its content, as JSON."""
    return replies.answer(
        200, b'{"choices":[{"index":0,"message":{"role":"assistant","content":%b},"finish_reason":"stop"}]}' % content
    )


def lists(size: int) -> bytes:
    return b"[" + b"[]," * (size // 3) + b"[]]"


def calling(arguments: bytes) -> Reply:
    """A completion that calls a tool."""
    call = b'{"id":"1","type":"function","function":{"name":"f","arguments":"%b"}}' % arguments
    message = b'{"role":"assistant","content":null,"tool_calls":[%b]}' % call
    return replies.answer(200, b'{"choices":[{"index":0,"message":%b,"finish_reason":"tool_calls"}]}' % message)


def events(event: bytes, size: int) -> Reply:
    many = (event + b"\n\n") * (size // (len(event) + 2))
    end = replies.chunk({}, "stop") + replies.DONE
    return replies.in_pieces([(0.0, replies.chunk({"content": "a"}) + many + end)], headers=EVENT_STREAM)


def event_of(content: bytes) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":%b}}]}' % content


SAID: list[tuple[str, bool, Callable[[], Reply]]] = [
    ("12 MB of text", False, lambda: whole(b'"%b"' % (b"word " * (LARGE // 5)))),
    ("12 MB of lists", False, lambda: whole(lists(LARGE))),
    ("12 MB of events", True, lambda: events(event_of(b'"a"'), LARGE)),
    ("a megabyte of lists", False, lambda: whole(lists(JUST_COMPARED))),
    ("a call with a megabyte", False, lambda: calling(lists(JUST_COMPARED))),
]


@pytest.fixture
def shadowed(world: World) -> Iterator[World]:
    """A world in which each call of chat is compared with the lone model; the teacher's provider judges."""
    judge = {"model": "judge-model", "base_url": world.teacher.base_url, "api_key_env": ""}
    lone = world.endpoint(world.lone, timeout_seconds=20)
    world.configure(complex=[lone], shadow={"judge": judge, "daily_usd": 1000}, logging={"store_prompts": "full"})
    pin(world, "model.chat.target", TARGET)
    pin(world, "model.chat.target.sample_rate", "1")
    yield world
    for name in ("model.chat.target", "model.chat.target.sample_rate"):
        world.gateway.admin("DELETE", f"/admin/pins/{name}")


def worst_gap_s(world: World, *, stream: bool, calls: Callable[[], int]) -> float:
    """The longest that /health took while a sample was treated: of a few samples the least, since what holds up the
    event loop does so each time, and other work on this machine does not.
    """
    key = key_of(world)
    worst = []
    for _ in range(TRIES):
        before = calls()

        def is_done(before: int = before) -> bool:
            """Asks until a sample was taken; a busy machine drops some before they are asked for."""
            if calls() == before:
                ask(world, key, stream=stream)
            has_begun = calls() > before
            return has_begun and world.gateway.admin("GET", "/admin/shadow").json["queue"]["depth"] == 0

        with ticking(world) as gaps:
            assert eventually(is_done, bool, TREATED_WITHIN_S)
        worst.append(max(gaps))
        if worst[-1] <= WORST_GAP_S:
            break
    return min(worst)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("stream", "make"), [pytest.param(stream, make, id=name) for name, stream, make in SAID])
def test_a_large_answer_of_a_target_holds_up_nobody(shadowed: World, stream: bool, make: Callable[[], Reply]) -> None:
    shadowed.primary.script(replies.stream("a word") if stream else replies.chat("a word"))
    shadowed.lone.script(make())
    shadowed.teacher.script(replies.chat("no verdict"))

    assert worst_gap_s(shadowed, stream=stream, calls=lambda: len(shadowed.lone.calls)) <= WORST_GAP_S


@pytest.mark.timeout(120)
def test_a_large_reply_of_a_judge_holds_up_nobody(shadowed: World) -> None:
    shadowed.lone.script(replies.chat("another word"))
    shadowed.teacher.script(replies.chat(lists(JUST_COMPARED).decode()))

    assert worst_gap_s(shadowed, stream=False, calls=lambda: len(shadowed.teacher.calls)) <= WORST_GAP_S
