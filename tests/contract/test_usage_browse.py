"""Walking through the usage log: every row once whatever the filter, neighbours, what is new, what a text may mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes.storage import browse
from hermes.storage.browse import Beside, Counted, Mark, beside, count, count_some, greatest, page
from hermes.storage.db import Database
from hermes.storage.meaning import meaning
from hermes.storage.repositories import UsageRepository
from hermes.storage.usage_filter import UsageFilter

from .conftest import a_record


def at(second: int) -> str:
    return f"2026-05-10T12:00:{second:02d}.000Z"


def ids_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["request_id"] for row in rows]


def walk(database: Database, wanted: UsageFilter, rows: int) -> list[str]:
    """All pages to the end."""
    found: list[str] = []
    behind: Mark | None = None
    while True:
        piece = page(database, wanted, behind, rows)
        found += ids_of(piece.rows)
        behind = piece.behind
        if behind is None:
            return found


@pytest.fixture
def log(usage: UsageRepository) -> UsageRepository:
    """Twelve requests, two of each moment."""
    usage.insert(
        [
            a_record(
                f"request-{n:02d}",
                created_at=at(n // 2),
                user_id=f"user{n % 3}@example.eu",
                function_name="chat" if n % 2 else "code.review",
                key_id=f"key_{n % 4}",
                decision="teacher" if n % 4 == 1 else "session",
                status=("ok", "ok", "error", "interrupted", "refused", "ok")[n % 6],
                fallback_level=1 if n == 7 else 0,
                duration_ms=float(100 * n),
            )
            for n in range(12)
        ]
    )
    return usage


FILTERS = [
    pytest.param(UsageFilter(), id="all"),
    pytest.param(UsageFilter(user_id="user1@example.eu"), id="a user"),
    pytest.param(UsageFilter(key_id="key_1", function_name="chat"), id="a key and a function"),
    pytest.param(UsageFilter(decision="teacher"), id="a decision, which no index has"),
    pytest.param(UsageFilter(status="failed"), id="failed in either way"),
    pytest.param(UsageFilter(fallback=True), id="fallbacks"),
    pytest.param(UsageFilter(min_duration_ms=500, status="ok"), id="slow ones"),
    pytest.param(UsageFilter(any_of=(("user_id", ("user0@example.eu",)), ("key_id", ("key_3",)))), id="one of several"),
    pytest.param(
        UsageFilter(any_of=(("request_id", ("request-02",)), ("user_id", ("user1@example.eu",)))),
        id="one of several, which the index in the order of time does not hold",
    ),
    pytest.param(UsageFilter(user_id="user1@example.eu", fallback=True), id="a user's fallbacks"),
    pytest.param(UsageFilter(any_of=()), id="nothing"),
    pytest.param(UsageFilter(since=at(2), until=at(4)), id="a range"),
]


@pytest.mark.parametrize(
    ("most", "few"),
    [
        pytest.param(3, 0, id="looking at three rows at once"),
        pytest.param(3, 4, id="reading all of what has few"),
        pytest.param(100_000, 2_000, id="looking at all"),
    ],
)
@pytest.mark.parametrize("wanted", FILTERS)
def test_pages_hold_every_row_once_and_what_the_export_holds(
    database: Database, log: UsageRepository, monkeypatch: pytest.MonkeyPatch, wanted: UsageFilter, most: int, few: int
) -> None:
    monkeypatch.setattr(browse, "MOST_LOOKED_AT", most)
    monkeypatch.setattr(browse, "MOST_READ", most)
    monkeypatch.setattr(browse, "FEW", few)

    for rows in (1, 2, 5, 100):
        assert walk(database, wanted, rows) == ids_of(log.find(wanted))


def test_filters_mean_what_they_say(log: UsageRepository) -> None:
    assert ids_of(log.find(UsageFilter(status="failed", since=at(5)))) == []
    assert ids_of(log.find(UsageFilter(fallback=True))) == ["request-07"]
    assert ids_of(log.find(UsageFilter(min_duration_ms=1000))) == ["request-11", "request-10"]
    assert {row["status"] for row in log.find(UsageFilter(status="failed"))} == {"error", "interrupted"}


def test_neighbours_are_those_of_the_filter(database: Database, log: UsageRepository) -> None:
    row = log.get("request-07")
    assert row is not None

    assert beside(database, UsageFilter(), Mark.of(row)) == Beside("request-08", "request-06")
    assert beside(database, UsageFilter(decision="teacher"), Mark.of(row)) == Beside("request-09", "request-05")
    assert beside(database, UsageFilter(user_id="user0@example.eu"), Mark.of(row)) == Beside("request-09", "request-06")


def test_the_ends_of_the_log_have_one_neighbour(database: Database, log: UsageRepository) -> None:
    first, last = log.get("request-00"), log.get("request-11")
    assert first is not None
    assert last is not None

    assert beside(database, UsageFilter(), Mark.of(first)) == Beside("request-01", None)
    assert beside(database, UsageFilter(), Mark.of(last)) == Beside(None, "request-10")


def test_what_is_new_is_counted_and_not_beyond_a_limit(database: Database, log: UsageRepository) -> None:
    row = log.get("request-07")
    assert row is not None

    assert count_some(database, UsageFilter(), 100, Mark.of(row)) == 4
    assert count_some(database, UsageFilter(), 3, Mark.of(row)) == 3
    assert count_some(database, UsageFilter(decision="teacher"), 100, Mark.of(row)) == 1
    assert count_some(database, UsageFilter(), 100) == 12


def test_a_count_says_whether_it_is_all(
    database: Database, log: UsageRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = UsageFilter(decision="teacher")
    assert count(database, teacher, 10) == Counted(3, is_all=True)
    assert count(database, UsageFilter(), 5) == Counted(5, is_all=True)

    monkeypatch.setattr(browse, "MOST_LOOKED_AT", 5)

    assert count(database, teacher, 10) == Counted(1, is_all=False)


def test_an_order_says_among_how_many(
    database: Database, log: UsageRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "MOST_SORTED", 5)

    teacher = greatest(database, UsageFilter(decision="teacher"), "duration_ms", 9)
    user = greatest(database, UsageFilter(user_id="user1@example.eu"), "duration_ms", 9)

    assert (ids_of(teacher.rows), teacher.among, teacher.all_fit) == (["request-09"], 5, False)
    assert (len(user.rows), user.all_fit) == (4, True)


def test_the_greatest_come_first(database: Database, log: UsageRepository) -> None:
    log.insert([a_record("unknown", created_at=at(9), duration_ms=None)])

    assert ids_of(greatest(database, UsageFilter(), "duration_ms", 3).rows) == [
        "request-11",
        "request-10",
        "request-09",
    ]
    found = greatest(database, UsageFilter(decision="teacher"), "duration_ms", 9).rows
    assert ids_of(found) == ["request-09", "request-05", "request-01"]
    assert ids_of(greatest(database, UsageFilter(), "duration_ms", 100).rows)[-1] == "unknown"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("request-03", UsageFilter(request_id="request-03"), id="an id"),
        pytest.param("user1@", UsageFilter(user_id="user1@example.eu"), id="a part of a name"),
        pytest.param("code.review", UsageFilter(function_name="code.review"), id="a function"),
        pytest.param("key_2", UsageFilter(key_id="key_2"), id="a key"),
        pytest.param("nobody", UsageFilter(any_of=()), id="nothing"),
        pytest.param("100%_", UsageFilter(any_of=()), id="signs that a database might take for wildcards"),
        pytest.param("a\0b", UsageFilter(any_of=()), id="NUL"),
        pytest.param(
            "request-0",
            UsageFilter(any_of=(("request_id", tuple(f"request-0{n}" for n in range(10))),)),
            id="the beginning of several ids",
        ),
    ],
)
def test_a_text_is_narrowed_to_what_it_may_mean(
    database: Database, log: UsageRepository, text: str, expected: UsageFilter
) -> None:
    assert meaning(database, UsageFilter(), text) == expected


def test_a_text_that_may_mean_several_things_finds_them_all(database: Database, log: UsageRepository) -> None:
    log.insert([a_record("other", created_at=at(9), user_id="chat", function_name=None)])

    wanted = meaning(database, UsageFilter(), "chat")

    assert set(walk(database, wanted, 3)) == {"other", *(f"request-{n:02d}" for n in range(1, 12, 2))}
    assert meaning(database, replace(UsageFilter(), user_id="ann"), "key_1") == UsageFilter(
        user_id="ann", key_id="key_1"
    )
