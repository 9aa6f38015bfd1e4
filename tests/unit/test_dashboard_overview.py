"""What the overview says, without a server: the sentences that need somebody, figures, the flow, minutes, rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hermes.directory import Action, Budget
from hermes.policy import Policy
from hermes.storage.consumption import Consumption
from hermes.storage.latest import Latest
from hermes.storage.pulse import Group
from hermes.storage.reports import Flow, Latency, Minute, Point, Sums, Totals
from hermes.types import Cascade, Endpoint, Tier, Usage
from hermes.upstream.breaker import Circuit
from hermes.upstream.changes import Change
from hermes.web.dashboard.views.attention import MOST, Log, Sentence, attention
from hermes.web.dashboard.views.circuits import CircuitsView, Keys, circuits_view
from hermes.web.dashboard.views.limits import Limit
from hermes.web.dashboard.views.overview import Facts, flow_view, kpis_of, latest_rows, minutes_view
from hermes.web.dashboard.views.pulse import Traffic, minute_of
from hermes.web.dashboard.views.savings import saved_usd

NOW = datetime(2026, 5, 10, 12, 0, 30, tzinfo=UTC)
AT = NOW.timestamp()
HOURS = ["2026-05-10T10", "2026-05-10T11", "2026-05-10T12"]


def endpoint(name: str) -> Endpoint:
    return Endpoint(f"{name}@h", name, "http://h", "http://h")


def policy() -> Policy:
    tiers: dict[Tier, tuple[str, ...]] = {"simple": ("small", "small-b", "small-c"), "complex": ("large", "large-b")}
    return Policy({tier: Cascade(tier, tuple(map(endpoint, names)), 60.0) for tier, names in tiers.items()})


def circuits(**states: str) -> CircuitsView:
    """The circuits' page; those that are not named are closed."""
    found = [
        Circuit(one, states.get(one.model.replace("-", "_"), "closed"), 3, None, 18.0)  # type: ignore[arg-type]
        for one in policy().endpoints().values()
    ]
    changes = [Change(AT - 42, one.endpoint.id, "closed", "open", 3) for one in found if one.state == "open"]
    return circuits_view(policy(), found, changes, None, lambda _: Keys(0, 0, None), lambda _: None, AT)


def needs(**given: Any) -> tuple[Sentence, ...]:
    usual: dict[str, Any] = {
        "stopped_by": "",
        "circuits": circuits(),
        "traffic": None,
        "limits": (),
        "log": Log(),
        "now": AT,
    }
    return attention(**{**usual, **given})


def limit(used: float, action: Action = "block", reached_at: float | None = None, name: str = "ops") -> Limit:
    budget = Budget("user", name, "day", "usd", 15 * 10**9, action)
    return Limit(budget, name, "User", used * 15, 15.0, None, reached_at, AT + 12 * 3600 - 30)


def traffic(failed: int, answered: int) -> Traffic:
    minute = minute_of(AT - 60)
    groups = [
        Group(minute, "simple", "m", "e", status, False, 0, number, 0.0)
        for status, number in (("error", failed), ("ok", answered))
    ]
    return Traffic([minute_of(AT - 60), minute_of(AT)], {minute: groups})


def test_while_nothing_is_wrong_nothing_is_said() -> None:
    calm = needs(limits=[limit(0.79)], traffic=traffic(0, 100), log=Log(waiting=3))

    assert calm == ()


