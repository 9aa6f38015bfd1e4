"""What the dashboard's pages are made of, without a server: traffic, strip, timelines, filters, figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import gevent
import plotly.graph_objects as go
import pytest

from hermes.storage.pulse import STEPS_MS, Added, Group
from hermes.storage.turns import Turn
from hermes.upstream.changes import Change
from hermes.web.dashboard.charts import Chart, Series
from hermes.web.dashboard.flow import HEIGHT, Part, flow_of
from hermes.web.dashboard.views.circuits import timeline
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.pulse import Pulse, minute_of
from hermes.web.dashboard.views.sessions import Wanted, sessions_view
from hermes.web.dashboard.views.strip import strip_of
from hermes.web.dashboard.views.traces import Wanted as WantedTraces

NOON = datetime(2026, 5, 10, 12, 0, 30, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 5, 10, tzinfo=UTC)


def group(ago_min: int, requests: int = 1, **fields: Any) -> Group:
    """Requests that began so many minutes before noon."""
    usual: dict[str, Any] = {
        "minute": minute_of(NOON - 60 * ago_min),
        "tier": "simple",
        "model": "m",
        "endpoint": "m@h",
        "status": "ok",
        "is_fallback": False,
        "duration_class": 0,
        "requests": requests,
        "cost_usd": 0.0,
    }
    return Group(**{**usual, **fields})


def pulse_of(*groups: Group) -> Pulse:
    return Pulse(lambda after, since: Added(1, groups if after == 0 else ()), lambda: NOON)


def test_traffic_counts_each_row_once_however_often_it_is_looked_at() -> None:
    pulse = pulse_of(group(1, 40, cost_usd=0.25), group(5, 2, status="error"), group(90, 7, cost_usd=1.0))

    first, spent = pulse.traffic(MIDNIGHT)
    again, spent_again = pulse.traffic(MIDNIGHT)

    assert first.requests(60) == again.requests(60) == 42, "what is older than an hour is no traffic"
    assert spent == spent_again == 1.25, "but it was spent today"
    assert first.per_minute()[-1] == 40
    assert first.failed_share(60) == 2 / 42


def test_what_was_spent_before_midnight_does_not_count_today() -> None:
    pulse = Pulse(lambda after, since: Added(1, (group(13 * 60, 1, cost_usd=9.0),)), lambda: NOON)

    assert pulse.traffic(MIDNIGHT)[1] == 0


def test_refusals_are_no_failures_and_without_requests_nothing_is_known() -> None:
    traffic, _ = pulse_of(group(1, 3, status="refused", endpoint=None)).traffic(MIDNIGHT)

    assert traffic.failed_share(60) is None
    assert traffic.fallback_share(60) is None
    assert traffic.percentile_ms(60, 0.95) is None


def test_a_percentile_is_the_class_under_which_the_share_stayed() -> None:
    traffic, _ = pulse_of(group(1, 95, duration_class=3), group(1, 5, duration_class=20)).traffic(MIDNIGHT)

    assert traffic.percentile_ms(60, 0.95) == STEPS_MS[3]
    assert traffic.percentile_ms(60, 0.96) == STEPS_MS[20]


def test_the_strip_goes_without_the_log() -> None:
    strip = strip_of(is_on=True, states=["open", "closed"], sessions=3, traffic=None, limit_usd=10.0)

    assert (strip.circuits_open, strip.per_minute, strip.spent_usd, strip.used_percent) == (1, None, None, None)
    assert {name: count.text for name, count in strip.counts.items()} == {"sessions": "3", "circuits": "1 open"}


def test_the_last_hour_of_a_circuit_is_whole_and_in_order() -> None:
    changes = [
        Change(NOON - 60, "e", "half_open", "open", 3),
        Change(NOON - 600, "e", "open", "half_open", 3),
        Change(NOON - 1800, "e", "closed", "open", 3),
    ]

    found = timeline(changes, "open", NOON)

    assert [stretch.kind for stretch in found] == ["", "open", "half", "open"]
    assert [stretch.start for stretch in found] == [0.0, 50.0, 83.33, 98.33]
    assert found[-1].start + found[-1].length == pytest.approx(100, abs=0.01)


def test_a_short_outage_is_long_enough_to_be_seen() -> None:
    (_, outage) = timeline([Change(NOON - 1, "e", "closed", "open", 3)], "open", NOON)

    assert outage.length >= 1.5
    assert outage.start + outage.length == 100


def session(tier: str = "simple", age: float = 10.0, user: str | None = None) -> dict[str, Any]:
    return {"tier": tier, "age_sec": age, "remaining_sec": 300 - age, "user_id": user, "model": "m"}


def no_turns(keys: Sequence[str]) -> dict[str, tuple[Turn, ...]]:
    return {}


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        pytest.param({}, ["a1", "b2", "c3"], id="all, the youngest first"),
        pytest.param({"q": "ANNA"}, ["b2"], id="a user, in any case"),
        pytest.param({"q": "c3"}, ["c3"], id="a key"),
        pytest.param({"tier": "complex"}, ["b2"], id="a tier"),
        pytest.param({"tier": "huge", "rows": "no", "sort": "colour"}, ["a1", "b2", "c3"], id="nonsense"),
        pytest.param({"sort": "left"}, ["c3", "b2", "a1"], id="those that end first"),
        pytest.param({"rows": "1"}, ["a1"], id="one row"),
    ],
)
def test_sessions_are_found_by_what_the_address_asks_for(query: dict[str, str], keys: list[str]) -> None:
    known = {"a1": session(age=1), "b2": session("complex", 2, "anna"), "c3": session(age=3)}

    view = sessions_view(known, Wanted.parse(query), 300, no_turns)

    assert [row.key for row in view.rows] == keys
    assert view.total == 3


def test_sessions_are_shown_without_their_turns_where_the_log_is_away() -> None:
    def away(keys: Sequence[str]) -> dict[str, tuple[Turn, ...]]:
        raise OSError

    view = sessions_view({"a1": session()}, Wanted(), 300, away)

    assert [row.key for row in view.rows] == ["a1"]
    assert "cannot be read" in view.trouble


def test_the_address_of_what_is_usual_is_short() -> None:
    assert Wanted.parse({"q": " ", "sort": "age", "rows": "50"}).query() == {}
    assert Wanted.parse({"q": "x", "tier": "simple"}).query(open="k") == {"q": "x", "tier": "simple", "open": "k"}


def test_a_trace_is_found_by_any_text_in_it() -> None:
    event = {"event": "route", "session_key": "abc", "model": "Big"}

    assert WantedTraces.parse({"q": "big"}).fits(event)
    assert not WantedTraces.parse({"q": "small"}).fits(event)
    assert not WantedTraces.parse({"event": "classify"}).fits(event)


def test_what_many_ask_for_at_once_is_made_once() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        gevent.sleep(0.01)
        return len(made)

    kept = Kept(make, for_s=60)

    jobs = [gevent.spawn(kept.get) for _ in range(20)]
    gevent.joinall(jobs)

    assert {job.value for job in jobs} == {1}
    kept.forget()
    assert kept.get() == 2


@pytest.mark.parametrize(("cost_s", "kept_s"), [(0.01, 4.0), (1.0, 30.0)])
def test_what_was_quickly_made_is_soon_made_anew(cost_s: float, kept_s: float) -> None:
    now, made = [0.0], [0]

    def make() -> int:
        now[0] += cost_s
        made[0] += 1
        return made[0]

    kept = Kept(make, for_s=30, clock=lambda: now[0])
    kept.get()

    now[0] = kept_s - 0.1
    assert kept.get() == 1
    now[0] = kept_s + 0.1
    assert kept.get() == 2


def test_what_failed_to_be_made_is_made_anew() -> None:
    outcomes = iter([OSError("away"), None])

    def make() -> str:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "made"

    kept = Kept(make, for_s=60)
    with pytest.raises(OSError, match="away"):
        kept.get()

    assert kept.get() == "made"


def chart(**fields: Any) -> Chart:
    series = [
        Series("simple", [1, None, 3], "simple", "area"),
        Series("failed", [0, 1, 0], "bad", "bars", axis="y2"),
        Series("confidence", [0.5, 0.6, 0.7], "line", "steps", "%", 1),
    ]
    return Chart("Hour", ["2026-05-10", "2026-05-11", "2026-05-12"], series, **fields)


def test_plotly_takes_the_figures_as_they_are() -> None:
    figure = chart(targets=[(85.0, "target")], layout={"yaxis2": {"overlaying": "y"}}).figure()

    taken = go.Figure(data=figure["traces"], layout=go.Layout(barmode=figure["layout"]["barmode"]))

    assert [trace.type for trace in taken.data] == ["scatter", "bar", "scatter"]
    assert "color" not in chart().json(), "the server sends roles and no colours"


def test_a_figure_is_a_table_too() -> None:
    assert chart().head() == ["Hour", "simple", "failed", "confidence (%)"]
    assert next(iter(chart().rows())) == ["2026-05-10", "1", "0", "0.5"]


def test_a_figure_cannot_end_the_element_it_stands_in() -> None:
    text = Chart("x", ["</script><script>alert(1)"], [Series("<!--", [1], "simple")]).json()

    assert "<" not in text
    assert ">" not in text


def test_the_flow_keeps_every_request_and_fits_its_height() -> None:
    sources = [Part("Session cache", 600, 200), Part("Surrogate", 150, 49), Part("Teacher", 1, 0), Part("None", 0, 0)]
    targets = [Part("small", 740, 0), Part("large", 0, 249), Part("other", 10, 0, "fallback 1"), Part("Failed", 1, 0)]

    flow = flow_of(sources, targets)

    assert flow is not None
    assert [node.label for node in flow.sources] == ["Session cache", "Surrogate", "Teacher"]
    for nodes in (flow.sources, flow.tiers, flow.targets):
        assert all(a.top + a.size <= b.top + 0.2 for a, b in pairwise(nodes))
        assert nodes[-1].top + nodes[-1].size <= HEIGHT + 1
    assert len(flow.into) == 5
    assert flow_of([], targets) is None
