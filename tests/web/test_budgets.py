"""The budgets page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import Gateway, eventually

from .browser import Visit

PAGE = "/dashboard/budgets"
WHOSE = "team@example.eu"
FORM = "#budget-form"
MODEL = {"model": "house-model", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "KEY"}
UNPRICED = {"models": {tier: {"endpoints": [MODEL]} for tier in ("simple", "complex")}}


@pytest.fixture
def visit(visit: Visit, gateway: Gateway) -> Iterator[Visit]:
    """A window on the page; one budget is set."""
    reset(gateway)
    visit.sign_in(path=PAGE)
    yield visit
    visit.faults[:] = [fault for fault in visit.faults if "status of 422" not in fault]  # the browser tells of each


def reset(gateway: Gateway) -> None:
    """One budget, whatever a test has made of it."""
    for budget in budgets(gateway):
        gateway.admin("DELETE", "/admin/budgets", {name: budget[name] for name in ("scope", "id", "period")})
    gateway.admin("PUT", "/admin/budgets", {"scope": "user", "id": WHOSE, "period": "day", "limit_usd": 20})


def budgets(gateway: Gateway) -> list[dict[str, Any]]:
    """As the API tells them."""
    return list(gateway.admin("GET", "/admin/budgets").json["budgets"])


def last_acts(gateway: Gateway, number: int) -> list[tuple[str, str, str]]:
    """The last changes, newest first."""
    rows = gateway.admin("GET", "/admin/audit").json["entries"][:number]
    return [(row["action"], row["target"], row["actor"]) for row in rows]


def test_a_limit_is_changed_in_its_row(gateway: Gateway, visit: Visit) -> None:
    visit.page.get_by_role("link", name=f"Edit budget for {WHOSE}").click()
    expect(visit.page.get_by_label("Limit", exact=True)).to_have_value("20")
    assert "edit=" in visit.page.url

    visit.page.get_by_label("Limit", exact=True).fill("$1,030.50")
    visit.page.get_by_label("When reached").select_option("downgrade")
    visit.page.get_by_role("button", name="Save").click()

    visit.page.get_by_text(f"Budget of {WHOSE} changed").wait_for()
    (budget,) = budgets(gateway)
    assert (budget["limit_usd"], budget["action"], budget["period"]) == (1030.5, "downgrade", "day")
    assert last_acts(gateway, 1) == [("budget.set", f"user:{WHOSE}:day", "admin")]
    expect(visit.page.locator(FORM)).to_have_count(0)
    assert "edit=" not in visit.page.url, "reloading does not open the form again"


def test_another_period_moves_the_budget_instead_of_adding_one(gateway: Gateway, visit: Visit) -> None:
    visit.page.get_by_role("link", name=f"Edit budget for {WHOSE}").click()
    visit.page.get_by_label("Period").select_option("month")
    visit.page.get_by_role("button", name="Save").click()
    visit.page.get_by_text("changed").wait_for()

    assert [budget["period"] for budget in budgets(gateway)] == ["month"]


def test_a_new_budget_is_in_force_at_once(gateway: Gateway, visit: Visit) -> None:
    gateway.chat(user="newly@example.eu")
    gateway.usage(user_id="newly@example.eu")

    visit.page.get_by_role("link", name="New budget").click()
    visit.page.locator("#budget-id").fill("newly@example.eu")
    visit.page.get_by_label("Limit", exact=True).fill("1")
    visit.page.get_by_label("Unit").select_option("requests")
    visit.page.get_by_role("button", name="Save").click()

    visit.page.get_by_text("Budget of newly@example.eu set").wait_for()
    expect(visit.page.locator("#limits tbody tr").filter(has_text="newly@example.eu")).to_contain_text("100%")
    assert gateway.chat(user="newly@example.eu").status == 429
    expect(visit.page.locator("#count-budgets")).to_have_text("1 over")


@pytest.mark.parametrize(
    ("limit", "name", "message"),
    [
        pytest.param("twenty", "x", "The limit must be a number.", id="no number"),
        pytest.param("-1", "x", "The limit must be a number from 0 to 9000000.", id="negative"),
        pytest.param("5", "", "The name must be a text that is not empty.", id="no name"),
        pytest.param("5", WHOSE, "There is a budget of this per day already; change that one.", id="there already"),
    ],
)
def test_what_cannot_be_keeps_the_form_with_what_was_typed(
    gateway: Gateway, visit: Visit, limit: str, name: str, message: str
) -> None:
    visit.page.get_by_role("link", name="New budget").click()
    visit.page.locator("#budget-id").fill(name)
    visit.page.get_by_label("Limit", exact=True).fill(limit)
    with visit.page.expect_response(f"**{PAGE}") as answered:
        visit.page.get_by_role("button", name="Save").click()

    assert answered.value.status == 422
    expect(visit.page.get_by_role("alert")).to_have_text(message)
    expect(visit.page.get_by_label("Limit", exact=True)).to_have_value(limit)
    expect(visit.page.locator("#budget-id")).to_have_value(name)
    assert [budget["limit_usd"] for budget in budgets(gateway)] == [20]


def test_a_form_that_is_half_typed_outlives_the_refreshes_of_its_table(gateway: Gateway, visit: Visit) -> None:
    visit.go(f"{PAGE}?edit=user:{WHOSE}:day")
    visit.page.get_by_label("Limit", exact=True).fill("77")
    visit.page.get_by_label("When reached").select_option("warn")
    visit.page.locator("h1").click()  # the focus is elsewhere, what was typed must stay all the same

    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.evaluate(
        "for (let i = 0; i < 3; i++) htmx.trigger(document.querySelector('#limits'), 'every');"
        "htmx.trigger(document.querySelector('#spend'), 'every')"
    )
    visit.page.wait_for_timeout(11_000)

    assert not [url for url in asked if "ui/budgets/limits" in url]
    expect(visit.page.get_by_label("Limit", exact=True)).to_have_value("77")
    expect(visit.page.get_by_label("When reached")).to_have_value("warn")


def test_a_budget_is_removed_only_after_a_yes(gateway: Gateway, visit: Visit) -> None:
    button = visit.page.get_by_role("button", name=f"Remove budget for {WHOSE}")

    button.click()
    visit.page.locator("#confirm").get_by_role("button", name="Cancel").click()
    assert len(budgets(gateway)) == 1
    button.click()
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("Budget removed").wait_for()
    expect(visit.page.get_by_text("Everything may spend without limit")).to_be_visible()
    assert budgets(gateway) == []
    assert last_acts(gateway, 1) == [("budget.delete", f"user:{WHOSE}:day", "admin")]


def test_every_act_works_without_script(gateway: Gateway, browser: Browser) -> None:
    reset(gateway)
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(path=PAGE)

    window.page.get_by_role("link", name="New budget").click()
    window.page.get_by_label("Applies to").select_option("global")
    window.page.get_by_label("Limit", exact=True).fill("none")
    window.page.get_by_role("button", name="Save").click()
    assert window.page.get_by_role("alert").text_content() == "The limit must be a number."
    window.page.get_by_label("Limit", exact=True).fill("9")
    window.page.get_by_role("button", name="Save").click()
    expect(window.page.get_by_text("Budget of All traffic set")).to_be_visible()

    window.page.get_by_role("link", name="Edit budget for All traffic").click()
    window.page.get_by_label("Limit", exact=True).fill("8")
    window.page.get_by_role("button", name="Save").click()
    limits = eventually(lambda: {budget["limit_usd"] for budget in budgets(gateway)}, lambda found: found == {20, 8})
    assert limits == {20, 8}

    window.page.get_by_role("button", name="Remove budget for All traffic").click()
    window.page.get_by_role("button", name="Remove").click()
    expect(window.page.get_by_text("Budget removed")).to_be_visible()
    assert [budget["limit_usd"] for budget in budgets(gateway)] == [20]
    window.close()


def test_spending_is_grouped_by_whom_one_asks_and_kept_as_a_file(gateway: Gateway, visit: Visit) -> None:
    hostile = "=<b>SUM(1)</b>"
    gateway.chat("please write a long text", user=hostile)
    gateway.usage(user_id=hostile)

    visit.go(f"{PAGE}?by=model")
    visit.page.get_by_role("link", name="User", exact=True).click()
    expect(visit.page.locator("#by-user")).to_have_attribute("aria-current", "true")

    expect(visit.page.locator("#spend table").first).to_be_attached()
    assert "by=user" in visit.page.url
    assert visit.page.locator("#spend b", has_text="SUM").count() == 0
    file = visit.context.request.get(f"{visit.base}{PAGE}/spend.csv?by=user&range=7d")
    lines = file.text().split("\r\n")
    assert lines[0] == "day,user,requests,tokens,usd"
    assert any(f",'{hostile},1," in line for line in lines)
    assert "attachment" in file.headers["content-disposition"]


def test_models_without_a_price_are_named(browser: Browser) -> None:
    own = Gateway.start(config=UNPRICED, env={"KEY": "k"})
    window = Visit(browser, own)
    window.sign_in(path=PAGE)

    expect(window.page.locator("#spend .banner")).to_contain_text("No price is known for house-model.")
    expect(window.page.locator("#spend .kpi").last).to_contain_text("the complex tier has no known price")
    window.close()
    own.stop()
