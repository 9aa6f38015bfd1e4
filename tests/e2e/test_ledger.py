"""`hermes_ledger_gap` is 0 whatever the traffic, and 1 when a row has really been lost; `doctor` says so."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.redis_server import RedisServer

from .gateway import Gateway, eventually, new_user
from .provider import Provider
from .replies import chat, error


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(chat()) as provider:
        yield provider


def started(provider: Provider, **env: str) -> Gateway:
    model = {"model": "m", "base_url": provider.base_url, "api_key_env": ""}
    return Gateway.start({"models": {"simple": model, "complex": model}}, env)


def numbers(gateway: Gateway) -> dict[str, float]:
    """The ledger's metrics by name and state."""
    text = gateway.admin("GET", "/metrics").body.decode()
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "ledger" in sample.name or "spool" in sample.name or "flight" in sample.name
    }


def ledger_of(gateway: Gateway) -> tuple[int, dict[str, str]]:
    """What `doctor` exits with, and what it says of the ledger."""
    done = gateway.command("doctor", "--json", "--offline")
    findings = [finding for finding in json.loads(done.stdout)["findings"] if finding["check"] == "ledger"]
    assert len(findings) == 1
    return done.returncode, findings[0]


def newest_file(gateway: Gateway) -> Path:
    return max(gateway.folder.glob("spool/usage-*.jsonl"))


def test_in_ordinary_traffic_nothing_is_missing_and_every_request_is_counted(provider: Provider) -> None:
    gateway = started(provider)
    try:
        for _ in range(10):
            assert gateway.chat(user=new_user()).status == 200
        provider.script(error(400, "no"))
        assert gateway.chat(user=new_user()).status == 400
        found = eventually(lambda: numbers(gateway), lambda found: found["hermes_ledger_rows_total moved"] == 11)
        code, said = ledger_of(gateway)
    finally:
        gateway.stop()

    assert found["hermes_ledger_requests_total"] == found["hermes_ledger_rows_total appended"] == 11
    assert [found[name] for name in ("hermes_ledger_gap", "hermes_spool_depth", "hermes_requests_in_flight")] == [0] * 3
    assert (code, said["level"]) == (0, "ok")


def test_a_row_that_is_really_lost_is_missed(provider: Provider) -> None:
    gateway = started(provider)
    try:
        gateway.row(gateway.chat(user=new_user()))
        with closing(sqlite3.connect(gateway.folder / "hermes.db", isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            # The first row is read by then, and waits for the database; the second one is in a file of its own.
            first = gateway.chat(user=new_user())
            busy = newest_file(gateway)
            eventually(lambda: (gateway.chat(user=new_user()), newest_file(gateway))[1], lambda file: file != busy)
            rows = newest_file(gateway).read_bytes().count(b"\n")
            newest_file(gateway).write_bytes(b"")
            database.execute("ROLLBACK")
        found = eventually(lambda: numbers(gateway), lambda found: found["hermes_ledger_gap"] > 0, 15)
        code, said = ledger_of(gateway)
        log = gateway.logs()
    finally:
        gateway.stop()

    assert first.status == 200
    assert found["hermes_ledger_gap"] == rows
    assert (code, said["level"]) == (1, "fail")
    assert f"{rows} usage row" in said["message"]
    assert "Usage rows are missing" in log


def test_workers_that_are_killed_leave_no_gap(provider: Provider) -> None:
    with RedisServer() as redis:
        gateway = started(provider, HERMES_STATE_URL=redis.url, WEB_CONCURRENCY="2")
        try:
            for _ in range(2):
                for _ in range(15):
                    gateway.chat(user=new_user())
                gateway.kill_workers()
                eventually(gateway.is_healthy, bool, 15)
            served = [gateway.chat(user=new_user()) for _ in range(20)]
            found = eventually(
                lambda: numbers(gateway),
                lambda found: found["hermes_ledger_rows_total moved"] >= found["hermes_ledger_rows_total appended"],
                10,
            )
        finally:
            gateway.stop()

    assert [answer.status for answer in served] == [200] * 20
    assert found["hermes_ledger_gap"] == 0


def test_without_a_server_the_database_is_looked_at(provider: Provider) -> None:
    gateway = started(provider)
    try:
        gateway.row(gateway.chat(user=new_user()))
        gateway.row(gateway.chat(user=new_user()))
    finally:
        gateway.sigterm()
        gateway.wait_exit()
    try:
        good = ledger_of(gateway)
        with closing(sqlite3.connect(gateway.folder / "hermes.db")) as database, database:
            database.execute("DELETE FROM ai_usage_logs WHERE id = 1")
        bad = ledger_of(gateway)
    finally:
        gateway.stop()

    assert (good[0], good[1]["level"]) == (0, "ok")
    assert bad[1]["level"] == "warn"
    assert "has 1 usage row, its sums have 2" in bad[1]["message"]
