"""The shadow page in a real browser: what is shown is what is stored, and each act does what it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from hermes.observe.trace import utc_ms
from tests.e2e.gateway import Gateway
from tests.shadow_rows import a_reply, store_beside_server

from .browser import PATIENCE_MS, Visit
from .pages import HOSTILE, seed_shadow

PAGE = "/dashboard/shadow"


@pytest.fixture
def seeded(gateway: Gateway) -> Iterator[Gateway]:
    """A target for chat with 60 rows: 20 better, 39 ties, 1 worse."""
    seed_shadow(gateway)
    yield gateway
    for run in gateway.admin("GET", "/admin/shadow").json["runs"]:
        if run["state"] == "running":
            gateway.admin("POST", "/admin/shadow/reject", {"run": run["id"]})
    for pin in ("model.chat", "model.chat.target", "model.chat.target.sample_rate"):
        gateway.admin("DELETE", f"/admin/pins/{pin}")


def pins(gateway: Gateway) -> dict[str, str]:
    return {pin["key"]: pin["value"] for pin in gateway.admin("GET", "/admin/pins").json["pins"]}


def last_act(gateway: Gateway) -> tuple[str, str, str]:
    row = gateway.admin("GET", "/admin/audit").json["entries"][0]
    return row["action"], row["target"], row["actor"]


def gate_of(gateway: Gateway) -> dict[str, Any]:
    (run,) = [run for run in gateway.admin("GET", "/admin/shadow").json["runs"] if run["state"] == "running"]
    return {one["name"]: one for one in run["gate"]["criteria"]}


def test_the_page_shows_the_figures_of_the_rows(seeded: Gateway, visit: Visit) -> None:
    """By hand: the 57th of 60 latencies is 100 + 10 · 56 = 660 ms, the target's 528 ms."""
    visit.sign_in(path=PAGE)

    shown = visit.page.locator("#shadow")
    rules = [row.inner_text() for row in shown.locator(".gate li").all()]
    assert [rule for rule in rules if rule.startswith("passed")] == rules
    assert "60" in rules[0]
    assert "98.3%" in rules[1]
    assert "at least 90%" in rules[1]
    assert "528 ms" in rules[2]
    assert "0.80 times A" in rules[2]
    assert "$0.00017" in rules[3]
    assert "at most $0.00025" in rules[3]
    assert "0.68 times A, surely 0.68 to 0.68" in rules[3]
    assert "0.0%" in rules[4]
    lower = gate_of(seeded)["win_or_tie"]["lower"]
    assert f"surely {100 * lower:.1f}% to" in rules[1]
    for text in ("20 better", "39 tie", "1 worse", "5 of 5 passed"):
        expect(shown.get_by_text(text, exact=False).first).to_be_visible()
    expect(visit.page.locator("#strip, nav").get_by_text("1 ready").first).to_be_visible()


def test_the_overview_says_that_a_target_has_passed_and_leads_to_it(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path="/dashboard/")

    line = visit.page.locator(".attention li", has_text="demo-large passed the gate for model.chat.")
    expect(line).to_contain_text("60 judged, 98.3% win or tie.", timeout=15_000)
    line.get_by_role("link", name="Review").click()
    visit.page.locator("#shadow .gate li").first.wait_for()


