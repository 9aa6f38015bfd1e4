"""What was spent is the sum of the usage log, to the nano-dollar, on SQLite and on Postgres alike."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import gevent
import pytest

from hermes.directory import BudgetScope, Spent, Unit
from hermes.errors import BooksUnreadable
from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow
from hermes.storage.repositories import UsageRepository
from hermes.storage.spending import Spending
from tests.contract.conftest import a_record

MAY = datetime(2026, 5, 1, tzinfo=UTC)
JUNE = datetime(2026, 6, 1, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)


@pytest.fixture(params=[pytest.param(True, id="of the sums"), pytest.param(False, id="of the rows")])
def spending(database: Database, request: pytest.FixtureRequest) -> Spending:
    return Spending(database, lambda: True, is_summed=lambda: bool(request.param))


def used(request_id: str, cost: str | None, tokens: int | None, **values: object) -> dict[str, object]:
    return a_record(request_id, estimated_cost_usd=cost, total_tokens=tokens, **values)


@pytest.mark.parametrize(
    ("scope", "name", "spent"),
    [
        pytest.param("global", "", Spent(6_000_000_003, 60, 3), id="all together"),
        pytest.param("user", "anna", Spent(3_000_000_001, 30, 2), id="a user"),
        pytest.param("key", "k1", Spent(5_000_000_003, 50, 2), id="a key"),
        pytest.param("function", "f1", Spent(4_000_000_002, 40, 2), id="a function"),
        pytest.param("user", "nobody", Spent(), id="somebody unknown"),
        pytest.param("user", "an\0na", Spent(3_000_000_001, 30, 2), id="a name as the rows have it"),
    ],
)
def test_it_counts_the_rows_of_one(
    usage: UsageRepository, spending: Spending, scope: BudgetScope, name: str, spent: Spent
) -> None:
    usage.insert(
        [
            used("r1", "1.000000000", 10, user_id="anna", key_id="k2", function_name="f1"),
            used("r2", "2.000000001", 20, user_id="anna", key_id="k1", function_name="f2"),
            used("r3", "3.000000002", 30, user_id="ben", key_id="k1", function_name="f1"),
        ]
    )

    assert spending.spent(scope, name, MAY, JUNE) == spent


def test_a_period_contains_its_first_moment_and_not_its_last(usage: UsageRepository, spending: Spending) -> None:
    usage.insert(
        [
            used("before", "1", 1, created_at="2026-04-30T23:59:59.999Z"),
            used("first", "2", 1, created_at="2026-05-01T00:00:00.000Z"),
            used("last", "4", 1, created_at="2026-05-31T23:59:59.999Z"),
            used("after", "8", 1, created_at="2026-06-01T00:00:00.000Z"),
        ]
    )

    assert spending.spent("global", "", MAY, JUNE) == Spent(6_000_000_000, 2, 2)


def test_absurd_figures_of_a_file_count_nothing_and_stop_nothing(usage: UsageRepository, spending: Spending) -> None:
    usage.insert(
        [
            used("r1", "1", 2**62, user_id="anna"),
            used("r2", "-5", 2**62, user_id="anna"),
            used("r3", "99999999999", -7, user_id="anna"),
            used("r4", "9000000", 5, user_id=""),
        ]
    )

    assert spending.spent("user", "anna", MAY, JUNE) == Spent(1_000_000_000, 0, 3)
    assert spending.most("user", "usd", MAY, JUNE) == ("anna", Spent(1_000_000_000, 0, 3))


def test_what_was_refused_or_failed_counts_nothing_and_an_unknown_price_only_its_tokens(
    usage: UsageRepository, spending: Spending
) -> None:
    usage.insert(
        [
            used("refused", None, None, status="refused"),
            used("failed", None, None, status="error"),
            used("unpriced", None, 7),
            used("free", "0", 5),
        ]
    )

    assert spending.spent("global", "", MAY, JUNE) == Spent(0, 12, 2)


def test_a_thousand_tenths_are_a_hundred_to_the_nano_dollar(usage: UsageRepository, spending: Spending) -> None:
    """Binary fractions would not add up."""
    usage.insert([used(f"r{number}", "0.100000001", 1) for number in range(1000)])

    assert spending.spent("global", "", MAY, JUNE).nanousd == 100_000_001_000


@pytest.mark.parametrize(
    "usd", ["0.000000001", "0.123456789", "12345.678901234", "999999.999999999", "0.000015", "0.3", "7000000.000000001"]
)
def test_no_amount_is_changed_by_its_way_through_the_database(
    usage: UsageRepository, spending: Spending, usd: str
) -> None:
    usage.insert([used("r1", usd, 1)])

    assert spending.spent("global", "", MAY, JUNE).nanousd == int(Decimal(usd).scaleb(9))


@pytest.mark.parametrize(
    ("unit", "who", "spent"),
    [
        pytest.param("usd", "anna", Spent(9_000_000_000, 10, 1), id="money"),
        pytest.param("tokens", "ben", Spent(2_000_000_000, 60, 2), id="tokens"),
        pytest.param("requests", "ben", Spent(2_000_000_000, 60, 2), id="requests"),
    ],
)
def test_it_tells_who_has_used_most(
    usage: UsageRepository, spending: Spending, unit: Unit, who: str, spent: Spent
) -> None:
    usage.insert(
        [
            used("r1", "9", 10, user_id="anna"),
            used("r2", "1", 30, user_id="ben"),
            used("r3", "1", 30, user_id="ben"),
            used("r4", "99", 999, user_id=None),
            used("r5", None, None, user_id="zoe", status="refused"),
        ]
    )

    assert spending.most("user", unit, MAY, JUNE) == (who, spent)


def test_where_nobody_has_used_anything_nobody_has_used_most(usage: UsageRepository, spending: Spending) -> None:
    usage.insert([used("r1", None, None, user_id="anna", status="refused")])

    assert spending.most("user", "usd", MAY, JUNE) is None


@pytest.mark.parametrize(
    ("scope", "index"),
    [
        pytest.param("global", "usagerow_created_at", id="all together"),
        pytest.param("user", "usagerow_user_id_created_at", id="a user"),
        pytest.param("key", "usagerow_key_id_created_at", id="a key"),
        pytest.param("function", "usagerow_function_name_created_at", id="a function"),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_question_reads_the_whole_log(
    database: Database, caplog: pytest.LogCaptureFixture, scope: BudgetScope, index: str
) -> None:
    with caplog.at_level("DEBUG", "peewee"):
        Spending(database, lambda: True).spent(scope, "one", MAY, JUNE)

    assert f"INDEX {index} (" in plan(database, caplog)


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        pytest.param("global", "dimension=? AND grain=? AND at>? AND at<?", id="all together"),
        pytest.param("user", "dimension=? AND grain=? AND at=? AND name=?", id="a user"),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_question_reads_all_sums(
    database: Database, caplog: pytest.LogCaptureFixture, scope: BudgetScope, key: str
) -> None:
    with caplog.at_level("DEBUG", "peewee"):
        Spending(database, lambda: True, is_summed=lambda: True).spent(scope, "one", MAY, JUNE - timedelta(hours=1))

    assert plan(database, caplog).count(f"USING PRIMARY KEY ({key})") == 2


def plan(database: Database, caplog: pytest.LogCaptureFixture) -> str:
    """How SQLite goes about the one question that was asked."""
    ((sql, params),) = [record.msg for record in caplog.records if record.msg[0].startswith("SELECT")]
    asked = f"EXPLAIN QUERY PLAN {sql}"
    found = database.read(lambda: UsageRow._meta.database.execute_sql(asked, params).fetchall())
    return "\n".join(row[3] for row in found)


@pytest.mark.parametrize(
    "zone", [pytest.param(330, id="India"), pytest.param(-210, id="Newfoundland"), pytest.param(120, id="Berlin")]
)
def test_a_period_of_any_timezone_is_exact(database: Database, usage: UsageRepository, zone: int) -> None:
    start = datetime(2026, 5, 10, tzinfo=timezone(timedelta(minutes=zone)))
    end = start + timedelta(days=1)
    moments = {"before": start - MOMENT, "first": start, "last": end - MOMENT, "after": end}
    usage.insert([used(name, "1", 1, user_id="anna", created_at=at.isoformat()) for name, at in moments.items()])

    spending = Spending(database, lambda: True, is_summed=lambda: True)

    assert spending.spent("user", "anna", start, end) == Spent(2_000_000_000, 2, 2)
    assert spending.most("user", "usd", start, end) == ("anna", Spent(2_000_000_000, 2, 2))
    assert spending.spent("global", "", start, end) == Spent(2_000_000_000, 2, 2)


def test_rows_of_the_spool_are_moved_before_they_are_counted(database: Database, usage: UsageRepository) -> None:
    def flush() -> bool:
        usage.insert([used("r1", "1", 1)])
        return True

    assert Spending(database, flush).spent("global", "", MAY, JUNE).requests == 1


def test_a_spool_that_cannot_be_moved_makes_the_books_unreadable(database: Database) -> None:
    with pytest.raises(BooksUnreadable) as refused:
        Spending(database, lambda: False).spent("global", "", MAY, JUNE)

    assert (refused.value.status, refused.value.retry_after_s) == (503, 5)


def test_a_database_that_fails_makes_the_books_unreadable(
    database: Database, spending: Spending, capfd: pytest.CaptureFixture[str]
) -> None:
    for table in ("ai_usage_logs", "usage_names"):
        renaming = f"ALTER TABLE {table} RENAME TO {table[::-1]}"
        database.write(UsageRow._meta.database.execute_sql, renaming)

    with pytest.raises(BooksUnreadable) as refused:
        spending.spent("global", "", MAY, JUNE)

    assert re.search("ai_usage_logs|usage_names", str(refused.value.__cause__))
    assert "usage_" not in refused.value.message
    assert "Traceback" not in capfd.readouterr().err


def test_a_database_that_does_not_answer_is_not_waited_for() -> None:
    class Hanging(Database):
        def read(self, fn: object, *args: object) -> object:  # type: ignore[override]
            gevent.sleep(0.1)
            return fn

    with pytest.raises(BooksUnreadable, match="in time"):
        Spending(Hanging(), lambda: True, wait_s=0.02).spent("global", "", MAY, JUNE)
