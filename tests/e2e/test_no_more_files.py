"""A server that may open no more files turns callers away in good order, and blames nobody else for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from .client import Answer
from .gateway import Gateway, eventually, new_user
from .replies import chat
from .world import World

CALLERS = 6


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    """What its background loops cannot open, they say in their own way."""
    world = World()
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Unexpected error" not in logs


def test_some_are_told_to_come_again_and_afterwards_all_is_as_before(world: World) -> None:
    gateway, user = world.gateway, new_user()
    gateway.chat(user=user)
    world.primary.script(chat(after_s=0.2))

    with one_more_file(gateway), ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(lambda _: gateway.chat(user=user), range(CALLERS)))

    refused = [answer for answer in answers if answer.status != 200]
    assert refused, "there were files enough"
    assert {(answer.status, answer.error["code"]) for answer in refused} == {(503, "overloaded")}
    assert all("retry-after" in answer.headers for answer in refused)
    assert {circuit["failures"] for circuit in gateway.circuits().values()} == {0}
    world.primary.script(chat())
    after: list[Answer] = [gateway.chat(user=user) for _ in range(3)]
    assert {answer.status for answer in after} == {200}
    names = {answer.request_id for answer in (*answers, *after)}
    rows = eventually(lambda: gateway.usage(len(names), user_id=user), lambda found: len(found) == len(names) + 1)
    assert names <= {row["request_id"] for row in rows}
    assert "Callers have to wait outside: Too many open files" in gateway.logs()


@contextmanager
def one_more_file(gateway: Gateway) -> Iterator[None]:
    """A worker may have one file more open than it has."""
    (pid,) = gateway.workers()
    highest = max(int(file.name) for file in Path(f"/proc/{pid}/fd").iterdir())
    before = subprocess.run(
        ["prlimit", f"--pid={pid}", "--nofile", "--output=SOFT", "--noheadings"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={highest + 2}:"], check=True)
    try:
        yield
    finally:
        subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={before.stdout.strip()}:"], check=True)