@pytest.mark.parametrize(
    ("given", "kind", "title", "text", "label"),
    [
        pytest.param(
            {"stopped_by": "pin"},
            "bad",
            "The gateway is stopped.",
            "Completions are answered with 503.",
            "Start",
            id="stopped",
        ),
        pytest.param(
            {"stopped_by": "OFF"}, "bad", "The gateway is stopped.", "Remove the file OFF to start it.", "", id="a file"
        ),
        pytest.param(
            {"circuits": circuits(small="open")},
            "bad",
            "small is open.",
            "Simple traffic is on small-b.",
            "Reset",
            id="open",
        ),
        pytest.param(
            {"circuits": circuits(large="half_open")},
            "warn",
            "large is being probed.",
            "Complex traffic is on large-b. One success closes it.",
            "Reset",
            id="probed",
        ),
        pytest.param(
            {"circuits": circuits(large="open", large_b="open", small="open")},
            "bad",
            "3 circuits are not closed.",
            "3 of 5 are open.",
            "Circuits",
            id="many",
        ),
        pytest.param(
            {"traffic": traffic(3, 27)},
            "bad",
            "10% of requests have failed.",
            "Of 30 in the last 15 minutes.",
            "Show them",
            id="failing",
        ),
        pytest.param(
            {"limits": [limit(0.92, reached_at=AT + 3 * 3600)]},
            "warn",
            "ops has used 92% of $15.00.",
            "At this rate it is blocked at 15:00 UTC.",
            "Change budget",
            id="near",
        ),
        pytest.param(
            {"limits": [limit(0.92)]},
            "warn",
            "ops has used 92% of $15.00.",
            "At this rate it lasts until it resets at 00:00 UTC.",
            "Change budget",
            id="near and lasting",
        ),
        pytest.param(
            {"limits": [limit(1.04)]},
            "bad",
            "ops has used 104% of $15.00.",
            "Until 00:00 UTC its requests are refused.",
            "Change budget",
            id="blocking",
        ),
        pytest.param(
            {"limits": [limit(1.04, "downgrade")]},
            "warn",
            "ops has used 104% of $15.00.",
            "Until 00:00 UTC the simple tier answers.",
            "Change budget",
            id="downgrading",
        ),
        pytest.param(
            {"log": Log(waiting=1234)},
            "warn",
            "1,234 usage rows wait in the spool.",
            "Figures here are behind; nothing is lost.",
            "Readiness",
            id="waiting",
        ),
        pytest.param(
            {"log": Log(missing=2)},
            "bad",
            "2 usage rows are missing.",
            "They were written and are not in the log; spending is too low.",
            "Readiness",
            id="missing",
        ),
        pytest.param(
            {"log": Log(waiting=1234, trouble="the disk is full")},
            "bad",
            "The usage log is in trouble.",
            "The disk is full.",
            "Readiness",
            id="trouble",
        ),
    ],
)
def test_what_needs_somebody_is_said_with_what_to_do(
    given: dict[str, Any], kind: str, title: str, text: str, label: str
) -> None:
    (found,) = needs(**given)

    assert (found.kind, found.title, found.text, found.label) == (kind, title, text, label)
    assert bool(found.href or found.post) == bool(label)


def test_there_are_at_most_five_sentences_and_the_worst_come_first() -> None:
    found = needs(
        stopped_by="pin",
        circuits=circuits(small="open", large="half_open"),
        traffic=traffic(30, 10),
        limits=[limit(0.9, name=str(number)) for number in range(4)],
        log=Log(missing=1),
    )

    assert len(found) == MOST
    assert [one.kind for one in found] == ["bad"] * 4 + ["warn"]
    assert [one.id for one in found[:2]] == ["stopped", "missing"]


def test_a_few_failures_among_few_requests_are_no_sentence() -> None:
    assert needs(traffic=traffic(3, 4)) == ()


def test_many_budgets_share_a_sentence() -> None:
    found = needs(limits=[limit(0.9, name=str(number)) for number in range(4)])

    assert [one.title for one in found] == ["0 has used 90% of $15.00.", "3 more budgets are near their limits."]


def test_an_open_circuit_says_since_when_and_when_it_is_probed() -> None:
    (found,) = needs(circuits=circuits(small="open"))

    assert (found.at, found.wait_s, found.fields) == (AT - 42, 18.0, {"endpoint": "small@h"})


# -- figures ----------------------------------------------------------------------------------------------


def facts(**given: Any) -> Facts:
    usual: dict[str, Any] = {
        "totals": Totals(Sums(200, failed=2, refused=100, counted=98, nanousd=3_000_000_000), fallbacks=5),
        "hours": HOURS,
        "by_tier": [
            Point(HOURS[0], "simple", Sums(60)),
            Point(HOURS[0], "complex", Sums(20)),
            Point(HOURS[2], "simple", Sums(20)),
        ],
        "by_decision": [Point(HOURS[0], "surrogate", Sums(9)), Point(HOURS[2], "teacher", Sums(1))],
        "by_status": [
            Point(HOURS[0], "ok", Sums(98, nanousd=1_000_000_000)),
            Point(HOURS[0], "refused", Sums(100, refused=100)),
            Point(HOURS[2], "error", Sums(2, failed=2, nanousd=2_000_000_000)),
        ],
        "duration": Latency("duration", [0] * 10 + [98] + [0] * 22),
        "durations": [],
        "overhead": Latency("overhead", [0] * 10 + [98] + [0] * 22),
        "before": (150, 100),
        "before_words": "yesterday",
        "saved_usd": 1.5,
    }
    return Facts(**{**usual, **given})


def test_the_six_numbers_are_those_of_the_sums() -> None:
    requests, simple, coverage, answered, latency, spend = kpis_of(facts())

    assert (requests.value, requests.detail, requests.spark) == ("200", "+50.0% on yesterday", (198, 0, 2))
    assert (simple.value, simple.detail, simple.spark) == ("80.0", "20 complex", (75.0, 100.0))
    assert (coverage.value, coverage.detail) == ("90.0", "1 teacher call")
    assert (answered.value, answered.detail) == ("98.00", "5.0% by a fallback")
    assert answered.spark == (100.0, 0.0), "refusals are no failures"
    assert (latency.unit, latency.detail) == ("ms", "gateway adds 1.7 ms")
    assert (spend.value, spend.detail, spend.spark) == ("$3.00", "routing saved $1.50", (1e9, 1e9, 3e9))


