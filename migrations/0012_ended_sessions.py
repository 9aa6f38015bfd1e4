"""Sessions of the dashboard that were signed out of, so that copies of their cookies are worth nothing after a restart
and in every worker.
"""

from __future__ import annotations

from typing import Any


def up(migrator: Any, db: Any) -> None:
    """Makes the table."""
    db.execute_sql("CREATE TABLE ended_sessions (name TEXT NOT NULL PRIMARY KEY, ended_at TEXT NOT NULL)")


def down(migrator: Any, db: Any) -> None:
    """Removes it."""
    db.execute_sql("DROP TABLE ended_sessions")
