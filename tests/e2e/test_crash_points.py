"""Killed at a named moment, master and worker alike: after the restart rows, budgets and files are whole."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest

from tests.redis_server import RedisServer

from . import replies
from .client import Answer
from .gateway import Gateway, eventually, new_user
from .inside import CrashPoints
from .replies import stream
from .world import FILLING_S, World

LIMIT = 12
CALLERS = 4

RESERVE = "hermes.admission.quota:Quota.reserve"
END = "hermes.accounting.exchange:Exchange.settle"
GIVE_BACK = "hermes.admission.quota:Hold.settle"
MOVE = "hermes.storage.repositories:UsageRepository.insert"
SUM = "hermes.storage.rollups:add_new"
MOMENTS: dict[str, tuple[Literal["before", "after"], str]] = {
    "set aside, and no provider asked yet": ("after", RESERVE),
    "answered, and no row written": ("before", END),
    "the row is written, and nothing given back": ("before", GIVE_BACK),
    "given back, and the end not sent": ("after", END),
    "rows and sums are written, and nothing committed": ("after", SUM),
    "committed, and the file still there": ("after", MOVE),
}


@pytest.fixture(scope="module")
def points() -> Iterator[CrashPoints]:
    points = CrashPoints("server", *{where for _, where in MOMENTS.values()})
    yield points
    points.close()


@pytest.fixture(scope="module")
def running_world(points: CrashPoints) -> Iterator[World]:
    """Its state is in a Redis that outlives it: what a killed server has set aside is in there."""
    with RedisServer() as redis:
        world = World(env={**points.env, "HERMES_STATE_URL": redis.url}, attempt_s=FILLING_S)
        yield world
        logs = world.gateway.logs()
        world.close()
    assert "Traceback" not in logs


@pytest.mark.parametrize("name", MOMENTS)
def test_a_server_that_dies_loses_no_row_and_leaves_nothing_set_aside(
    world: World, points: CrashPoints, name: str
) -> None:
    gateway, user = world.gateway, new_user()
    put = {"scope": "user", "id": user, "period": "month", "limit_requests": LIMIT}
    assert gateway.admin("PUT", "/admin/budgets", put).status == 200
    world.primary.script(stream("a", "b", every_s=0.01).only(has="stream"), replies.chat())
    before = [gateway.chat(user=user, stream=bool(number % 2)) for number in range(2)]

    points.arm(*MOMENTS[name])
    with ThreadPoolExecutor(CALLERS) as pool:
        during = list(pool.map(lambda number: tried(gateway, user, stream=bool(number % 2)), range(CALLERS)))
    assert eventually(lambda: points.was_met, bool, 10), "nobody came there"
    assert gateway.wait_exit() == -signal.SIGKILL
    gateway.spawn()

    answered = [got for got in (*before, *during) if got is not None and (got.status, got.problem) == (200, None)]
    after = []
    while len(after) <= LIMIT and (got := gateway.chat(user=user)).status == 200:
        after.append(got)
    names = [row["request_id"] for row in gateway.usage(LIMIT, user_id=user, status="ok")]
    assert {got.request_id for got in (*answered, *after)} <= set(names), "each answer has its row"
    assert len(set(names)) == len(names) == LIMIT, "the budget is used to the last, and no further"
    (shown,) = [one for one in gateway.admin("GET", "/admin/budgets").json["budgets"] if one["id"] == user]
    assert shown["spent_requests"] == LIMIT


def tried(gateway: Gateway, user: str, *, stream: bool) -> Answer | None:
    """What a caller got, as far as it came; None where nobody listened any more."""
    with contextlib.suppress(OSError):
        return gateway.chat(user=user, stream=stream)
    return None
