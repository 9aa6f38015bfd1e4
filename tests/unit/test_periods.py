"""A budget's period is a calendar period where the operator lives, also on the days when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.admission.periods import period_bounds, utc_text
from hermes.directory import Period


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("period", "zone", "now", "start", "end"),
    [
        pytest.param("day", "UTC", "2026-05-10T13:00Z", "2026-05-10T00:00:00Z", "2026-05-11T00:00:00Z", id="a day"),
        pytest.param(
            "day", "UTC", "2026-05-10T00:00Z", "2026-05-10T00:00:00Z", "2026-05-11T00:00:00Z", id="its first moment"
        ),
        pytest.param(
            "day", "UTC", "2026-05-10T23:59:59.999Z", "2026-05-10T00:00:00Z", "2026-05-11T00:00:00Z", id="its last"
        ),
        pytest.param(
            "day", "Asia/Dubai", "2026-05-10T21:00Z", "2026-05-10T20:00:00Z", "2026-05-11T20:00:00Z", id="elsewhere"
        ),
        pytest.param(
            "day",
            "America/New_York",
            "2024-11-03T12:00Z",
            "2024-11-03T04:00:00Z",
            "2024-11-04T05:00:00Z",
            id="25 hours in New York",
        ),
        pytest.param(
            "day",
            "America/New_York",
            "2024-11-03T06:30Z",
            "2024-11-03T04:00:00Z",
            "2024-11-04T05:00:00Z",
            id="in the hour that comes twice",
        ),
        pytest.param(
            "day",
            "America/New_York",
            "2024-03-10T12:00Z",
            "2024-03-10T05:00:00Z",
            "2024-03-11T04:00:00Z",
            id="23 hours in New York",
        ),
        pytest.param(
            "day",
            "America/Sao_Paulo",
            "2018-11-04T12:00Z",
            "2018-11-04T03:00:00Z",
            "2018-11-05T02:00:00Z",
            id="a midnight that is skipped",
        ),
        pytest.param(
            "day",
            "America/Havana",
            "2024-11-03T12:00Z",
            "2024-11-03T04:00:00Z",
            "2024-11-04T05:00:00Z",
            id="a midnight that comes twice",
        ),
        pytest.param(
            "day",
            "Pacific/Apia",
            "2011-12-30T09:00Z",
            "2011-12-29T10:00:00Z",
            "2011-12-30T10:00:00Z",
            id="before a day that does not exist",
        ),
        pytest.param(
            "week", "UTC", "2026-05-10T13:00Z", "2026-05-04T00:00:00Z", "2026-05-11T00:00:00Z", id="Sunday ends a week"
        ),
        pytest.param(
            "week", "UTC", "2026-05-11T00:00Z", "2026-05-11T00:00:00Z", "2026-05-18T00:00:00Z", id="Monday begins one"
        ),
        pytest.param(
            "week",
            "Europe/Berlin",
            "2026-03-29T12:00Z",
            "2026-03-22T23:00:00Z",
            "2026-03-29T22:00:00Z",
            id="a week with a change of clocks",
        ),
        pytest.param(
            "month", "UTC", "2024-01-31T13:00Z", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", id="31 January"
        ),
        pytest.param(
            "month", "UTC", "2024-02-29T13:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", id="a leap day"
        ),
        pytest.param(
            "month", "UTC", "2026-12-31T23:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", id="the year's end"
        ),
        pytest.param(
            "month",
            "America/New_York",
            "2024-11-01T03:59Z",
            "2024-10-01T04:00:00Z",
            "2024-11-01T04:00:00Z",
            id="still October in New York",
        ),
    ],
)
def test_a_period_is_the_calendars(period: Period, zone: str, now: str, start: str, end: str) -> None:
    begins, ends = period_bounds(period, zone, at(now))

    assert (utc_text(begins), utc_text(ends)) == (start, end)


@given(
    st.sampled_from(["day", "week", "month"]),
    st.sampled_from(["UTC", "America/New_York", "America/Havana", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Apia"]),
    st.floats(at("2009-01-01T00:00Z"), at("2030-01-01T00:00Z")),
)
def test_each_moment_is_in_one_period_and_the_next_begins_where_it_ends(period: Period, zone: str, now: float) -> None:
    start, end = period_bounds(period, zone, now)

    assert start <= datetime.fromtimestamp(now, UTC) < end
    assert period_bounds(period, zone, start.timestamp())[0] == start
    assert period_bounds(period, zone, end.timestamp())[0] == end
    assert period_bounds(period, zone, (end - timedelta(microseconds=1)).timestamp()) == (start, end)


def test_the_zone_of_a_moment_is_utc() -> None:
    start, _ = period_bounds("day", "Asia/Tokyo", 0)

    assert start.tzinfo is UTC
    assert start.astimezone(ZoneInfo("Asia/Tokyo")).hour == 0
