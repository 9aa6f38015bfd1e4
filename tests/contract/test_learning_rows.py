"""What learning reads of the database, on SQLite and on Postgres alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hermes.storage.backfill import Backfill
from hermes.storage.classified import ClassifiedRepository
from hermes.storage.db import Database
from hermes.storage.labels import Audit, LabelRepository
from hermes.storage.repositories import UsageRepository
from hermes.storage.retention import Retention
from tests.contract.conftest import a_record


def decided(number: int, decision: str, **values: Any) -> dict[str, Any]:
    moment = f"2026-05-10T{number // 60:02d}:{number % 60:02d}:00.000Z"
    return a_record(f"r{number}", **{"decision": decision, "tier": "simple", "created_at": moment, **values})


def an_audit(number: int, **values: Any) -> Audit:
    fields = {"surrogate": "v1", "caller": "key", "surrogate_tier": "simple", "teacher_tier": "complex"}
    moment = f"2026-05-11T00:00:{number:02d}.000Z"
    return Audit(
        **{"created_at": moment, "request_id": f"r{number}", "confidence": 0.9, "rate": 0.1, **fields, **values}
    )


def test_the_teachers_verdicts_are_read_and_nobody_elses(database: Database, usage: UsageRepository) -> None:
    usage.insert(
        [
            decided(1, "teacher", prompt_preview="one"),
            decided(2, "surrogate", prompt_preview="two"),
            decided(3, "teacher", prompt_preview=None),
            decided(4, "teacher", prompt_preview="four", tier="complex"),
            decided(5, "role", prompt_preview="five"),
        ]
    )
    labels = LabelRepository(database)
    labels.add(an_audit(1, text="six"))
    labels.add(an_audit(2, text=None))

    assert [(one.text, one.tier, one.rate) for one in labels.taught(10)] == [
        ("six", "complex", 0.1),
        ("four", "complex", 1.0),
        ("one", "simple", 1.0),
    ]
    assert [one.text for one in labels.taught(2)] == ["six", "four"]


def test_a_verdict_knows_its_conversation(database: Database, usage: UsageRepository) -> None:
    usage.insert(
        [
            decided(1, "teacher", prompt_preview="one", session_key="s1"),
            decided(2, "surrogate", prompt_preview="two", session_key="s2"),
            decided(3, "teacher", prompt_preview="three", session_key=None),
        ]
    )
    labels = LabelRepository(database)
    labels.add(an_audit(2, text="two"))
    labels.add(an_audit(9, text="its row is gone"))

    assert {one.text: one.conversation for one in labels.taught(10)} == {
        "one": "s1", "two": "s2", "three": "", "its row is gone": "",
    }  # fmt: skip


def test_audits_of_a_version_come_in_their_order(database: Database) -> None:
    labels = LabelRepository(database)
    for number in range(4):
        labels.add(an_audit(number, surrogate="v2" if number == 2 else "v1"))

    found = labels.audits("v1")

    assert [audit.request_id for audit in found] == ["r0", "r1", "r3"]
    assert [audit.request_id for audit in labels.audits("v1", after=found[0].id)] == ["r1", "r3"]
    assert [audit.request_id for audit in labels.audits("v1", limit=1)] == ["r3"]
    assert not found[0].agrees


def test_any_text_of_an_audit_can_be_kept(database: Database) -> None:
    labels = LabelRepository(database)

    labels.add(an_audit(1, text="nul \0 half \ud83d 中"))

    assert [one.text for one in labels.taught(1)] == ["nul  half � 中"]


def test_the_sums_of_the_report(database: Database, usage: UsageRepository) -> None:
    usage.insert(
        [
            *(decided(n, "surrogate", confidence=0.8 + n / 100, model="m", duration_ms=n) for n in range(1, 20)),
            decided(61, "teacher", model="m", status="error", duration_ms=5000, fallback_level=1),
            decided(62, "session", model="m", status="interrupted", estimated_cost_usd="0.25"),
            decided(63, "teacher", details={"deviation": "escalation", "attempts": []}, fallback_level=1),
            a_record("r64", created_at="2026-05-10T02:00:00.000Z"),
            decided(0, "teacher", created_at="2026-05-09T23:59:59.999Z"),
        ]
    )

    found = ClassifiedRepository(database).since("2026-05-10T00:00:00.000Z")

    assert found.decisions == {"surrogate": 19, "teacher": 2, "session": 1}
    assert found.hourly == (
        ("2026-05-10T00:00:00Z", "surrogate", 19),
        ("2026-05-10T01:00:00Z", "session", 1),
        ("2026-05-10T01:00:00Z", "teacher", 2),
    )
    assert (found.deviations, found.interrupted, found.fallbacks) == (1, 1, {1: 2})
    assert found.confidence.buckets == (0, 0, 0, 0, 0, 0, 0, 0, 9, 10)
    assert found.confidence.least == 0.81
    assert len(found.models) == 1
    model = found.models[0]
    assert (model.model, model.tier, model.requests, model.errors) == ("m", "simple", 21, 2)
    assert (model.p50_ms, model.p95_ms, model.cost_usd) == (10, 19, 0.25)


def test_an_empty_log_has_empty_sums(database: Database) -> None:
    found = ClassifiedRepository(database).since("2026-05-10T00:00:00.000Z")

    assert (found.decisions, found.models, found.confidence.mean) == ({}, (), None)


def test_audits_are_kept_as_long_as_usage_rows(database: Database) -> None:
    labels = LabelRepository(database)
    for day in (1, 20):
        labels.add(an_audit(day, created_at=f"2026-05-{day:02d}T00:00:00.000Z", text=f"text {day}"))
    now = datetime(2026, 5, 21, tzinfo=UTC)

    Retention(database, Backfill(database), clock=now.timestamp).run(7)

    assert [audit.request_id for audit in labels.audits("v1")] == ["r20"]
