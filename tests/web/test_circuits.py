"""The circuits page in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.gateway import Gateway

from .browser import PATIENCE_MS, Visit

OPEN_ROW = "#circuits tr.is-bad"


def open_a_circuit(gateway: Gateway) -> None:
    """Lets the simple tier's first model fail until it is left alone."""
    for _ in range(4):
        gateway.chat("demo:503 hello", tier="simple")
    assert [circuit["state"] for circuit in gateway.circuits().values()].count("open") == 1


def last_acts(gateway: Gateway) -> list[tuple[str, str, str]]:
    """Action, target and actor of the last changes, newest first."""
    rows = gateway.admin("GET", "/admin/audit").json["entries"]
    return [(row["action"], row["target"], row["actor"]) for row in rows]


def test_a_circuit_that_opens_is_seen_and_can_be_closed(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in()
    visit.page.get_by_text("No circuit has changed").wait_for()

    open_a_circuit(gateway)
    visit.page.wait_for_selector(OPEN_ROW)
    visit.page.locator("#strip").get_by_text("1 circuit open").wait_for()
    visit.page.locator(OPEN_ROW).get_by_role("button", name="Reset").click()

    visit.page.get_by_text("Circuit of demo-small closed").wait_for()
    visit.page.wait_for_selector(OPEN_ROW, state="detached")
    visit.page.locator("#strip").get_by_text("Circuits closed").wait_for()
    assert gateway.circuits()["demo-small"]["state"] == "closed"
    action, target, actor = last_acts(gateway)[0]
    assert (action, target.partition("@")[0], actor) == ("circuit.reset", "demo-small", "admin")


def test_all_circuits_are_closed_only_after_a_yes(gateway: Gateway, visit: Visit) -> None:
    open_a_circuit(gateway)
    visit.sign_in()

    visit.page.get_by_role("button", name="Reset all").click()
    visit.page.locator("#confirm").get_by_role("button", name="Cancel").click()
    assert gateway.circuits()["demo-small"]["state"] == "open"
    visit.page.get_by_role("button", name="Reset all").click()
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("All 4 circuits closed").wait_for()
    assert last_acts(gateway)[0][:2] == ("circuit.reset", "*")


def test_a_circuit_is_closed_without_script_too(gateway: Gateway, browser: object) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)  # type: ignore[arg-type]
    gateway.close_circuits()
    open_a_circuit(gateway)
    window.sign_in()

    window.page.locator(OPEN_ROW).get_by_role("button", name="Reset").click()

    expect(window.page.get_by_text("Circuit of demo-small closed")).to_be_visible()
    assert window.page.locator(OPEN_ROW).count() == 0
    window.go("/dashboard/circuits")
    assert window.page.get_by_text("Circuit of demo-small closed").count() == 0, "it is said once"
    window.close()


def test_a_live_refresh_takes_neither_focus_nor_scroll(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in()
    visit.page.set_viewport_size({"width": 1440, "height": 400})
    visit.page.wait_for_selector("#circuits tbody tr")
    visit.page.locator("#circuits tbody tr button").nth(1).focus()
    visit.page.evaluate("scrollTo(0, 120)")
    before = visit.page.evaluate("[document.activeElement.id, scrollY]")

    open_a_circuit(gateway)
    visit.page.wait_for_selector(OPEN_ROW)
    visit.page.wait_for_timeout(300)

    assert before[0].startswith("reset-circuit-")
    assert before[1] > 0
    assert visit.page.evaluate("[document.activeElement.id, scrollY]") == before


def test_what_has_changed_is_said_aloud_once(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in()
    assert visit.page.locator("#announce").text_content() == ""

    open_a_circuit(gateway)
    expect(visit.page.locator("#announce")).to_contain_text("1 of the circuits is open", timeout=PATIENCE_MS)


def test_a_server_that_is_gone_is_told_and_what_was_seen_stays(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in()
    visit.page.wait_for_selector("#circuits tbody tr")

    visit.context.route("**/dashboard/ui/**", lambda route: route.abort())
    visit.page.wait_for_selector("#stale:not([hidden])")
    assert visit.page.locator("tr[id^=circuit-]").count() == 4
    visit.faults.clear()  # the browser itself tells of requests that were refused
    visit.context.unroute("**/dashboard/ui/**")


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        pytest.param("gs", "/dashboard/sessions", id="sessions"),
        pytest.param("gc", "/dashboard/circuits", id="circuits"),
    ],
)
def test_two_keys_lead_to_a_page(visit: Visit, keys: str, path: str) -> None:
    visit.sign_in()

    with visit.page.expect_navigation(url=f"**{path}"):
        for key in keys:
            visit.page.keyboard.press(key)


def test_the_palette_finds_a_page(visit: Visit) -> None:
    visit.sign_in()

    visit.page.keyboard.press("Control+k")
    visit.page.keyboard.type("sess")
    visit.page.keyboard.press("Enter")

    visit.page.wait_for_url("**/dashboard/sessions")


def test_the_theme_stays_as_it_was_chosen(visit: Visit) -> None:
    visit.sign_in()
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"

    visit.page.get_by_role("button", name="Switch theme").click()
    visit.go("/dashboard/sessions")

    assert visit.page.evaluate("document.documentElement.dataset.theme") == "light"
