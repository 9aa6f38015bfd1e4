"""The overview in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import Gateway, eventually

from .browser import Visit

OPEN = re.compile("demo-small is open")


@pytest.fixture
def visit(visit: Visit, gateway: Gateway) -> Iterator[Visit]:
    """A window on the overview; the gateway is on, and no budget is set."""
    clear(gateway)
    visit.sign_in(path="/dashboard")
    yield visit
    clear(gateway)


def clear(gateway: Gateway) -> None:
    """Takes away what tests here have set."""
    gateway.admin("DELETE", "/admin/pins/ai.gateway.enabled")
    for budget in gateway.admin("GET", "/admin/budgets").json["budgets"]:
        gateway.admin("DELETE", "/admin/budgets", {name: budget[name] for name in ("scope", "id", "period")})


def open_a_circuit(gateway: Gateway) -> None:
    """Lets the simple tier's first model fail until it is left alone."""
    for _ in range(4):
        gateway.chat("demo:503 hello", tier="simple")


def test_signing_in_leads_here_and_without_trouble_it_says_so(visit: Visit) -> None:
    assert visit.page.url.rstrip("/").endswith("/dashboard")
    expect(visit.page.get_by_role("heading", name="Overview")).to_be_visible()

    expect(visit.page.get_by_text("Nothing needs you")).to_be_visible()


def test_an_open_circuit_is_told_with_who_carries_its_load_and_closed_from_here(gateway: Gateway, visit: Visit) -> None:
    open_a_circuit(gateway)
    visit.go("/dashboard")
    need = visit.page.locator("#attention li").filter(has_text=OPEN)
    expect(need).to_contain_text("Simple traffic is on demo-small-b. Probe in")

    need.get_by_role("button", name="Reset").click()

    visit.page.get_by_text("Circuit of demo-small closed").wait_for()
    expect(need).to_have_count(0)
    assert gateway.circuits()["demo-small"]["state"] == "closed"
    newest = gateway.admin("GET", "/admin/audit").json["entries"][0]
    assert (newest["action"], newest["actor"]) == ("circuit.reset", "admin")


def test_a_stopped_gateway_is_started_from_here(gateway: Gateway, visit: Visit) -> None:
    gateway.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "false"})
    visit.go("/dashboard")
    assert gateway.chat().status == 503

    visit.page.get_by_role("button", name="Start", exact=True).click()

    visit.page.get_by_text("The gateway is on").wait_for()
    assert gateway.chat().status == 200


def test_a_budget_near_its_limit_leads_to_the_form_that_changes_it(gateway: Gateway, visit: Visit) -> None:
    gateway.chat(user="heavy@example.eu")
    budget = {"scope": "user", "id": "heavy@example.eu", "period": "month", "limit_requests": 1}
    gateway.admin("PUT", "/admin/budgets", budget)
    gateway.usage(user_id="heavy@example.eu")

    visit.go("/dashboard")
    need = visit.page.locator("#attention li").filter(has_text="heavy@example.eu has used 100% of 1 requests.")
    need.get_by_role("link", name="Change budget").click()

    expect(visit.page.get_by_role("form", name="Edit budget for heavy@example.eu")).to_be_visible()


def test_the_figures_are_those_of_the_log_and_new_requests_appear_by_themselves(gateway: Gateway, visit: Visit) -> None:
    before = len(gateway.usage(limit=1000))
    visit.page.evaluate("window.kept = true")

    answer = gateway.chat("please debug my server script", tier=None)
    visit.page.wait_for_selector(f"#latest-{answer.request_id}", timeout=15_000)
    gateway.usage(wanted=before + 1, limit=1000)
    value = visit.page.locator("#kpis .kpi").filter(has_text="Requests").locator(".v")
    expect(value).to_have_text(f"{before + 1:,}", timeout=25_000)

    assert visit.page.evaluate("window.kept"), "the page itself was not loaded again"
    assert visit.page.locator(f"#latest-{answer.request_id} a").get_attribute("href") == (
        f"/dashboard/usage/{answer.request_id}"
    )


@pytest.mark.parametrize("name", ["1h", "6h", "24h", "7d"])
def test_a_range_is_an_address(gateway: Gateway, visit: Visit, name: str) -> None:
    gateway.usage(wanted=1)
    visit.go(f"/dashboard?range={name}")

    assert visit.page.locator(".page-head [aria-current]").get_attribute("href") == f"/dashboard/?range={name}"
    visit.page.locator(".flow path").first.wait_for(state="attached", timeout=40_000)
    visit.page.wait_for_selector("#per-minute .barlayer", state="attached")


def test_a_part_that_has_not_changed_is_not_sent_again(gateway: Gateway, visit: Visit) -> None:
    address = f"{visit.base}/dashboard/ui/overview/flow"

    first = visit.context.request.get(address)
    again = visit.context.request.get(address, headers={"If-None-Match": first.headers["etag"]})

    assert (first.status, again.status, again.body()) == (200, 304, b"")


def test_without_script_circuits_are_closed_all_the_same(gateway: Gateway, browser: Browser) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)
    open_a_circuit(gateway)
    window.sign_in(path="/dashboard")

    window.page.locator("#attention li").filter(has_text=OPEN).get_by_role("button", name="Reset").click()

    expect(window.page.get_by_text("Circuit of demo-small closed")).to_be_visible()
    assert window.page.locator("#attention li").filter(has_text=OPEN).count() == 0
    window.close()


def test_what_cannot_be_read_says_so_in_its_own_cell(browser: Browser) -> None:
    own = Gateway.start()
    own.chat()
    own.usage(wanted=1)
    window = Visit(browser, own)
    window.sign_in(path="/dashboard")
    for name in ("hermes.db", "hermes.db-wal", "hermes.db-shm"):
        (own.folder / name).write_bytes(b"no database any more" * 500)

    def shown() -> str:
        window.go("/dashboard?range=6h")
        return str(window.page.locator("main").text_content())

    text = eventually(shown, lambda seen: "cannot" in seen, 20)
    assert "cannot" in text
    assert "demo-large-b" in text, "circuits are told all the same"
    window.close()
    own.stop()
