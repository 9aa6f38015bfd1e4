"""Sums of the usage log by the hour, so that reports stay fast however many rows there are, and how many rows came from
which process.

Rows that are here already are summed later, in the background; which they are is written down now, while no other
process adds any. From now on whoever stores a row also counts it.
"""

from __future__ import annotations

from typing import Any

from peewee import PostgresqlDatabase

BUCKETS = 33
SUMS = ("requests", "failed", "refused", "counted", "unpriced", "total_tokens", "nanousd")
MORE = ("fallbacks", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")

INDEXES = {
    "usagerow_model_created_at": "ai_usage_logs (model, created_at)",
    "usagerow_tier_created_at": "ai_usage_logs (tier, created_at)",
    "usagerow_status_created_at": "ai_usage_logs (status, created_at)",
}


def up(migrator: Any, db: Any) -> None:
    """Makes the tables, and the indexes for the filters that had none; some seconds for a million rows."""
    is_postgres = isinstance(db, PostgresqlDatabase)
    if is_postgres:
        # Waits for the transactions that store rows: a number that was given but not committed must not be missed.
        db.execute_sql("LOCK TABLE ai_usage_logs IN SHARE ROW EXCLUSIVE MODE")
    texts = ("hour", "tier", "decision", "model", "endpoint", "status")
    tables = {
        "usage_hours": ([*_texts(*texts), "stream BOOLEAN NOT NULL", *_sums(*SUMS, *MORE)], (*texts, "stream")),
        "usage_names": (
            _texts("dimension", "grain", "at", "name") + _sums(*SUMS),
            ("dimension", "grain", "at", "name"),
        ),
        "usage_latency": (
            _texts("hour", "tier", "model", "metric") + _sums(*(f"b{number}" for number in range(BUCKETS))),
            ("hour", "tier", "model", "metric"),
        ),
        "usage_minutes": (_texts("minute", "tier", "status") + _sums("requests"), ("minute", "tier", "status")),
    }
    # Rows stand in the order of their key: an hour's are read together.
    clustered = "" if is_postgres else " WITHOUT ROWID"
    for name, (columns, key) in tables.items():
        db.execute_sql(f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(key)})){clustered}")
    db.execute_sql(
        "CREATE TABLE usage_backfill (id INTEGER NOT NULL PRIMARY KEY, done_id BIGINT NOT NULL,"
        " until_id BIGINT NOT NULL)"
    )
    db.execute_sql(
        "INSERT INTO usage_backfill (id, done_id, until_id)"
        " SELECT 1, COALESCE(MIN(id), 1) - 1, COALESCE(MAX(id), 0) FROM ai_usage_logs"
    )
    db.execute_sql(
        "CREATE TABLE usage_writers (writer TEXT NOT NULL PRIMARY KEY, stored BIGINT NOT NULL, stored_at TEXT NOT NULL)"
    )
    for name, place in INDEXES.items():
        db.execute_sql(f"CREATE INDEX {name} ON {place}")


def down(migrator: Any, db: Any) -> None:
    """Removes them."""
    for name in INDEXES:
        db.execute_sql(f"DROP INDEX {name}")
    for name in ("usage_writers", "usage_backfill", "usage_minutes", "usage_latency", "usage_names", "usage_hours"):
        db.execute_sql(f"DROP TABLE {name}")


def _texts(*names: str) -> list[str]:
    return [f"{name} TEXT NOT NULL" for name in names]


def _sums(*names: str) -> list[str]:
    return [f"{name} BIGINT NOT NULL" for name in names]
