"""How often passages of a document were given to a call, counted from the usage log's details."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import orjson

from hermes.storage.audit import time_text
from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow

MOST_ROWS: Final = 20_000
"""So many of the last calls with knowledge are counted."""


def uses_since(database: Database, since: float) -> dict[int, int]:
    """How many calls got a passage of a document since a moment, by the document's number."""
    return database.report(_uses, time_text(since))


def _uses(since: str) -> dict[int, int]:
    query: Any = (
        UsageRow.select(UsageRow.details)
        .where((UsageRow.created_at >= since) & UsageRow.details.contains('"knowledge"'))
        .order_by(UsageRow.created_at.desc())
        .limit(MOST_ROWS)
    )
    counted: Counter[int] = Counter()
    for (details,) in query.tuples():
        chunks = (orjson.loads(details).get("knowledge") or {}).get("chunks") or ()
        counted.update({chunk["document"] for chunk in chunks if "document" in chunk})
    return dict(counted)
