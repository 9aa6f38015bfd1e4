"""The last turns of sessions, from the usage log: how a conversation went, beside the tier that is remembered of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow

MOST_ROWS: Final = 3000


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a session."""

    at: str
    """As the log writes times."""

    request_id: str
    tier: str | None
    model: str | None
    function_name: str | None
    decision: str | None
    confidence: float | None
    status: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float


def turns_of(database: Database, keys: Sequence[str]) -> Mapping[str, tuple[Turn, ...]]:
    """The last turns of each session, oldest first; of many long ones, only the newest `MOST_ROWS` in all."""
    return database.report(_turns_of, keys) if keys else {}


def _turns_of(keys: Sequence[str]) -> dict[str, tuple[Turn, ...]]:
    query: Any = (
        UsageRow.select(
            UsageRow.session_key,
            UsageRow.created_at,
            UsageRow.request_id,
            UsageRow.tier,
            UsageRow.model,
            UsageRow.function_name,
            UsageRow.decision,
            UsageRow.confidence,
            UsageRow.status,
            UsageRow.prompt_tokens,
            UsageRow.completion_tokens,
            UsageRow.estimated_cost_usd,
        )
        .where(UsageRow.session_key.in_(list(keys)))
        .order_by(UsageRow.id.desc())
        .limit(MOST_ROWS)
    )
    found: dict[str, list[Turn]] = defaultdict(list)
    for key, *named, prompt, completion, cost in query.tuples():
        found[key].append(Turn(*named, int(prompt or 0), int(completion or 0), float(cost or 0)))  # type: ignore[call-arg]
    return {key: tuple(reversed(turns)) for key, turns in found.items()}
