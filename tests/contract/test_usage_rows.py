"""What the usage log promises on SQLite and on Postgres alike: rows stored once, found by filters, shown as JSON."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import peewee
import pytest

from hermes.errors import DatabaseUnavailable, InvalidRequest
from hermes.storage.db import Database, migrate
from hermes.storage.models.usage import UsageRow
from hermes.storage.repositories import UsageFilter, UsageRepository
from tests.contract.conftest import MIGRATIONS, a_record

CONTRACT_COLUMNS = [
    "id",
    "created_at",
    "request_id",
    "function_name",
    "use_case",
    "user_id",
    "key_id",
    "session_key",
    "route",
    "role",
    "tier",
    "model",
    "endpoint",
    "decision",
    "confidence",
    "stream",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "usage_estimated",
    "estimated_cost_usd",
    "duration_ms",
    "ttft_ms",
    "overhead_ms",
    "status",
    "fallback_level",
    "attempts",
    "error_message",
    "prompt_preview",
]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["request_id"] for row in rows]


# -- storing ----------------------------------------------------------------------------------------------


def test_a_row_comes_back_as_the_contract_shows_it(usage: UsageRepository) -> None:
    usage.insert(
        [
            a_record(
                "r1",
                created_at="2026-05-10T13:33:00.123Z",
                user_id="anna",
                model="gpt-4o",
                tier="complex",
                confidence=0.75,
                stream=True,
                prompt_tokens=1000,
                completion_tokens=500,
                total_tokens=1500,
                estimated_cost_usd="0.000450001",
                duration_ms=12.5,
                fallback_level=0,
                prompt_preview="مرحبا 😀",
                details={"attempts": [{"status": 200}]},
            )
        ]
    )

    [row] = usage.find(UsageFilter())

    assert list(row) == CONTRACT_COLUMNS
    assert row == {
        **dict.fromkeys(CONTRACT_COLUMNS),
        "id": 1,
        "created_at": "2026-05-10T13:33:00.123Z",
        "request_id": "r1",
        "user_id": "anna",
        "route": "/v1/chat/completions",
        "tier": "complex",
        "model": "gpt-4o",
        "confidence": 0.75,
        "stream": True,
        "prompt_tokens": 1000,
        "completion_tokens": 500,
        "total_tokens": 1500,
        "usage_estimated": False,
        "estimated_cost_usd": 0.000450001,
        "duration_ms": 12.5,
        "status": "ok",
        "fallback_level": 0,
        "attempts": 1,
        "prompt_preview": "مرحبا 😀",
    }
    assert (row["stream"], row["usage_estimated"]) == (True, False)
    assert isinstance(row["stream"], bool)
    assert usage.get("r1") == {**row, "details": {"attempts": [{"status": 200}]}}


def test_a_request_that_is_not_known_has_no_row(usage: UsageRepository) -> None:
    assert usage.get("nobody") is None
    assert usage.get("no\0body") is None


def test_costs_of_a_nano_usd_survive_and_add_up(database: Database, usage: UsageRepository) -> None:
    usage.insert([a_record(f"r{n}", estimated_cost_usd="0.000000001") for n in range(1000)])
    usage.insert([a_record("free", estimated_cost_usd="0"), a_record("unknown", estimated_cost_usd=None)])

    total = database.read(lambda: UsageRow.select(peewee.fn.SUM(UsageRow.estimated_cost_usd)).scalar())

    assert round(Decimal(str(total)), 9) == Decimal("0.000001")
    shown = {row["request_id"]: row["estimated_cost_usd"] for row in usage.find(UsageFilter(limit=1000))}
    assert (shown["free"], shown["unknown"], shown["r999"]) == (0, None, 1e-9)


def test_storing_the_same_rows_again_changes_nothing(usage: UsageRepository) -> None:
    """The spool sends a slice again when a process died between the commit and the deletion of the file."""
    usage.insert([a_record("r1", user_id="first")])

    again = usage.insert([a_record("r1", user_id="second"), a_record("r2"), a_record("r2")])

    assert (again.rows, again.rejected) == (1, ())
    assert sorted((row["request_id"], row["user_id"]) for row in usage.find(UsageFilter())) == [
        ("r1", "first"),
        ("r2", None),
    ]


def test_more_rows_than_fit_a_statement_are_stored(usage: UsageRepository) -> None:
    assert usage.insert([a_record(f"r{n}") for n in range(1234)]).rows == 1234


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param("a\0b", "ab", id="NUL, which Postgres refuses"),
        pytest.param("half \ud83d pair", "half \ufffd pair", id="half a surrogate pair"),
        pytest.param("\ud83d\ude00", "😀", id="a pair in two halves"),
    ],
)
def test_text_that_a_database_refuses_is_cleaned(usage: UsageRepository, text: str, stored: str) -> None:
    inserted = usage.insert([a_record("r1", prompt_preview=text, error_message=text, details={"text": "a\0b"})])

    row = usage.get("r1")
    assert inserted.rows == 1
    assert row is not None
    assert (row["prompt_preview"], row["error_message"]) == (stored, stored)


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        pytest.param({"request_id": None}, "request_id is missing", id="no request id"),
        pytest.param({"request_id": "x" * 5000}, "request_id is too long", id="a request id beyond any index"),
        pytest.param({"created_at": "yesterday"}, "created_at", id="no time"),
        pytest.param({"created_at": None}, "created_at", id="a missing time"),
        pytest.param({"status": None}, "status is missing", id="no status"),
        pytest.param({"prompt_tokens": 2**63}, "prompt_tokens", id="a number over 64 bits"),
        pytest.param({"attempts": 2**31}, "attempts", id="a number over its column"),
        pytest.param({"prompt_tokens": "many"}, "prompt_tokens", id="text for a number"),
        pytest.param({"prompt_tokens": [1]}, "prompt_tokens", id="a list for a number"),
        pytest.param({"estimated_cost_usd": "free"}, "estimated_cost_usd", id="text for money"),
        pytest.param({"estimated_cost_usd": "1e30"}, "estimated_cost_usd", id="money beyond its column"),
        pytest.param({"estimated_cost_usd": "NaN"}, "estimated_cost_usd", id="no amount"),
    ],
)
def test_a_poison_row_does_not_cost_its_neighbours(usage: UsageRepository, poison: dict[str, Any], reason: str) -> None:
    bad = {**a_record("bad"), **poison}

    inserted = usage.insert([a_record("before"), bad, a_record("after")])

    assert inserted.rows == 2
    assert [record for record, _ in inserted.rejected] == [bad]
    assert reason in inserted.rejected[0][1]
    assert sorted(ids(usage.find(UsageFilter()))) == ["after", "before"]


def test_a_row_that_only_the_database_refuses_does_not_cost_its_neighbours(
    database: Database, usage: UsageRepository
) -> None:
    """A rule that a later version or an operator has added, for instance."""

    def forbid() -> None:
        real = UsageRow._meta.database
        real.execute_sql("CREATE UNIQUE INDEX one_a_function ON ai_usage_logs (function_name)")

    database.write(forbid)

    inserted = usage.insert([a_record(n, function_name=f) for n, f in (("r1", "f"), ("r2", "f"), ("r3", "g"))])

    assert inserted.rows == 2
    assert [record["request_id"] for record, _ in inserted.rejected] == ["r2"]
    assert sorted(ids(usage.find(UsageFilter()))) == ["r1", "r3"]


def test_a_database_without_its_table_raises_and_rejects_nothing(database: Database, usage: UsageRepository) -> None:
    """Rows must wait for it, not be thrown out as poison."""
    database.write(lambda: UsageRow._meta.database.execute_sql("DROP TABLE ai_usage_logs"))

    with pytest.raises((peewee.PeeweeException, DatabaseUnavailable)):
        usage.insert([a_record("r1")])
    with pytest.raises((peewee.PeeweeException, DatabaseUnavailable)):
        usage.ping()


def test_long_ids_are_cut_to_what_an_index_takes(usage: UsageRepository) -> None:
    inserted = usage.insert([a_record("r1", user_id="ü" * 9000, function_name="f" * 9000, session_key="s" * 9000)])

    [row] = usage.find(UsageFilter())
    assert inserted.rows == 1
    assert (row["user_id"], len(row["function_name"]), len(row["session_key"])) == ("ü" * 512, 512, 512)


def test_numbers_that_are_none_become_null(usage: UsageRepository) -> None:
    usage.insert([a_record("r1", duration_ms=float("nan"), ttft_ms=float("inf"))])

    [row] = usage.find(UsageFilter())
    assert (row["duration_ms"], row["ttft_ms"]) == (None, None)


# -- finding ----------------------------------------------------------------------------------------------


@pytest.fixture
def four_rows(usage: UsageRepository) -> UsageRepository:
    usage.insert(
        [
            a_record("r1", created_at="2026-05-09T23:59:59.999Z", user_id="anna", tier="simple", model="m1"),
            a_record("r2", created_at="2026-05-10T00:00:00Z", user_id="bert", tier="complex", model="m2"),
            a_record("r3", created_at="2026-05-10T23:59:59.999+00:00", user_id="anna", function_name="f", model="m1"),
            a_record("r4", created_at="2026-05-11T02:00:00+02:00", user_id="anna", status="error", model="m2"),
        ]
    )
    return usage


@pytest.mark.parametrize(
    ("args", "found"),
    [
        pytest.param({}, ["r4", "r3", "r2", "r1"], id="all, newest first"),
        pytest.param({"request_id": "r2"}, ["r2"], id="one request"),
        pytest.param({"user_id": "anna"}, ["r4", "r3", "r1"], id="one user"),
        pytest.param({"user_id": "anna", "model": "m1"}, ["r3", "r1"], id="user and model"),
        pytest.param({"function_name": "f"}, ["r3"], id="one function"),
        pytest.param({"tier": "complex"}, ["r2"], id="one tier"),
        pytest.param({"status": "error"}, ["r4"], id="one status"),
        pytest.param({"from": "2026-05-10", "to": "2026-05-10"}, ["r3", "r2"], id="a whole day"),
        pytest.param({"from": "2026-05-10T00:00:00Z"}, ["r4", "r3", "r2"], id="from a time on"),
        pytest.param({"to": "2026-05-10T00:00:00.000Z"}, ["r2", "r1"], id="up to a time"),
        pytest.param({"to": "2026-05-10T02:00:00+02:00"}, ["r2", "r1"], id="another zone"),
        pytest.param({"to": "2026-05-10T02:00:00 02:00"}, ["r2", "r1"], id="a plus that a query has made a blank"),
        pytest.param({"from": "2026-05-11T00:00:00", "to": ""}, ["r4"], id="without a zone it is UTC"),
        pytest.param({"limit": "3"}, ["r4", "r3", "r2"], id="the first page"),
        pytest.param({"limit": "3", "page": "2"}, ["r1"], id="the second page"),
        pytest.param({"limit": "3", "page": "3"}, [], id="beyond the last page"),
        pytest.param({"user_id": "nobody' OR 1=1 --"}, [], id="no SQL"),
    ],
)
def test_filters_find_what_they_say(four_rows: UsageRepository, args: dict[str, str], found: list[str]) -> None:
    assert ids(four_rows.find(UsageFilter.parse(args))) == found


def test_rows_of_the_same_millisecond_keep_their_order_over_pages(usage: UsageRepository) -> None:
    usage.insert([a_record(f"r{n}") for n in range(10)])

    pages = [usage.find(UsageFilter(limit=3, page=page)) for page in (1, 2, 3, 4)]

    assert [name for page in pages for name in ids(page)] == [f"r{n}" for n in range(9, -1, -1)]


@pytest.mark.parametrize(
    ("args", "param", "sentence"),
    [
        pytest.param({"userid": "a"}, "userid", "did you mean user_id", id="a misspelt name"),
        pytest.param({"zzz": "a"}, "zzz", "known are request_id", id="a name of nothing"),
        pytest.param({"limit": "0"}, "limit", "from 1 to 1000", id="no rows"),
        pytest.param({"limit": "1001"}, "limit", "from 1 to 1000", id="too many rows"),
        pytest.param({"limit": "ten"}, "limit", "whole number", id="a word for a number"),
        pytest.param({"limit": "1_0"}, "limit", "whole number", id="an underscore"),
        pytest.param({"limit": "٣"}, "limit", "whole number", id="a digit of another script"),
        pytest.param({"limit": "9" * 5000}, "limit", "whole number", id="a very long number"),
        pytest.param({"page": "0"}, "page", "whole number", id="pages begin at 1"),
        pytest.param({"page": "-1"}, "page", "whole number", id="a negative page"),
        pytest.param({"from": "yesterday"}, "from", "ISO 8601", id="no time"),
        pytest.param({"to": "2026-13-01"}, "to", "ISO 8601", id="no month"),
        pytest.param({"to": "9999-12-31T23:59:59-12:00"}, "to", "ISO 8601", id="beyond the last year"),
        pytest.param({"tier": "medium"}, "tier", "one of simple, complex", id="no tier"),
        pytest.param({"status": "fine"}, "status", "one of ok, error", id="no status"),
        pytest.param({"user_id": "a\0b"}, "user_id", "NUL", id="NUL"),
        pytest.param({"model": "a\ud800"}, "model", "surrogate", id="half of a surrogate pair"),
    ],
)
def test_a_filter_that_cannot_be_used_names_its_parameter(args: dict[str, str], param: str, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence) as refused:
        UsageFilter.parse(args)

    assert refused.value.param == param


def test_finding_by_user_uses_an_index(tmp_path: Path) -> None:
    """With 700,000 rows a scan takes a second."""
    migrate(f"sqlite:///{tmp_path}/hermes.db", MIGRATIONS)
    database = Database.open(f"sqlite:///{tmp_path}/hermes.db")

    def plan() -> str:
        query = UsageRow.select().where(UsageRow.user_id == "anna").order_by(UsageRow.created_at.desc())
        statement, values = query.sql()
        return str(UsageRow._meta.database.execute_sql("EXPLAIN QUERY PLAN " + statement, values).fetchall())

    assert "USING INDEX usagerow_user_id_created_at" in database.read(plan)
    assert "TEMP B-TREE" not in database.read(plan)
    database.close()