def test_a_target_is_promoted_with_two_clicks_and_rolled_back_with_one_more(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("button", name="Promote to model.chat").click()
    visit.page.locator("#confirm-yes").click()
    visit.page.get_by_text("demo-large promoted to model.chat").wait_for()

    assert pins(seeded)["model.chat"] == "demo-large"
    assert pins(seeded)["model.chat.target"] == "demo-small"
    assert last_act(seeded) == ("shadow.promote", "model.chat", "admin")
    expect(visit.page.locator(".runs").get_by_text("watched")).to_be_visible(timeout=PATIENCE_MS)

    visit.page.get_by_role("button", name="Undo").click()
    visit.page.get_by_text("model.chat is demo-small again").wait_for()

    assert "model.chat" not in pins(seeded)
    assert last_act(seeded) == ("shadow.rollback", "model.chat", "admin")
    expect(visit.page.locator(".runs").get_by_text("rolled back").first).to_be_visible()


def test_a_watch_shows_the_way_back(seeded: Gateway, visit: Visit) -> None:
    seeded.admin("POST", "/admin/shadow/promote", {"role": "chat"})
    visit.sign_in(path=PAGE)

    visit.page.locator("#rollback").click()
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("model.chat is demo-small again").wait_for()
    assert "model.chat" not in pins(seeded)


def test_a_target_is_rejected_only_after_a_yes(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    visit.page.locator("#reject").click()
    visit.page.locator("#confirm").get_by_role("button", name="Cancel").click()
    assert "model.chat.target" in pins(seeded)
    visit.page.locator("#reject").click()
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("demo-large rejected").wait_for()
    assert "model.chat.target" not in pins(seeded)
    assert last_act(seeded) == ("shadow.reject", "model.chat.target", "admin")


def test_a_person_says_what_counts_and_can_take_it_back(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path=f"{PAGE}?verdict=worse")
    expect(visit.page.locator(".samples-head")).to_contain_text("1 of 1")

    visit.page.get_by_role("button", name="B is better").click()
    visit.page.get_by_text("Sample judged: better").wait_for()

    expect(visit.page.locator("#filter-worse")).to_have_text("Worse 0")
    expect(visit.page.locator("#shadow").get_by_text("No sample has this verdict.")).to_be_visible()
    assert last_act(seeded)[0] == "shadow.verdict"
    visit.page.locator("#filter-better").click()
    expect(visit.page.locator(".samples-head")).to_contain_text("1 of 21")
    visit.page.locator("#filter-all").click()
    expect(visit.page.locator(".samples-head")).to_contain_text("of 60")
    visit.go(f"{PAGE}?verdict=better")
    while not visit.page.get_by_role("button", name="Take back").count():
        visit.page.locator("#next").click()
    visit.page.get_by_role("button", name="Take back").click()
    expect(visit.page.locator("#filter-worse")).to_have_text("Worse 1")


def test_a_target_that_has_not_passed_is_promoted_anyway_only_after_a_yes(gateway: Gateway, visit: Visit) -> None:
    gateway.admin("PUT", "/admin/pins/model.chat.target", {"value": "demo-large-b"})
    url = f"sqlite:///{gateway.folder / 'hermes.db'}"
    store_beside_server(url, [a_reply(1, primary="demo-small", target="demo-large-b", created_at=utc_ms(time.time()))])
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("button", name="Promote anyway").click()
    expect(visit.page.locator("#confirm-text")).to_contain_text("1 sample has a verdict, at least 50 are wanted")
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("demo-large-b promoted to model.chat").wait_for()
    gateway.admin("POST", "/admin/shadow/rollback", {"role": "chat"})
    assert "model.chat" not in pins(gateway)


def test_samples_are_leafed_through_and_the_address_is_the_state(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    visit.page.locator("#next").click()
    expect(visit.page.locator(".samples-head")).to_contain_text("2 of 60")
    visit.page.wait_for_url("**at=2**")
    visit.page.reload()
    expect(visit.page.locator(".samples-head")).to_contain_text("2 of 60")
    visit.page.locator("#previous").click()
    expect(visit.page.locator(".samples-head")).to_contain_text("1 of 60")


def test_what_models_say_is_text(seeded: Gateway, visit: Visit) -> None:
    url = f"sqlite:///{seeded.folder / 'hermes.db'}"
    hostile = a_reply(
        900, "worse", primary="demo-small", target="demo-large", prefix="x", prompt=HOSTILE, reason=HOSTILE,
        function_name=HOSTILE, created_at=utc_ms(time.time()),
    )  # fmt: skip
    store_beside_server(url, [hostile])

    visit.sign_in(path=f"{PAGE}?verdict=worse")

    expect(visit.page.locator(".prose").first).to_have_text(HOSTILE)
    assert visit.page.locator("img").count() == 0


def test_it_works_without_script(seeded: Gateway, browser: Browser) -> None:
    window = Visit(browser, seeded, java_script_enabled=False)
    window.sign_in(path=PAGE)

    window.page.get_by_role("button", name="Promote to model.chat").click()

    window.page.get_by_text("demo-large promoted to model.chat").wait_for()
    assert pins(seeded)["model.chat"] == "demo-large"
    window.close()


def test_a_form_without_its_token_changes_nothing(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    status = visit.page.evaluate(
        "fetch('/dashboard/shadow/promote', {method: 'POST', body: new URLSearchParams({run: 1, force: 1})})"
        ".then(answer => answer.status)"
    )

    assert status == 403
    assert "model.chat" not in pins(seeded)
    visit.faults.clear()  # the browser itself tells of the refusal


def test_a_refresh_keeps_focus(seeded: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    visit.page.locator("#say-tie").focus()

    with visit.page.expect_response("**/dashboard/ui/shadow**", timeout=2 * PATIENCE_MS):
        pass

    assert visit.page.evaluate("document.activeElement.id") == "say-tie"
