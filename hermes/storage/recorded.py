"""Requests as they were recorded, the oldest first, for whoever wants to decide them anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hermes.storage.classified import DEVIATED
from hermes.storage.db import Database
from hermes.storage.labels import ROUTED
from hermes.storage.models.usage import UsageRow

PAGE_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request of the router's half."""

    created_at: str
    session_key: str | None
    key_id: str | None
    decision: str
    tier: str
    model: str | None
    text: str | None
    """The user's last message; None where it was not stored."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    deviated: bool


class RecordedRepository:
    """Reads the usage log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, since: str) -> int:
        """How many there are from a moment on."""
        return self._database.read(lambda: int(_rows(since).count()))

    def since(self, moment: str) -> Iterator[Recorded]:
        """All from a moment on, as `created_at` has it, page by page."""
        last = 0
        while True:
            page = self._database.read(_page, moment, last)
            for number, recorded in page:
                last = number
                yield recorded
            if len(page) < PAGE_ROWS:
                return


def _rows(since: str) -> Any:
    row: Any = UsageRow
    return row.select().where(
        row.created_at >= since, row.route == ROUTED, row.decision.is_null(False), row.tier.is_null(False)
    )


def _page(since: str, last: int) -> list[tuple[int, Recorded]]:
    row: Any = UsageRow
    names = ("created_at", "session_key", "key_id", "decision", "tier", "model", "prompt_preview")
    columns = [getattr(row, name) for name in (*names, "prompt_tokens", "completion_tokens", "cached_tokens")]
    query = _rows(since).select(row.id, *columns, row.estimated_cost_usd, row.details).where(row.id > last)
    found = []
    for number, *values in query.order_by(row.id).limit(PAGE_ROWS).tuples():
        *known, cost, details = values
        known += [None if cost is None else float(cost), DEVIATED in details]
        found.append((number, Recorded(*known)))
    return found
