"""What the dashboard reads beside the reports: the newest rows, and what the tiers have consumed; on both databases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hermes.storage.consumption import Consumption, consumption, spent_by_day, spent_nanousd
from hermes.storage.db import Database
from hermes.storage.latest import latest
from hermes.storage.repositories import UsageRepository
from tests.contract.conftest import a_record

AT = "2026-05-01T10:30:00.000Z"
START, END = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)


def answered(request_id: str, **fields: Any) -> dict[str, Any]:
    """A row of an answer."""
    tokens = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "cached_tokens": 40}
    usual = {"created_at": AT, "tier": "simple", "model": "m", "status": "ok", "estimated_cost_usd": "0.000000500"}
    return a_record(request_id, **{**usual, **tokens, "reasoning_tokens": 5, **fields})


def test_the_newest_rows_come_first_and_no_more_than_asked_for(database: Database) -> None:
    UsageRepository(database).insert([answered(f"r{number}", attempts=number) for number in range(5)])

    found = latest(database, 2)

    assert [(row.request_id, row.attempts, row.tier, row.status) for row in found] == [
        ("r4", 4, "simple", "ok"),
        ("r3", 3, "simple", "ok"),
    ]


def test_what_tiers_have_consumed_leaves_out_what_has_no_price(database: Database) -> None:
    UsageRepository(database).insert(
        [
            answered("a"),
            answered("b"),
            answered("c", tier="complex", estimated_cost_usd="0.01"),
            answered("unpriced", model="other", estimated_cost_usd=None),
            answered("no tier", tier=None),
            answered("another day", created_at="2026-05-02T10:30:00.000Z"),
            a_record("failed", created_at=AT, tier="simple", status="error"),
        ]
    )

    assert consumption(database, START, END) == [
        Consumption("complex", 1, 100, 20, 40, 5, 10_000_000),
        Consumption("simple", 2, 200, 40, 80, 10, 1_000),
    ]


def test_what_was_spent_is_that_of_all_together_whoever_spent_it(database: Database) -> None:
    UsageRepository(database).insert(
        [
            answered("a", function_name="f"),
            answered("b", function_name=None, created_at="2026-05-02T23:59:59.999Z"),
            answered("free", estimated_cost_usd=None),
            answered("later", created_at="2026-05-03T00:00:00.000Z"),
        ]
    )
    end = datetime(2026, 5, 3, tzinfo=UTC)

    assert spent_nanousd(database, START, end) == 1_000
    assert spent_nanousd(database, START, END) == 500
    assert spent_by_day(database, START, end) == [("2026-05-01", 500), ("2026-05-02", 500)]


def test_an_empty_log_has_neither(database: Database) -> None:
    assert latest(database, 5) == []
    assert spent_by_day(database, START, END) == []
    assert spent_nanousd(database, START, END) == 0
    assert consumption(database, START, END) == []
