"""Sums of whole days, so that a quarter is ninety times few rows and not two thousand; and an index of the log in the
order of time that holds all that the log is filtered and sorted by.

The days are summed from the hours, in the background: here is only room for them, and the place where it is written
down which days are done.
"""

from __future__ import annotations

from typing import Any

from peewee import PostgresqlDatabase

TEXTS = ("day", "tier", "decision", "model", "endpoint", "status")
SUMS = (
    "requests", "failed", "refused", "counted", "unpriced", "total_tokens", "nanousd", "fallbacks", "attempts",
    "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens",
)  # fmt: skip
NARROW = ("created_at", "id")
WIDE = (
    *NARROW, "user_id", "function_name", "key_id", "model", "tier", "status", "decision", "fallback_level",
    "duration_ms", "estimated_cost_usd", "total_tokens",
)  # fmt: skip


def up(migrator: Any, db: Any) -> None:
    """Makes them; some seconds for a million rows."""
    # Rows stand in the order of their key: a day's are read together.
    clustered = "" if isinstance(db, PostgresqlDatabase) else " WITHOUT ROWID"
    columns = [f"{name} TEXT NOT NULL" for name in TEXTS] + ["stream BOOLEAN NOT NULL"]
    columns += [f"{name} BIGINT NOT NULL" for name in SUMS]
    db.execute_sql(
        f"CREATE TABLE usage_days ({', '.join(columns)}, PRIMARY KEY ({', '.join(TEXTS)}, stream)){clustered}"
    )
    db.execute_sql("CREATE TABLE usage_days_done (id INTEGER NOT NULL PRIMARY KEY, until TEXT NOT NULL)")
    db.execute_sql("INSERT INTO usage_days_done (id, until) VALUES (1, '')")
    db.execute_sql("CREATE TABLE usage_days_late (day TEXT NOT NULL PRIMARY KEY)")
    _index(db, WIDE)


def down(migrator: Any, db: Any) -> None:
    """Removes them."""
    _index(db, NARROW)
    for name in ("usage_days_late", "usage_days_done", "usage_days"):
        db.execute_sql(f"DROP TABLE {name}")


def _index(db: Any, columns: tuple[str, ...]) -> None:
    db.execute_sql("DROP INDEX usagerow_created_at")
    db.execute_sql(f"CREATE INDEX usagerow_created_at ON ai_usage_logs ({', '.join(columns)})")
