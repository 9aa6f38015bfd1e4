"""The usage log as a table, one request's receipt, and the commands that look at a running server's files."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

import pytest

from .client import Answer
from .gateway import ADMIN_KEY, Gateway, new_user
from .manyrows import multiply_in_sqlite
from .replies import broken_stream, error
from .world import World


def table_of(world: World, **filters: str) -> tuple[Answer, list[dict[str, str]]]:
    answer = world.gateway.admin("GET", f"/admin/usage.csv?{urlencode(filters)}")
    return answer, list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))


# -- the table --------------------------------------------------------------------------------------------


def test_a_table_has_all_rows_that_the_log_has(world: World) -> None:
    user = new_user()
    for _ in range(3):
        world.gateway.chat(user=user)
    rows = world.gateway.usage(wanted=3, user_id=user)

    answer, table = table_of(world, user_id=user)

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="hermes-usage_user_id-{user}.csv"'
    assert [list(line) for line in table] == [list(row) for row in rows]
    assert [line["request_id"] for line in table] == [row["request_id"] for row in rows]
    assert {line["prompt_tokens"] for line in table} == {"11"}


def test_a_table_is_not_bounded_by_a_page_unless_that_is_asked_for(world: World) -> None:
    user = new_user()
    for _ in range(120):
        world.gateway.chat(user=user)

    assert len(table_of(world, user_id=user)[1]) == 120
    assert len(table_of(world, user_id=user, limit="50", page="3")[1]) == 20


def test_the_newest_row_is_in_it_at_once(world: World) -> None:
    got = world.gateway.chat()

    assert len(table_of(world, request_id=got.request_id)[1]) == 1


def test_texts_that_would_be_formulas_are_none(world: World) -> None:
    got = world.gateway.chat("=1+1", user="@SUM(1+1)")

    (line,) = table_of(world, request_id=got.request_id)[1]

    assert (line["prompt_preview"], line["user_id"]) == ("'=1+1", "'@SUM(1+1)")


def test_nothing_is_a_header_alone(world: World) -> None:
    answer, table = table_of(world, user_id="nobody")

    assert table == []
    assert answer.body.startswith(b"id,created_at,request_id,")


@pytest.mark.parametrize(
    ("filters", "name"),
    [
        pytest.param({}, "hermes-usage.csv", id="all"),
        pytest.param(
            {"status": "error", "from": "2026-05-01T12:00:00Z"},
            "hermes-usage_status-error_from-2026-05-01T12-00-00Z.csv",
            id="two filters",
        ),
        pytest.param({"user_id": '../"a\r\nX: 1'}, "hermes-usage_user_id-a-X-1.csv", id="what no name may hold"),
    ],
)
def test_the_files_name_tells_what_is_in_it(world: World, filters: dict[str, str], name: str) -> None:
    answer, _ = table_of(world, **filters)

    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


@pytest.mark.parametrize(
    ("user", "plain", "encoded"),
    [
        pytest.param("用户", "--", "%E7%94%A8%E6%88%B7", id="beyond Latin"),
        pytest.param("Jürgen", "J-rgen", "J%C3%BCrgen", id="Latin"),
    ],
)
def test_a_name_that_is_not_ascii_is_told_twice(world: World, user: str, plain: str, encoded: str) -> None:
    got = world.gateway.chat(user=user)
    world.gateway.row(got)

    answer, table = table_of(world, user_id=user)

    assert (answer.status, [line["user_id"] for line in table]) == (200, [user])
    assert answer.headers["content-disposition"] == (
        f'attachment; filename="hermes-usage_user_id-{plain}.csv"; '
        f"filename*=UTF-8''hermes-usage_user_id-{encoded}.csv"
    )


@pytest.mark.parametrize(
    ("field", "value"), [("from", "yesterday"), ("tier", "medium"), ("limit", "0"), ("userid", "a")]
)
def test_a_wrong_filter_is_refused_before_anything_is_written(world: World, field: str, value: str) -> None:
    answer, _ = table_of(world, **{field: value})

    assert (answer.status, answer.error["param"]) == (400, field)


def test_half_a_table_never_ends_as_if_it_were_whole() -> None:
    """Where the database fails while the file is being written."""
    gateway = Gateway.start()
    path = f"/admin/usage.csv?user_id={(user := new_user())}"
    try:
        gateway.row(gateway.chat(user=user))
        multiply_in_sqlite(gateway.folder / "hermes.db", 30_000)
        with closing(sqlite3.connect(gateway.folder / "hermes.db")) as database:
            exchange = gateway.open("GET", path, {"Authorization": f"Bearer {ADMIN_KEY}"})
            exchange.read_until(b"req_")
            with database:
                database.execute("ALTER TABLE ai_usage_logs RENAME TO gone")
        cut = exchange.read_all()
    finally:
        gateway.stop()

    assert cut.status == 200
    assert cut.problem
    assert cut.body.count(b"\r\n") < 30_000


# -- the receipt ------------------------------------------------------------------------------------------


def receipt_of(world: World, answer: Answer) -> Any:
    got = world.gateway.admin("GET", f"/admin/usage/{answer.request_id}")
    assert got.status == 200
    return got.json


def test_a_receipt_tells_what_happened_step_by_step(world: World) -> None:
    world.primary.script(error(500))

    told = receipt_of(world, got := world.gateway.chat())

    assert told["row"] == world.gateway.row(got)
    assert told["decision"] == [
        "The caller asked for the simple tier, by header or as the model.",
        "primary-model was asked: the provider answered 500: no.",
        "fallback-model answered, fallback 1 of the tier.",
    ]
    assert [(attempt["model"], attempt["status"]) for attempt in told["attempts"]] == [
        ("primary-model", 500),
        ("fallback-model", 200),
    ]
    assert told["masked"] == []
    assert told["price"] == {"model": "fallback-model", "usd": pytest.approx((11 * 1 + 7 * 2) / 1e6)}


def test_a_receipt_says_what_the_other_tier_would_have_cost(world: World) -> None:
    world.configure(complex=[world.endpoint(world.lone, price={"input_per_mtok": 10.0, "output_per_mtok": 20.0})])

    told = receipt_of(world, world.gateway.chat())

    assert told["other_tier"] == {"tier": "complex", "model": "lone-model", "usd": pytest.approx(25e-5)}


def test_a_receipt_of_a_broken_stream_and_of_a_refused_request(world: World) -> None:
    world.primary.script(broken_stream("half"))
    broken = receipt_of(world, world.gateway.chat(stream=True))
    refused = receipt_of(world, world.gateway.chat(tier="medium"))

    assert broken["decision"][1] == "primary-model answered, the first choice of the tier."
    assert broken["decision"][2].startswith("The provider broke off its stream")
    assert refused["decision"][0] == "The request ended before a tier was chosen."
    assert refused["other_tier"] is None


@pytest.mark.parametrize("name", ["none-such", "a%00b", "%F0%9F%98%80", "x" * 3000])
def test_a_receipt_of_nothing_is_404(world: World, name: str) -> None:
    got = world.gateway.admin("GET", f"/admin/usage/{name}")

    assert got.status == 404
    assert set(got.error) == {"message", "type", "param", "code"}


# -- the commands -----------------------------------------------------------------------------------------


def test_rows_can_be_exported_while_the_server_runs(world: World) -> None:
    user = new_user()
    got = world.gateway.chat(user=user)
    world.gateway.row(got)

    done = world.gateway.command("usage", "export", "--json", "--user", user)

    assert (done.returncode, done.stderr) == (0, "Rows written: 1. Still in the spool, so not among them: none.\n")
    assert json.loads(done.stdout) == world.gateway.row(got)


def test_the_traces_of_one_request_can_be_shown(world: World) -> None:
    got = world.gateway.chat("thanks!", tier=None)

    as_json = world.gateway.command("traces", "tail", "--request", got.request_id, "--json")
    lines = world.gateway.command("traces", "tail", "--request", got.request_id)

    events = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert events == world.gateway.traces(request_id=got.request_id)
    assert [event["event"] for event in events] == [line.split()[2] for line in lines.stdout.splitlines()]
    assert events[-1]["event"] == "route"
    assert (as_json.returncode, lines.returncode) == (0, 0)
