"""What is older than `logging.retention_days` is removed by a running server: usage rows and traces."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

from .gateway import Gateway, eventually, new_user
from .provider import Provider
from .replies import chat


def test_old_rows_and_traces_are_removed_soon_after_the_start() -> None:
    with Provider(chat()) as provider:
        model = {"model": "m", "base_url": provider.base_url, "api_key_env": ""}
        gateway = Gateway.start({"models": {"simple": model, "complex": model}, "logging": {"retention_days": 7}})
        try:
            rows = [gateway.row(gateway.chat(user=new_user())) for _ in range(3)]
            gateway.kill()
            old = datetime.now(UTC) - timedelta(days=8)
            with closing(sqlite3.connect(gateway.folder / "hermes.db")) as database, database:
                moved = "UPDATE ai_usage_logs SET created_at = ? WHERE request_id != ?"
                database.execute(moved, (f"{old:%Y-%m-%dT%H:%M:%S}.000Z", rows[0]["request_id"]))
            traces = gateway.folder / "traces"
            for day in (old, datetime.now(UTC) - timedelta(days=6)):
                (traces / f"router-trace-{day:%Y%m%d}.jsonl").write_text("{}\n")
            (traces / f"router-trace-{old:%Y%m%d}.jsonl.1").write_text("{}\n")

            gateway.spawn()

            log = eventually(gateway.logs, lambda text: "Removed, as they are older than 7 days" in text, 15)
            kept = [row["request_id"] for row in gateway.admin("GET", "/admin/usage").json["rows"]]
        finally:
            gateway.stop()

    assert "2 usage rows, 2 trace files" in log
    assert kept == [rows[0]["request_id"]]
