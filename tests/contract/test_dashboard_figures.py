"""What the dashboard reads of the usage log, on SQLite and on Postgres alike."""

from __future__ import annotations

from hermes.storage.db import Database
from hermes.storage.pulse import STEPS_MS, added
from hermes.storage.repositories import UsageRepository
from hermes.storage.turns import turns_of
from tests.contract.conftest import a_record

SINCE = "2026-05-10T00:00:00.000Z"


def test_rows_come_as_groups_of_their_minute_and_each_once(usage: UsageRepository, database: Database) -> None:
    alike = {"created_at": "2026-05-10T13:33:10.000Z", "tier": "simple", "model": "m", "endpoint": "m@h"}
    told = {"status": "ok", "duration_ms": 12.0, "estimated_cost_usd": 0.5, "fallback_level": 0}
    usage.insert([a_record(request_id=f"r{number}", **alike, **told) for number in range(3)])
    usage.insert([a_record(request_id="late", **{**alike, **told, "duration_ms": 1e9, "fallback_level": 1})])
    usage.insert([a_record(request_id="old", **{**alike, **told, "created_at": "2026-05-09T23:59:59.999Z"})])

    first = added(database, 0, SINCE)
    usage.insert([a_record(request_id="new", **{**alike, **told, "status": "error", "duration_ms": None})])
    second = added(database, first.last_id, SINCE)

    quick, slow = sorted(first.groups, key=lambda group: group.duration_class)
    assert (quick.minute, quick.requests, quick.cost_usd, quick.is_fallback) == ("2026-05-10T13:33", 3, 1.5, False)
    assert STEPS_MS[quick.duration_class - 1] < 12 <= STEPS_MS[quick.duration_class]
    assert (slow.requests, slow.is_fallback, slow.duration_class) == (1, True, len(STEPS_MS))
    assert [(group.status, group.requests) for group in second.groups] == [("error", 1)]
    assert added(database, second.last_id, SINCE).groups == ()


def test_the_turns_of_a_session_come_in_their_order(usage: UsageRepository, database: Database) -> None:
    usage.insert([a_record(request_id=f"t{number}", session_key="one", tier="simple") for number in range(3)])
    usage.insert([a_record(request_id="other", session_key="two", tier="complex")])

    found = turns_of(database, ["one", "three"])

    assert [turn.request_id for turn in found["one"]] == ["t0", "t1", "t2"]
    assert set(found) == {"one"}
    assert turns_of(database, []) == {}