def test_without_requests_what_is_unknown_is_blank_and_zero_is_written() -> None:
    nothing = facts(
        totals=Totals(Sums()),
        by_tier=[],
        by_decision=[],
        by_status=[],
        duration=Latency("duration", [0]),
        overhead=Latency("overhead", [0]),
        before=(0, 0),
        saved_usd=None,
    )

    assert [one.value for one in kpis_of(nothing)] == ["0", "", "", "", "", "$0.00"]
    assert kpis_of(nothing)[5].detail == "savings are not known"


def test_savings_are_what_the_other_price_would_have_come_to() -> None:
    used = [Consumption("simple", 10, 1000, 100, 0, 0, 2_000), Consumption("complex", 1, 50, 10, 0, 0, 60_000)]

    def cost_of(tokens: Usage, answers: int) -> int:
        return tokens.total_tokens * 1000

    assert saved_usd(used, cost_of) == pytest.approx((1_100_000 + 60_000 - 62_000) * 1e-9)
    assert saved_usd(used, lambda tokens, answers: None) is None
    assert saved_usd([], cost_of) == 0


# -- flow, minutes, rows ----------------------------------------------------------------------------------


def test_the_flow_names_roles_and_what_nobody_answered() -> None:
    view = flow_view(
        [
            Flow("session", "simple", "small", 60),
            Flow("teacher", "complex", "large-b", 30),
            Flow("header", "simple", "", 10),
            Flow("", "", "", 500),
        ],
        policy(),
    )

    assert view.drawing is not None
    assert [(node.label, node.role, node.detail) for node in view.drawing.targets] == [
        ("small", "", "60"),
        ("large-b", "fallback 1", "30"),
        ("Not answered", "", "10"),
    ]
    assert [node.label for node in view.drawing.sources] == ["Session cache", "Teacher", "Forced tier"]
    assert view.label.startswith("Of 100 requests 60.0% by session cache"), "what had no tier went nowhere"


def test_many_models_are_drawn_as_others() -> None:
    view = flow_view([Flow("session", "simple", f"m{number}", 10 - number) for number in range(8)], policy())

    assert view.drawing is not None
    assert view.drawing.targets[-1].label == "Others"
    assert len(view.drawing.targets) == 6
    assert flow_view([], policy()).drawing is None


def test_minutes_are_an_hour_without_the_one_that_runs() -> None:
    minutes = [
        Minute("2026-05-10T11:58", "simple", "ok", 4),
        Minute("2026-05-10T11:58", "complex", "error", 2),
        Minute("2026-05-10T11:59", "", "refused", 3),
        Minute("2026-05-10T12:00", "simple", "ok", 9),
        Minute("2026-05-10T10:59", "simple", "ok", 7),
    ]

    view = minutes_view(minutes, NOW)

    assert view.requests == 9
    assert (len(view.chart.x), view.chart.x[0], view.chart.x[-1]) == (60, "2026-05-10T11:00:00", "2026-05-10T11:59:00")
    assert {one.name: sum(value or 0 for value in one.values) for one in view.chart.series} == {
        "complex": 2,
        "simple": 4,
        "without a tier": 3,
        "failed": 2,
    }


def test_the_very_first_minute_is_shown_while_it_runs() -> None:
    assert minutes_view([Minute("2026-05-10T12:00", "simple", "ok", 9)], NOW).requests == 9


@pytest.mark.parametrize(
    ("fields", "title", "stage", "tries", "kind"),
    [
        pytest.param({}, "code.review", 3, "", "ok", id="answered"),
        pytest.param({"attempts": 3}, "code.review", 3, "ffs", "ok", id="after two failures"),
        pytest.param({"attempts": 2, "model": None, "status": "error"}, "code.review", 3, "ff", "bad", id="failed"),
        pytest.param({"function_name": None}, "anna", 3, "", "ok", id="no function"),
        pytest.param({"decision": "header"}, "code.review", None, "", "ok", id="forced"),
        pytest.param({"status": "refused", "tier": None, "decision": None}, "code.review", None, "", "warn", id="no"),
    ],
)
def test_a_request_is_a_row(fields: dict[str, Any], title: str, stage: int | None, tries: str, kind: str) -> None:
    usual: dict[str, Any] = {
        "at": "2026-05-10T12:00:00.000Z",
        "request_id": "req-1",
        "function_name": "code.review",
        "user_id": "anna",
        "decision": "teacher",
        "tier": "complex",
        "model": "large",
        "status": "ok",
        "attempts": 1,
        "fallback_level": 0,
        "duration_ms": 4270.0,
        "error": None,
    }

    (row,) = latest_rows([Latest(**{**usual, **fields})])

    assert (row.title, row.stage, row.tries, row.kind) == (title, stage, tries, kind)
    assert row.at_s == AT - 30
