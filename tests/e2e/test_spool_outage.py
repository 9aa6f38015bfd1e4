"""A spool that cannot be written: no start without one; later it is told, and every row reaches the database."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from .gateway import Gateway, StartFailed, eventually


def test_a_start_without_a_place_for_rows_is_refused_with_a_sentence() -> None:
    with pytest.raises(StartFailed) as failed:
        Gateway.start(None, {"HERMES_SPOOL_DIR": "/proc/x"})

    assert "Hermes cannot start: The usage spool /proc/x cannot be written: No such file" in str(failed.value)
    assert "Traceback" not in str(failed.value)


def test_a_spool_that_becomes_unwritable_costs_no_row_and_is_told() -> None:
    gateway = Gateway.start(None)

    def ready() -> Any:
        answer = gateway.request("GET", "/health/ready")
        return answer.status, answer.json["spool"]

    try:
        before = gateway.chat()
        assert gateway.row(before)["status"] == "ok"
        assert ready() == (200, "ok")
        spool = gateway.folder / "spool"
        shutil.rmtree(spool)
        spool.touch()

        answers = [gateway.chat() for _ in range(5)]

        assert [answer.status for answer in answers] == [200] * 5
        assert [gateway.row(answer)["status"] for answer in answers] == ["ok"] * 5
        status, state = ready()
        assert (status, state.partition(" (")[0]) == (200, "degraded: the usage spool cannot be written")
        metrics = gateway.admin("GET", "/metrics").body.decode().splitlines()
        assert {"hermes_spool_depth 0.0", "hermes_spool_lost_total 0.0"} <= set(metrics)

        spool.unlink()
        assert eventually(ready, lambda seen: seen == (200, "ok"), within_s=5) == (200, "ok")
        after = gateway.chat()
        assert gateway.row(after)["status"] == "ok"
        lines = [line for line in gateway.logs().splitlines() if "usage spool" in line]
        assert [line.split()[3] for line in lines] == ["WARNING", "INFO"]
    finally:
        gateway.stop()


def test_a_database_that_answers_and_takes_no_rows_is_told() -> None:
    gateway = Gateway.start(None)

    def state() -> dict[str, str]:
        found: dict[str, str] = gateway.request("GET", "/health/ready").json
        return {name: found[name] for name in ("database", "spool")}

    def rename(before: str, after: str) -> None:
        with closing(sqlite3.connect(gateway.folder / "hermes.db", timeout=10)) as other, other:
            other.execute(f"ALTER TABLE {before} RENAME TO {after}")

    try:
        well = {"database": "ok", "spool": "ok"}
        assert gateway.row(gateway.chat())["status"] == "ok"
        assert state() == well
        rename("usage_hours", "hidden")

        answer = gateway.chat()

        refused = {
            "database": "ok",
            "spool": "degraded: the database refuses usage rows, which wait in the spool; the log says why",
        }
        assert eventually(state, lambda seen: seen == refused, within_s=10) == refused
        assert gateway.request("GET", "/health/ready").status == 200
        rename("hidden", "usage_hours")
        assert gateway.row(answer)["status"] == "ok"
        assert eventually(state, lambda seen: seen == well, within_s=10) == well
    finally:
        gateway.stop()
