"""The usage log's page without a server: its address, its filters, the bars, one request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermes.storage.browse import Mark
from hermes.storage.reports import Bar, Point, Sums
from hermes.storage.repositories import SHOWN_NAMES
from hermes.storage.usage_filter import UsageFilter, utc_text
from hermes.web.dashboard.views.bars import Plan, bars_of, of_points, plan
from hermes.web.dashboard.views.usage import Wanted, chips_of, line_of, picks_of, saved_view
from hermes.web.dashboard.views.usage_request import request_view

NOON = datetime(2026, 5, 10, 12, 0, tzinfo=UTC)


def a_row(**fields: Any) -> dict[str, Any]:
    """A row of the log that went well."""
    usual = {"id": 7, "created_at": "2026-05-10T11:59:50.000Z", "request_id": "req_1", "route": "/v1/chat/completions"}
    more = {"tier": "simple", "model": "m", "endpoint": "m@h", "decision": "surrogate", "confidence": 0.93}
    ended = {"status": "ok", "attempts": 1, "duration_ms": 1000.0, "ttft_ms": 400.0, "overhead_ms": 100.0}
    flags = {"stream": True, "usage_estimated": False}
    return {**dict.fromkeys(SHOWN_NAMES), **usual, **more, **ended, **flags, **fields}


def a_receipt(row: dict[str, Any], attempts: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """As `hermes.accounting.receipt` makes it."""
    one = {"endpoint": "m@h", "model": "m", "status": 200, "message": "answered", "called": True, "duration_ms": None}
    told = ["It was decided.", "m answered."]
    return {
        "row": row,
        "decision": told,
        "attempts": attempts or [one],
        "residency": None,
        "masked": [],
        "other_tier": None,
    }


@pytest.mark.parametrize(
    ("args", "query"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"range": "24h", "q": " "}, {}, id="what is usual is left out"),
        pytest.param({"status": "failed", "user_id": "ann"}, {"status": "failed", "user_id": "ann"}, id="filters"),
        pytest.param({"status": "fine", "tier": "x", "fallback": "0", "sort": "id"}, {}, id="no sense"),
        pytest.param({"min_duration_ms": "٣", "user_id": "a\0b", "range": "9y"}, {}, id="more nonsense"),
        pytest.param(
            {"from": "2026-05-10", "to": "x", "range": "1h"},
            {"from": "2026-05-10T00:00:00.000Z"},
            id="a range of one's own counts instead of the named one",
        ),
    ],
)
def test_what_makes_no_sense_in_an_address_is_as_if_it_were_not_there(
    args: dict[str, str], query: dict[str, str]
) -> None:
    assert Wanted.parse(args).query() == query


def test_an_address_says_what_is_asked_of_the_log() -> None:
    wanted = Wanted.parse({"range": "1h", "decision": "teacher", "before": "2026-05-10T11:00:00.000Z~5"})

    assert wanted.filter(NOON) == UsageFilter(decision="teacher", since="2026-05-10T11:00:00.000Z")
    assert wanted.before == Mark("2026-05-10T11:00:00.000Z", 5)
    assert Wanted.parse({"range": "all"}).filter(NOON) == UsageFilter()
    assert Wanted.parse({"before": "2026-05-10T11:00:00.000Z~x"}).before is None


def test_filters_that_are_on_are_chips_and_the_others_are_offered() -> None:
    wanted = Wanted.parse({"status": "failed", "q": "a\u202eb", "min_duration_ms": "5000"})

    chips = chips_of(wanted, lambda without: f"{len(without.filters)} filters")

    assert [(chip.label, chip.value, chip.left) for chip in chips] == [
        ("Status", "Failed or broken off", "1 filters"),
        ("Slower than", "5 s", "1 filters"),
        ("Text", "a b", "2 filters"),
    ]
    picks = {pick.name: pick for pick in picks_of(wanted, {"model": ["m1", ""]})}
    assert "status" not in picks
    assert picks["model"].options == [("m1", "m1")]
    assert [value for value, _ in picks["tier"].options] == ["simple", "complex"]


@pytest.mark.parametrize(
    ("args", "name"),
    [
        pytest.param({"user_id": "ann"}, "All", id="other filters do not matter"),
        pytest.param({"status": "failed"}, "Failed", id="failed"),
        pytest.param({"fallback": "1"}, "Fallback", id="fallback"),
        pytest.param({"min_duration_ms": "5000"}, "Slow", id="slow"),
        pytest.param({"status": "ok", "fallback": "1"}, "", id="none of them"),
    ],
)
def test_a_saved_view_is_known_by_its_filters(args: dict[str, str], name: str) -> None:
    assert saved_view(Wanted.parse(args)) == name


def test_a_row_shows_tries_only_where_there_is_something_to_tell() -> None:
    assert line_of(a_row(), NOON).tries == ""
    assert line_of(a_row(attempts=3), NOON).tries == "ffo"
    failed = line_of(a_row(attempts=1, status="error"), NOON)
    assert (failed.tries, failed.model, failed.is_bad, failed.status) == ("f", "", True, "Failed")
    assert line_of(a_row(user_id="a\x1bb"), NOON).user_id == "a b"


@pytest.mark.parametrize(
    ("hours", "chars"), [(1, 16), (6, 15), (24, 15), (24 * 7, 13), (24 * 30, 10)], ids=["1h", "6h", "24h", "7d", "30d"]
)
def test_steps_of_the_figure_grow_with_the_range(hours: int, chars: int) -> None:
    asked = plan(UsageFilter(since=utc_text(NOON - timedelta(hours=hours))), NOON)

    assert asked.chars == chars
    assert 5 < len(list(bars_of([], asked).chart.x)) < 200


def test_an_hour_of_last_month_is_told_by_the_hour() -> None:
    wanted = UsageFilter(since="2026-04-01T12:00:00.000Z", until="2026-04-01T13:00:00.000Z")

    assert plan(wanted, NOON).chars == 13, "the sums of minutes are gone by then"


def test_the_figure_says_when_it_cannot_follow_the_filters() -> None:
    since = utc_text(NOON - timedelta(hours=1))

    assert plan(UsageFilter(since=since, tier="simple", status="failed"), NOON).is_exact
    assert plan(UsageFilter(since=since, model="m"), NOON).chars == 13
    assert plan(UsageFilter(since=since, user_id="ann"), NOON).named == "user"
    assert not plan(UsageFilter(since=since, user_id="ann", tier="simple"), NOON).is_exact
    assert not plan(UsageFilter(since=since, any_of=()), NOON).is_exact


def test_bars_count_failures_apart_and_fill_gaps_with_nothing() -> None:
    asked = Plan(NOON, NOON + timedelta(minutes=3), 16)
    found = [Bar("2026-05-10T12:00", "simple", "ok", 3), Bar("2026-05-10T12:02", "complex", "error", 2)]

    bars = bars_of(found, asked)

    assert list(bars.chart.x) == [f"2026-05-10T12:0{minute}:00Z" for minute in range(3)]
    assert {one.name: list(one.values) for one in bars.chart.series} == {
        "complex": [0, 0, 0],
        "simple": [3, 0, 0],
        "failed": [0, 0, 2],
    }
    assert (bars.requests, bars.failed) == (5, 2)
    assert "5 in all, 2 of them failed" in bars.sentence


def test_bars_of_one_name_have_no_tier() -> None:
    asked = Plan(NOON, NOON + timedelta(hours=1), 13, named="user", name="ann")

    bars = bars_of(of_points([Point("2026-05-10T12", "ann", Sums(requests=5, failed=1))]), asked)

    assert {one.name: list(one.values) for one in bars.chart.series} == {"requests": [4], "failed": [1]}


def test_the_steps_lead_to_the_one_that_has_decided() -> None:
    steps = request_view(a_receipt(a_row())).steps

    assert [(step.name, step.kind) for step in steps] == [
        ("Override keyword", ""),
        ("Session cache", ""),
        ("Surrogate", "hit"),
        ("m", "end"),
    ]
    assert steps[2].percent == pytest.approx(93)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        pytest.param({"decision": "header"}, ["The caller", "m"], id="forced"),
        pytest.param({"decision": None, "status": "refused"}, ["No decision", "Nobody answered"], id="refused before"),
        pytest.param(
            {"decision": "default"},
            ["Override keyword", "Session cache", "Surrogate", "Teacher", "Default tier", "m"],
            id="nothing could decide",
        ),
    ],
)
def test_each_way_of_deciding_has_its_steps(fields: dict[str, Any], names: list[str]) -> None:
    assert [step.name for step in request_view(a_receipt(a_row(**fields))).steps] == names


def test_the_waterfall_fills_the_whole_time_once() -> None:
    failed = {"endpoint": "a@h", "model": "a", "status": 503, "message": "no", "called": True, "duration_ms": 300.0}
    skipped = {**failed, "called": False, "message": "skipped: its circuit is open", "duration_ms": 0.0}
    answered = {**failed, "model": "m", "status": 200, "message": "answered", "duration_ms": 50.0}

    view = request_view(a_receipt(a_row(ttft_ms=700.0, attempts=2), [failed, skipped, answered]))

    assert view.waterfall is not None
    assert [[(s.kind, s.start, s.length) for s in track.stretches] for track in view.waterfall.tracks] == [
        [("gw", 0.0, 10.0)],
        [("fail", 10.0, 30.0)],
        [("wait", 40.0, 30.0), ("run", 70.0, 30.0)],
    ]
    assert [one.said for one in view.attempts] == ["no", "its circuit is open", "200"]
    assert [place for place, _ in view.waterfall.marks] == sorted(place for place, _ in view.waterfall.marks)


def test_what_was_not_stored_is_not_there_and_what_was_is_shown_as_it_is() -> None:
    assert request_view(a_receipt(a_row(duration_ms=None))).waterfall is None
    assert request_view(a_receipt(a_row())).prompt is None
    assert request_view(a_receipt(a_row(prompt_preview="=1+1\r\n\x07<b>\u200d"))).prompt == "=1+1\n‹U+0007›<b>\u200d"
