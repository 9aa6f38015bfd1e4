"""Whatever becomes of the teacher, the caller is answered, and not much later."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from . import replies
from .replies import Reply, drip, error, raw, silence
from .world import World

TEACHER_S = 1.0


@pytest.fixture
def taught(world: World) -> World:
    """A world whose gateway asks the teacher; it is fresh, so that no earlier failure has put the teacher to rest."""
    teacher = {"model": "teacher-model", "base_url": world.teacher.base_url, "api_key_env": ""}
    world.configure(classifier={**teacher, "timeout_seconds": TEACHER_S, "surrogate": {"enabled": False}})
    return world


def test_the_teacher_decides(taught: World) -> None:
    taught.teacher.script(replies.chat("complex"))

    answer = taught.gateway.chat("a question that no keyword knows", tier=None)

    assert answer.headers["x-hermes-tier"] == "complex"
    assert answer.headers["x-hermes-decision"] == "teacher"


def test_identical_texts_in_flight_share_one_call(taught: World) -> None:
    taught.teacher.script(replies.chat("complex", after_s=0.2))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: taught.gateway.chat("the same question", tier=None), range(8)))

    assert {answer.headers["x-hermes-tier"] for answer in answers} == {"complex"}
    assert len(taught.teacher.calls) == 1


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(silence(), id="says nothing"),
        pytest.param(drip(replies.wire(replies.chat("complex"))), id="drips"),
        pytest.param(error(500), id="fails"),
        pytest.param(raw(b"garbage"), id="talks rubbish"),
    ],
)
def test_a_teacher_who_fails_costs_its_timeout_at_most(taught: World, reply: Reply) -> None:
    taught.teacher.script(reply)
    began = time.monotonic()

    answer = taught.gateway.chat("a question that no keyword knows", tier=None)

    assert answer.status == 200
    assert answer.headers["x-hermes-decision"] == "default"
    assert time.monotonic() - began < TEACHER_S + 0.5
