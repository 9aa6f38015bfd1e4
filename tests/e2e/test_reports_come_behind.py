"""However much operators read at once, callers' work finds a connection to the database: keys are looked up, rows are
stored, and who reads is answered or told to come again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from hermes.storage.behind import RETRY_AFTER_S, WAIT_S
from hermes.storage.db import REPORTS_FROM_POSTGRES
from tests.postgres_server import PostgresServer

from .client import Answer
from .gateway import ADMIN_KEY, Gateway, eventually
from .manyrows import multiply_in_postgres
from .world import World

ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
AT_ONCE = 40
PATIENT_S = 60.0
STANDING = "/admin/shadow?run=1"
"""Reads `shadow_replies`, which nothing else does here; a lock on that table is a report that takes its time."""

LOCKED = "shadow_replies"
HEAVY = ("/admin/usage?limit=1000", "/admin/usage?limit=1000&status=ok&min_duration_ms=1", "/classifier/report")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def gateway(postgres: PostgresServer) -> Iterator[Gateway]:
    """A gateway at Postgres, where every caller needs a key."""
    world = World({"auth": {"require_client_key": True}}, {"HERMES_DATABASE_URL": postgres.url})
    yield world.gateway
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@contextmanager
def asked_at_once(gateway: Gateway, paths: tuple[str, ...]) -> Iterator[list[Future[Answer]]]:
    """So many requests of an operator's, each over a connection of its own."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield [
            pool.submit(gateway.request, "GET", paths[number % len(paths)], ADMIN, None, PATIENT_S)
            for number in range(AT_ONCE)
        ]


def ask_with_a_new_key(gateway: Gateway) -> Answer:
    """A completion with a key that another process has just made, so that it must be looked up."""
    made = gateway.command("keys", "create", "kit", "--scope", "router", "--json")
    assert made.returncode == 0, made.stderr
    headers = {"Authorization": "Bearer " + json.loads(made.stdout)["key"]}
    return gateway.request("POST", "/v1/chat/completions", headers, {"messages": [{"role": "user", "content": "hi"}]})


def stored(url: str, answer: Answer) -> bool:
    with psycopg.connect(url) as database:
        found = database.execute("SELECT 1 FROM ai_usage_logs WHERE request_id = %s", (answer.request_id,))
        return found.fetchone() is not None


@pytest.mark.timeout(180)
def test_reports_that_do_not_end_leave_connections_to_callers(gateway: Gateway, postgres: PostgresServer) -> None:
    assert gateway.request("GET", STANDING, ADMIN).status == 200
    with psycopg.connect(postgres.url) as other:
        other.execute(f"LOCK TABLE {LOCKED} IN ACCESS EXCLUSIVE MODE")  # type: ignore[arg-type]
        with asked_at_once(gateway, (STANDING,)) as asked:
            waiting = eventually(lambda: waiting_for_the_lock(postgres.url), lambda n: n >= REPORTS_FROM_POSTGRES, 20)
            answer = ask_with_a_new_key(gateway)
            has_row = eventually(lambda: stored(postgres.url, answer), bool, 10)
            eventually(lambda: sum(map(Future.done, asked)), lambda n: n == AT_ONCE - waiting, WAIT_S + 30)
            other.rollback()
    answers = [one.result() for one in asked]

    assert (answer.status, has_row) == (200, True)
    assert waiting == REPORTS_FROM_POSTGRES
    assert Counter(one.status for one in answers) == {200: waiting, 503: AT_ONCE - waiting}
    told = [one for one in answers if one.status == 503]
    assert {one.error["type"] for one in told} == {"overloaded"}
    assert {one.headers["retry-after"] for one in told} == {f"{RETRY_AFTER_S:.0f}"}
    assert gateway.request("GET", STANDING, ADMIN).status == 200


def waiting_for_the_lock(url: str) -> int:
    with psycopg.connect(url) as database:
        (number,) = database.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()  # type: ignore[misc]
        return int(number)


@pytest.mark.timeout(180)
def test_many_long_reads_at_once_are_answered_and_nobody_else_waits(gateway: Gateway, postgres: PostgresServer) -> None:
    first = ask_with_a_new_key(gateway)
    assert eventually(lambda: stored(postgres.url, first), bool, 10)
    multiply_in_postgres(postgres.url, 3000)

    with asked_at_once(gateway, HEAVY) as asked:
        answer = ask_with_a_new_key(gateway)
        has_row = eventually(lambda: stored(postgres.url, answer), bool, 10)
    found = Counter(one.result().status for one in asked)
    logs = gateway.logs()

    assert (answer.status, has_row) == (200, True)
    assert found[200] > 0
    assert found[200] + found[503] == AT_ONCE
    assert "Max connections" not in logs
    assert "The database is away" not in logs
