"""The record of changes as people read it: page by page, of one kind, and who was there when."""

from __future__ import annotations

from typing import Any

from hermes.storage import audit
from hermes.storage.db import Database

Entry = dict[str, Any]
"""id, at, actor, action, target, before, after."""


def page(database: Database, limit: int, before: int | None = None) -> list[Entry]:
    """Changes, the newest first; those before the one with this number."""
    return database.report(audit.newest, limit, before)


def of_kind(database: Database, action: str, limit: int) -> tuple[int, list[Entry]]:
    """How many changes of a kind there were in all, and the last of them, the newest first."""
    return database.report(_of_kind, action, limit)


def last_of_each(database: Database, action: str) -> dict[str, str]:
    """When each actor did something of a kind last, as the tables have times."""
    return database.report(audit.last_of_each, action)


def _of_kind(action: str, limit: int) -> tuple[int, list[Entry]]:
    return audit.number_of(action), audit.newest(limit, None, action)
