"""Indexes that find a page of the usage log without reading rows, whatever it is filtered by and however deep it is."""

from __future__ import annotations

from typing import Any

INDEXES = {
    "usagerow_created_at": ("created_at", "id"),
    "usagerow_user_id_created_at": ("user_id", "created_at", "id", "function_name", "model", "tier", "status"),
    "usagerow_function_name_created_at": ("function_name", "created_at", "id", "model", "tier", "status"),
    "usagerow_model_created_at": ("model", "created_at", "id", "tier", "status"),
    "usagerow_tier_created_at": ("tier", "created_at", "id"),
    "usagerow_status_created_at": ("status", "created_at", "id", "tier"),
}
"""Behind a filter and the order of the log stand other filters: rows that do not match are passed over in the index."""

BEFORE = {name: tuple(column for column in columns[:2] if column != "id") for name, columns in INDEXES.items()}
"""The filter and the time, under the same names."""


def up(migrator: Any, db: Any) -> None:
    """Makes them anew; some seconds for a million rows."""
    _replace(db, INDEXES)


def down(migrator: Any, db: Any) -> None:
    """Makes them as they were."""
    _replace(db, BEFORE)


def _replace(db: Any, indexes: dict[str, tuple[str, ...]]) -> None:
    for name, columns in indexes.items():
        db.execute_sql(f"DROP INDEX {name}")
        db.execute_sql(f"CREATE INDEX {name} ON ai_usage_logs ({', '.join(columns)})")
