"""A deploy cuts no stream, and not even a power cut loses a row of what was answered."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from . import replies
from .client import Answer
from .gateway import eventually, new_user
from .replies import answer, stream
from .world import World

WORDS = [f"t{number} " for number in range(8)]


@pytest.fixture
def own_world() -> Iterator[World]:
    """One that a test may end as it likes."""
    world = World()
    yield world
    world.close()


def test_sigterm_lets_what_is_under_way_finish_and_then_ends(own_world: World) -> None:
    gateway = own_world.gateway
    own_world.configure(simple=[own_world.endpoint(own_world.primary, timeout_seconds=30)])
    own_world.primary.script(
        stream(*WORDS, every_s=0.15).only(has="stream"), answer(200, replies.completion("late"), after_s=0.8)
    )
    flowing, waiting = gateway.open_chat(stream=True), gateway.open_chat()
    flowing.read_until(b"t1")
    eventually(lambda: own_world.primary.calls_under_way, lambda number: number == 2)

    gateway.sigterm()
    streamed, whole = flowing.read_all(), waiting.read_all()
    ended_at = time.monotonic()

    assert (streamed.text, streamed.done_count, streamed.problem) == ("".join(WORDS), 1, None)
    assert (whole.status, whole.text, whole.problem) == (200, "late", None)
    assert gateway.wait_exit(5) == 0
    assert time.monotonic() - ended_at < 3, "nothing is left to wait for"
    gateway.spawn()
    assert [gateway.row(got)["status"] for got in (streamed, whole)] == ["ok", "ok"]


def test_while_it_drains_no_new_work_is_taken(own_world: World) -> None:
    """A load balancer must see it: readiness says 503, or the port is closed already."""
    gateway = own_world.gateway
    own_world.configure(simple=[own_world.endpoint(own_world.primary, timeout_seconds=30)])
    own_world.primary.script(stream(*WORDS, every_s=0.2))
    flowing = gateway.open_chat(stream=True)
    flowing.read_until(b"t0")

    gateway.sigterm()

    def readiness() -> int:
        try:
            return gateway.request("GET", "/health/ready", timeout_s=2).status
        except OSError:
            return 503

    assert eventually(readiness, lambda status: status != 200, within_s=1) in (0, 503)
    assert flowing.read_all().text == "".join(WORDS)


def test_a_kill_under_load_loses_no_row_and_counts_none_twice(own_world: World) -> None:
    gateway, user = own_world.gateway, new_user()
    own_world.primary.script(stream("a", "b", every_s=0.005).only(has="stream"), replies.chat())
    answered: list[Answer] = []
    killed = threading.Event()

    def work(number: int) -> None:
        while not killed.is_set():
            try:
                got = gateway.chat(user=user, stream=number % 2 == 0)
            except OSError:
                return
            if got.problem is None:
                answered.append(got)

    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            pool.submit(work, number)
        eventually(lambda: len(answered), lambda number: number >= 100, within_s=10)
        gateway.kill()
        killed.set()
    gateway.spawn()

    rows = gateway.usage(wanted=len(answered), user_id=user, limit=1000)
    names = Counter(row["request_id"] for row in rows)
    assert len(answered) >= 100
    assert {got.status for got in answered} == {200}
    assert {got.request_id for got in answered} <= set(names)
    assert max(names.values()) == 1
    assert len(rows) <= len(answered) + 8, "at most what was under way"


def test_a_database_that_is_locked_holds_nobody_up_and_gets_every_row_later(own_world: World) -> None:
    gateway, user = own_world.gateway, new_user()
    lock = sqlite3.connect(gateway.folder / "hermes.db", isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        answers = [gateway.chat(user=user) for _ in range(20)]
    finally:
        lock.close()

    assert [got.status for got in answers] == [200] * 20
    assert max(got.took_s for got in answers) < 0.5
    rows = gateway.usage(wanted=20, user_id=user)
    assert sorted(row["request_id"] for row in rows) == sorted(got.request_id for got in answers)
