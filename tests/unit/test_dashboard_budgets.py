"""What the budgets page says, without a server: forecasts, limits, the form, spending day by day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import plotly.graph_objects as go
import pytest

from hermes.accounting.prices import PriceBook
from hermes.admission.budget_form import parse_budget
from hermes.directory import EACH, Budget
from hermes.errors import InvalidRequest
from hermes.storage.reports import Point, Sums
from hermes.types import Endpoint, Price, Usage
from hermes.web.dashboard.views.budget_form import Form, fits_text
from hermes.web.dashboard.views.limits import Limit, limit_of, limits_of, name_of, parts_of
from hermes.web.dashboard.views.spend import Period, Wanted, ahead, daily, days_until, lines_of, spend_chart

DAY = datetime(2026, 5, 10, tzinfo=UTC)
END = datetime(2026, 5, 11, tzinfo=UTC)
NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)
NANO = 10**9


def figures(spent: float, **more: Any) -> dict[str, Any]:
    texts = {"period_start": "2026-05-10T00:00:00Z", "resets_at": "2026-05-11T00:00:00Z"}
    return {"spent_usd": spent, "spent_tokens": 7, "spent_requests": 3, **texts, **more}


def a_limit(spent: float, limit: float = 10.0, **fields: Any) -> Limit:
    budget = Budget(
        **{"scope": "user", "id": "anna", "period": "day", "unit": "usd", "limit": int(limit * NANO), **fields}
    )
    return limit_of(budget, figures(spent), {}, NOON.timestamp())


@pytest.mark.parametrize(
    ("spent", "ahead_usd", "reached", "state"),
    [
        pytest.param(3.0, 6.0, None, "", id="lasts"),
        pytest.param(7.5, 15.0, 16, "", id="will be reached"),
        pytest.param(8.5, 17.0, 14, "warn", id="near"),
        pytest.param(11.0, 22.0, None, "bad", id="over"),
        pytest.param(0.0, 0.0, None, "", id="nothing yet"),
    ],
)
def test_a_limit_tells_where_it_leads(spent: float, ahead_usd: float, reached: int | None, state: str) -> None:
    limit = a_limit(spent)

    assert (limit.ahead, limit.kind_of_state) == (ahead_usd, state)
    hour = None if limit.reached_at is None else datetime.fromtimestamp(limit.reached_at, UTC).hour
    assert hour == reached
    assert limit.will_be_reached == (reached is not None or spent >= 10)


def test_a_limit_of_nothing_is_reached() -> None:
    assert (a_limit(0.0, 0.0).is_over, a_limit(0.0, 0.0).used_percent) == (True, 100.0)


def test_at_the_beginning_of_a_period_there_is_no_forecast() -> None:
    budget = Budget("user", "anna", "day", "usd", NANO)

    early = limit_of(budget, figures(0.5), {}, DAY.timestamp() + 600)

    assert (early.ahead, early.reached_at, early.ahead_percent) == (None, None, 50.0)


def test_limits_are_named_as_people_name_them_and_the_fullest_come_first() -> None:
    used = [
        (Budget("user", EACH, "day", "usd", NANO), figures(0.2, most_used_by="ben")),
        (Budget("key", "k_1", "day", "requests", 4), figures(0.0)),
        (Budget("global", "", "day", "usd", 100 * NANO), figures(1.0)),
        (Budget("function", "f:1", "day", "tokens", 70), figures(0.0)),
    ]

    found = limits_of(used, {"k_1": "build server"}, NOON.timestamp(), lambda budget, name: (len(name),))

    assert [(one.label, one.kind, one.spark) for one in found] == [
        ("All traffic", "Gateway", (0,)),
        ("build server", "API key", (3,)),
        ("Each user", "Most by ben", (3,)),
        ("f:1", "Function", (3,)),
    ]
    assert [parts_of(name_of(budget)) for budget, _ in used][3] == {"scope": "function", "id": "f:1", "period": "day"}


# -- the form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(Budget("user", "a:b", "day", "usd", 1_230_000_001, "warn", 0.5), id="dollars"),
        pytest.param(Budget("global", "", "month", "tokens", 10**12), id="tokens"),
        pytest.param(Budget("key", EACH, "week", "requests", 0, "downgrade", 1.0), id="requests"),
    ],
)
def test_a_form_that_is_sent_as_it_was_shown_changes_nothing(budget: Budget) -> None:
    shown = Form.of(budget)

    sent = Form.parse({name: getattr(shown, name) for name in Form.__dataclass_fields__})

    assert parse_budget(sent.body()) == budget
    assert sent.name == sent.was == name_of(budget)


@pytest.mark.parametrize(
    ("fields", "wrong", "message"),
    [
        pytest.param({"limit": "ten"}, "limit", "The limit must be a number.", id="a word"),
        pytest.param({"limit": "nan"}, "limit", "The limit must be a number.", id="not a number"),
        pytest.param(
            {"limit": "1e999999"}, "limit", "The limit must be a number from 0 to 9000000.", id="far too much"
        ),
        pytest.param({"limit": ""}, "limit", "The limit must be a number.", id="empty"),
        pytest.param({"warn": "x"}, "warn", "The warning must be a number.", id="warning"),
        pytest.param({"id": " "}, "id", "The name must be a text that is not empty.", id="no name"),
        pytest.param(
            {"unit": "tokens", "limit": "1.5"},
            "limit",
            "The limit must be a whole number from 0 to 1000000000000000.",
            id="half a token",
        ),
        pytest.param({"scope": "planet"}, "scope", "scope must be one of global, key, user, function.", id="a scope"),
        pytest.param({"unit": "euro"}, "limit_euro", "limit_euro is no field of this", id="a unit"),
    ],
)
def test_what_cannot_be_is_said_at_its_field_and_what_was_typed_stays(
    fields: dict[str, str], wrong: str, message: str
) -> None:
    form = Form.parse(
        {
            "scope": "user",
            "id": "anna",
            "period": "day",
            "unit": "usd",
            "limit": "5",
            "action": "block",
            "warn": "80",
            **fields,
        }
    )

    with pytest.raises(InvalidRequest) as refusal:
        parse_budget(form.body())
    again = form.refused(refusal.value)

    assert again.wrong == wrong
    assert again.message.startswith(message)
    assert (again.limit, again.id) == (form.limit, form.id)


def test_the_form_tells_whether_the_forecast_fits() -> None:
    form = Form(limit="30")

    assert fits_text(form, 26.3) == "The forecast of $26.30 fits."
    assert fits_text(form, 31.0) == "The forecast of $31.00 does not fit."
    assert (fits_text(form, None), fits_text(Form(limit="x"), 1.0)) == ("", "")


# -- spending ---------------------------------------------------------------------------------------------


def test_today_leads_between_its_own_rate_and_yesterday() -> None:
    today = Period(10.0, None, DAY, END)

    both = ahead(today, 16.0, NOON)
    early = ahead(Period(0.1, None, DAY, END), 16.0, datetime(2026, 5, 10, 0, 5, tzinfo=UTC))

    assert both is not None
    assert (both.low, both.high, both.middle) == (20.0, 26.0, 23.0)
    assert early is not None
    assert early.low == early.high == 16.1, "its own rate says nothing yet"
    assert ahead(Period(0.0, None, DAY, END), 0.0, NOON) is None


@pytest.mark.parametrize(
    ("end", "left"),
    [
        pytest.param(END, "12 h", id="hours"),
        pytest.param(datetime(2026, 5, 10, 13, 5, 9, tzinfo=UTC), "1 h 5 min", id="minutes"),
        pytest.param(datetime(2026, 6, 1, tzinfo=UTC), "22 days", id="days"),
    ],
)
def test_a_period_tells_how_long_it_goes_on(end: datetime, left: str) -> None:
    assert Period(1.0, None, DAY, end).left(NOON) == left


def spent(*points: tuple[str, str, float], most: tuple[str, ...] = ("a", "b")) -> Any:
    found = [Point(at, name, Sums(nanousd=int(usd * NANO))) for at, name, usd in points]
    wholes = [(point.at, point.sums.nanousd) for point in found]
    return daily(days_until(NOON, 3), [point for point in found if point.name in most], wholes, most)


def test_spending_by_day_comes_to_the_whole() -> None:
    by_day = spent(
        ("2026-05-08", "a", 1.0), ("2026-05-10", "b", 2.0), ("2026-05-10", "c", 0.5), ("2026-05-01", "a", 9.0)
    )

    assert [(one.name, one.role, list(one.values)) for one in by_day.spenders] == [
        ("a", "c1", [1.0, 0.0, 0.0]),
        ("b", "c2", [0.0, 0.0, 2.0]),
        ("All others", "other", [0.0, 0.0, 0.5]),
    ]
    assert by_day.sums == [1.0, 0.0, 2.5]
    assert [(line.name, line.spent, line.ahead) for line in lines_of(by_day, 0.5)] == [
        ("a", 0.0, 0.0),
        ("b", 2.0, 4.0),
        ("All others", 0.5, 1.0),
    ]


@pytest.mark.parametrize(
    ("limit", "note", "lines"),
    [
        pytest.param(4.0, "daily budget $4.00, dashed", 1, id="in sight"),
        pytest.param(120.0, "daily budget $120.00 is off this scale", 0, id="far off"),
        pytest.param(None, "", 0, id="none"),
    ],
)
def test_the_figure_of_spending_is_one_that_plotly_takes(limit: float | None, note: str, lines: int) -> None:
    chart, label, told = spend_chart(spent(("2026-05-08", "a", 1.0), ("2026-05-10", "b", 2.0)), 3.0, limit)
    figure = chart.figure()

    traces = [{name: value for name, value in trace.items() if name != "type"} for trace in figure["traces"]]
    shapes = [{name: value for name, value in shape.items() if name != "meta"} for shape in figure["layout"]["shapes"]]
    go.Figure([go.Bar(**trace) for trace in traces], {**figure["layout"], "shapes": shapes})

    assert list(chart.x) == ["8 May", "9 May", "today"]
    assert told == note
    assert sum(shape["type"] == "line" for shape in shapes) == lines
    assert [shape["y1"] for shape in shapes if shape["type"] == "rect"] == [3.0]
    assert label == "Spend per day: $0.00 to $2.00, today $2.00 so far and $3.00 forecast."


def test_nothing_spent_is_an_empty_figure() -> None:
    chart, _, _ = spend_chart(spent(most=()), None, None)

    assert (chart.series, chart.figure()["traces"]) == ([], [])


def test_an_address_that_makes_no_sense_asks_for_what_is_usual() -> None:
    assert Wanted.parse({"range": "9y", "by": "<b>"}) == Wanted()
    assert Wanted.parse({"range": "90d", "by": "model"}) == Wanted("90d", "model")


def test_many_answers_cost_their_tokens_at_a_flat_price_and_an_average_one_at_a_tariff() -> None:
    flat = Endpoint("m@h", "m", "http://h", "http://h", price=Price(1_000, 2_000))
    unknown = Endpoint("x@h", "no-such-model", "http://h", "http://h")
    total = Usage(10**6, 10**6, 2 * 10**6)

    assert PriceBook().cost_of_all_nanousd(flat, total, 7) == 3_000
    assert PriceBook().cost_of_all_nanousd(unknown, total, 7) is None
