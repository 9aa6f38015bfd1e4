"""What residency rules did is summed where the rows are stored, once each. On SQLite and on Postgres alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hermes.storage.backfill import Backfill
from hermes.storage.db import Database
from hermes.storage.repositories import UsageRepository
from hermes.storage.residency import ResidencyRecords, Sum
from hermes.storage.retention import Retention
from hermes.storage.usage_filter import utc_text
from tests.contract.conftest import a_record

NOW = datetime(2026, 5, 31, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def proven(name: str, at: datetime = NOW, **proof: Any) -> dict[str, Any]:
    attempts = proof.pop("attempts", [])
    whole = {"rules": [], "data_classes": [], "found": {}, "masked": {}, **proof}
    return a_record(
        name, created_at=utc_text(at), details={"residency": whole, "attempts": attempts}, prompt_preview="to [EMAIL_1]"
    )


def call(region: str | None, called: bool = True) -> dict[str, Any]:
    return {"endpoint": "m@host", "model": "m", "region": region, "called": called}


def test_each_row_counts_once_for_what_its_proof_says(database: Database, usage: UsageRepository) -> None:
    bound = {"rules": [{"rule": 1, "regions": ["eu"]}]}
    rows = [
        proven("outside", attempts=[call("us"), call("eu"), call("us", called=False)], **bound),
        proven(
            "masked",
            data_classes=["customer"],
            found={"email": 2, "iban": 1},
            masked={"email": 2},
            region="eu",
            attempts=[call("eu")],
            **bound,
        ),
        proven("blocked", found={"iban": 1}, blocked=True),
        proven("nowhere", region=None),
        a_record("plain", created_at=utc_text(NOW)),
    ]

    usage.insert([*rows, rows[0]])
    usage.insert(rows)

    records = ResidencyRecords(database)
    assert records.sums(NOW - HOUR, NOW) == {
        ("class", "customer"): Sum(1, 1),
        ("found", "email"): Sum(1, 2),
        ("found", "iban"): Sum(2, 2),
        ("masked", "email"): Sum(1, 2),
        ("region", "eu"): Sum(1, 1),
        ("region", ""): Sum(1, 1),
        ("all", "ruled"): Sum(4, 4),
        ("all", "masked"): Sum(1, 1),
        ("all", "blocked"): Sum(1, 1),
        ("all", "bound"): Sum(2, 3),
        ("all", "outside"): Sum(1, 1),
    }
    assert records.sums(NOW - 9 * HOUR, NOW - HOUR) == {}
    hits = records.hits(NOW - HOUR, NOW, 10)
    assert [(hit.request_id, hit.action, hit.found) for hit in hits] == [
        ("blocked", "blocked", {"iban": 1}),
        ("masked", "masked", {"email": 2, "iban": 1}),
    ]
    assert hits[1].preview == "to [EMAIL_1]"


def test_a_proof_of_another_shape_hurts_nobody(database: Database, usage: UsageRepository) -> None:
    odd = [
        proven("1", found=7, masked=["x"], rules="no", data_classes={"a": 1}),
        proven("2", found={"a\0b": 1, "n": "many", "m": -1}, masked={"x": True}, data_classes=[None, "c" * 999]),
        {**proven("3"), "details": {"residency": ["?"]}},
        {**proven("4"), "details": "text"},
    ]

    assert usage.insert(odd).rows == 4
    assert ("all", "ruled") in ResidencyRecords(database).sums(NOW, NOW)


def test_hits_go_with_their_rows(database: Database, usage: UsageRepository) -> None:
    usage.insert([proven("old", NOW - timedelta(days=40), masked={"email": 1}), proven("new", masked={"email": 1})])

    Retention(database, Backfill(database), clock=NOW.timestamp).run(30)

    hits = ResidencyRecords(database).hits(NOW - timedelta(days=99), NOW, 10)
    assert [hit.request_id for hit in hits] == ["new"]
