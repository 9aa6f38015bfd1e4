"""The newest rows of the usage log, for a list that is looked at every few seconds: read backwards by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow


@dataclass(frozen=True, slots=True)
class Latest:
    """One request."""

    at: str
    """As the log writes times."""

    request_id: str
    function_name: str | None
    user_id: str | None
    decision: str | None
    tier: str | None
    model: str | None
    status: str
    attempts: int
    fallback_level: int | None
    duration_ms: float | None
    error: str | None


def latest(database: Database, number: int) -> list[Latest]:
    """The last requests that were stored, newest first."""
    return database.report(_latest, number)


def _latest(number: int) -> list[Latest]:
    row = UsageRow
    query: Any = (
        row.select(
            row.created_at,
            row.request_id,
            row.function_name,
            row.user_id,
            row.decision,
            row.tier,
            row.model,
            row.status,
            row.attempts,
            row.fallback_level,
            row.duration_ms,
            row.error_message,
        )
        .order_by(row.id.desc())
        .limit(number)
    )
    return [Latest(*values) for values in query.tuples()]
