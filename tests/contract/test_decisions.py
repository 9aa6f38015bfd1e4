"""What the classifier's page reads, on SQLite and on Postgres alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hermes.storage import decisions
from hermes.storage.db import Database
from hermes.storage.decisions import BINS, Answered, Decided
from hermes.storage.repositories import UsageRepository
from tests.contract.conftest import a_record

START = datetime(2026, 5, 10, 12, tzinfo=UTC)
END = datetime(2026, 5, 10, 14, tzinfo=UTC)


def row(number: int, decision: str | None, **values: Any) -> dict[str, Any]:
    moment = f"2026-05-10T{12 + number // 60:02d}:{number % 60:02d}:00.000Z"
    fields = {"decision": decision, "tier": "simple", "created_at": moment, "model": "small", **values}
    return a_record(f"r{number}", **fields)


def attempts(*statuses: int | None, called: bool = True) -> dict[str, Any]:
    return {
        "attempts": [
            {"endpoint": f"e{place}", "model": "m", "status": status, "message": "", "called": called}
            for place, status in enumerate(statuses)
        ]
    }


def test_who_decided_and_who_answered_is_summed_by_hour(database: Database, usage: UsageRepository) -> None:
    usage.insert(
        [
            row(1, "surrogate"),
            row(2, "surrogate", tier="complex", model="large", status="error"),
            row(61, "teacher", fallback_level=1, estimated_cost_usd="0.5", total_tokens=10),
            row(62, None),
            row(130, "surrogate"),
        ]
    )

    assert decisions.decided(database, START, END) == [
        Decided("2026-05-10T12", "surrogate", "complex", 1),
        Decided("2026-05-10T12", "surrogate", "simple", 1),
        Decided("2026-05-10T13", "teacher", "simple", 1),
    ]
    (small, large) = decisions.answered(database, START, END)
    assert (small.model, small.requests, small.fallbacks, small.nanousd) == ("small", 2, 1, 500_000_000)
    assert isinstance(large, Answered)
    assert (large.model, large.tier, large.failed) == ("large", "complex", 1)


def test_what_only_rows_know_is_read_of_the_newest(database: Database, usage: UsageRepository) -> None:
    usage.insert(
        [
            row(1, "surrogate", confidence=0.9),
            row(2, "surrogate", confidence=0.99),
            row(3, "surrogate", confidence=1.0, tier="complex"),
            row(4, "teacher", confidence=0.2),
            row(5, "session", details={"deviation": "escalation"}),
            row(6, "override", fallback_level=1, details=attempts(503, 200)),
            row(7, "override", fallback_level=2, details=attempts(503, None, 200)),
            row(8, "override", fallback_level=1, details=attempts(None, called=False)),
        ]
    )

    found = decisions.sample(database, START)

    assert found.rows == 8
    assert found.mean is not None
    assert round(found.mean, 4) == 0.9633
    assert {tier: sum(bins) for tier, bins in found.confidence.items()} == {"simple": 2, "complex": 1}
    assert found.confidence["complex"][BINS - 1] == 1
    assert found.confidence["simple"][int(0.9 * BINS) - 1 : BINS].count(1) == 2
    assert (found.deviations["escalation"], found.deviations["de_escalation"]) == (1, 0)
    assert found.causes == [("503", 1, 1), ("Circuit open or skipped", 1, 0)]


def test_an_empty_log_is_no_error(database: Database) -> None:
    assert decisions.decided(database, START, END) == []
    assert decisions.answered(database, START, END) == []
    assert decisions.sample(database, START).mean is None
