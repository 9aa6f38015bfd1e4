"""The usage log in a real browser: finding a request, reading it, keeping one's place, taking a file along."""

from __future__ import annotations

import csv
import io
import sqlite3
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Browser, Route, expect

from tests.e2e.gateway import Gateway

from .browser import NARROW, PATIENCE_MS, Visit
from .pages import HOSTILE

PAGE = "/dashboard/usage"
MANY = 130


def test_a_request_is_found_by_its_id_and_opened(gateway: Gateway, visit: Visit) -> None:
    answer = gateway.chat("why is the sky blue", tier=None, user="anna")
    gateway.chat("another one", user="bert")
    gateway.usage(1, user_id="bert")
    visit.sign_in(path=PAGE)

    visit.page.get_by_label("Search requests").press_sequentially(answer.request_id)
    expect(visit.page.locator("#rows tr.hit")).to_have_count(1, timeout=PATIENCE_MS)
    visit.page.locator(f"#link-{answer.request_id}").click()

    drawer = visit.page.locator("#drawer")
    drawer.get_by_text("why is the sky blue").first.wait_for()
    for section in ("Decision", "Attempts", "Timing", "Policy", "Prompt"):
        expect(drawer.get_by_role("heading", name=section)).to_be_visible()
    assert visit.page.evaluate("document.activeElement.id") == "drawer"
    assert f"{PAGE}/{answer.request_id}?q=" in visit.page.url
    assert visit.page.locator(f"#row-{answer.request_id}").get_attribute("aria-selected") == "true"


def test_a_long_error_stays_in_its_column(gateway: Gateway, visit: Visit) -> None:
    """It did run over the time beside it."""
    answer = gateway.chat("demo:503 hello", user="long")
    gateway.usage(1, user_id="long")
    visit.sign_in(path=f"{PAGE}/{answer.request_id}")

    visit.page.locator("#attempts tr").first.wait_for()
    beyond = "cells => cells.map(cell => cell.scrollWidth - cell.clientWidth)"

    assert max(visit.page.locator("#attempts td").evaluate_all(beyond)) <= 0


def test_drawer_and_focus_survive_a_refresh_and_new_rows_wait(gateway: Gateway, visit: Visit) -> None:
    first = gateway.chat("the first", user="carla").request_id
    gateway.usage(1, user_id="carla")
    visit.sign_in(path=f"{PAGE}?user_id=carla")
    visit.page.locator(f"#link-{first}").click()
    visit.page.locator("#drawer.opened").wait_for()

    gateway.chat("the second", user="carla")
    gateway.usage(2, user_id="carla")
    visit.page.get_by_role("link", name="1 new").wait_for()

    assert visit.page.locator("#rows tr.hit").count() == 1, "rows come when they are asked for"
    expect(visit.page.locator("#drawer.opened")).to_be_visible()
    assert visit.page.evaluate("document.activeElement.id") == "drawer"
    visit.page.get_by_role("link", name="1 new").click()
    expect(visit.page.locator("#rows tr.hit")).to_have_count(2)
    expect(visit.page.locator("#drawer.opened")).to_be_visible()
    visit.page.reload()
    assert visit.page.locator("#drawer").get_attribute("data-request") == first, "the address says what is open"


def test_rows_are_walked_through_and_requests_opened_by_keys(gateway: Gateway, visit: Visit) -> None:
    ids = [gateway.chat(f"text {number}", user="dora").request_id for number in range(3)]
    gateway.usage(3, user_id="dora")
    visit.sign_in(path=f"{PAGE}?user_id=dora")
    active = "document.activeElement.id"

    visit.page.keyboard.press("j")
    visit.page.keyboard.press("j")
    assert visit.page.evaluate(active) == f"link-{ids[1]}"
    visit.page.keyboard.press("k")
    assert visit.page.evaluate(active) == f"link-{ids[2]}"
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#drawer")).to_have_attribute("data-request", ids[2])
    visit.page.keyboard.press("ArrowDown")
    expect(visit.page.locator("#drawer")).to_have_attribute("data-request", ids[1])
    visit.page.keyboard.press("Escape")

    expect(visit.page.locator("#drawer")).to_be_hidden()
    expect(visit.page.locator(f"#link-{ids[1]}")).to_be_focused()
    assert visit.page.url.endswith(f"{PAGE}?user_id=dora")


def test_a_key_in_the_moment_of_a_swap_does_not_lead_away(gateway: Gateway, visit: Visit) -> None:
    """The link in a drawer that has just come was followed like a plain one: the page was loaded anew."""
    ids = [gateway.chat(f"quick {number}", user="eve").request_id for number in range(2)]
    gateway.usage(2, user_id="eve")
    visit.sign_in(path=f"{PAGE}?user_id=eve")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#drawer.opened")).to_be_focused()
    visit.page.evaluate(
        """next => {
            window.untouched = true;
            new MutationObserver((_, observer) => {
                if (document.querySelector('#drawer').dataset.request !== next) return;
                observer.disconnect();
                document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
            }).observe(document.body, { childList: true, subtree: true, attributes: true });
        }""",
        ids[0],
    )

    visit.page.keyboard.press("ArrowDown")

    expect(visit.page.locator(f"#link-{ids[0]}")).to_be_focused()
    expect(visit.page.locator("#drawer")).to_be_hidden()
    assert visit.page.evaluate("window.untouched")


def test_the_file_holds_exactly_what_the_filters_show(gateway: Gateway, visit: Visit) -> None:
    gateway.chat('=HYPERLINK("http://x.test")', user="emil")
    gateway.chat("good", user="emil", headers={"X-Hermes-Tier": "complex"}, tier=None)
    gateway.usage(2, user_id="emil")
    visit.sign_in(path=f"{PAGE}?user_id=emil&tier=simple")

    with visit.page.expect_download() as started:
        visit.page.get_by_role("link", name="CSV").click()

    rows = list(csv.DictReader(io.StringIO(started.value.path().read_text(encoding="utf-8"))))
    assert [row["prompt_preview"] for row in rows] == ['\'=HYPERLINK("http://x.test")']
    assert visit.page.locator("#rows tr.hit").count() == 1
    name = started.value.suggested_filename
    assert "user_id-emil" in name
    assert "tier-simple" in name
    assert "range-24h" in name


def test_a_filter_is_put_on_and_taken_off(gateway: Gateway, visit: Visit) -> None:
    gateway.chat("hello", user="frida")
    gateway.chat("please debug it", user="frida", tier="complex")
    gateway.usage(2, user_id="frida")
    visit.sign_in(path=f"{PAGE}?user_id=frida")

    visit.page.locator("#pick-tier summary").click()
    visit.page.locator("#pick-tier").get_by_role("link", name="complex").click()
    expect(visit.page.locator("#rows tr.hit")).to_have_count(1)
    assert "tier=complex" in visit.page.url
    visit.page.get_by_role("link", name="Remove Tier complex").click()

    expect(visit.page.locator("#rows tr.hit")).to_have_count(2)


def test_nothing_that_fits_names_the_filter_to_take_away(gateway: Gateway, visit: Visit) -> None:
    gateway.chat("hello", user="gerd")
    gateway.usage(1, user_id="gerd")
    visit.sign_in(path=f"{PAGE}?user_id=gerd&decision=teacher")

    visit.page.get_by_text("No request fits").wait_for()
    way_out = visit.page.locator(".ways-out li", has_text="Decided by teacher")
    assert "1 request" in way_out.inner_text()
    way_out.get_by_role("link").click()

    expect(visit.page.locator("#rows tr.hit")).to_have_count(1)


def test_what_strangers_have_written_is_text(gateway: Gateway, visit: Visit) -> None:
    hostile = f"{HOSTILE}\n\x1b[31mred\u202etxt مرحبا {'w' * 400}"
    answer = gateway.chat(hostile, user="\u202e<b>hans</b>")
    gateway.usage(1, request_id=answer.request_id)
    visit.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    visit.sign_in(path=f"{PAGE}/{answer.request_id}")

    text = visit.page.locator("#payload pre").first.inner_text()
    overflow = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert HOSTILE in text
    assert "‹U+001B›[31mred‹U+202E›txt" in text
    assert visit.page.locator("main img, main #drawer header b").count() == 0
    assert overflow <= 0


def test_an_unknown_id_is_a_clear_page(visit: Visit) -> None:
    visit.sign_in()

    answer = visit.go(f"{PAGE}/req_nobody")

    assert answer.status == 404
    expect(visit.page.get_by_text("no request of this id")).to_be_visible()
    visit.page.get_by_role("link", name="To the usage log").click()
    visit.page.get_by_role("heading", name="Usage log").wait_for()
    visit.faults.clear()  # the browser itself tells of the 404


def test_all_of_it_can_be_read_without_script(gateway: Gateway, browser: Browser) -> None:
    answer = gateway.chat("without script", user="without-script")
    gateway.usage(1, user_id="without-script")
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(path=PAGE)

    window.page.get_by_label("Search requests").fill("without-script")
    window.page.get_by_role("button", name="Search").click()
    window.page.locator(f"#link-{answer.request_id}").click()

    assert "without script" in window.page.locator("#drawer #payload").inner_text()
    window.page.get_by_role("link", name="Close", exact=True).click()
    expect(window.page.locator("#rows tr.hit")).to_have_count(1)
    expect(window.page.locator("#drawer")).to_be_hidden()
    window.close()


def test_rows_that_are_slow_to_come_have_a_place_held_for_them(gateway: Gateway, visit: Visit) -> None:
    gateway.chat("hello", user="jana")
    gateway.usage(1, user_id="jana")
    visit.sign_in(path=PAGE)
    held: list[Route] = []
    visit.page.route("**/dashboard/ui/usage?*q=jana*", lambda route: held.append(route))

    visit.page.get_by_label("Search requests").fill("jana")
    visit.page.locator("#usage-loading .skeleton").first.wait_for()
    while not held:
        visit.page.wait_for_timeout(20)
    held[0].continue_()

    expect(visit.page.locator("#rows tr.hit")).to_have_count(1)
    expect(visit.page.locator("#usage-loading")).to_be_hidden()


def test_rows_come_as_one_scrolls_down(gateway: Gateway, visit: Visit) -> None:
    copy_rows(gateway, "klaus", MANY)
    visit.sign_in(path=f"{PAGE}?user_id=klaus")
    rows = visit.page.locator("#rows tr.hit")
    assert rows.count() == 50

    while visit.page.locator("#more").count():
        visit.page.mouse.wheel(0, 20_000)
        visit.page.wait_for_timeout(50)

    ids = rows.evaluate_all("rows => rows.map(row => row.id)")
    assert len(ids) == len(set(ids)) == MANY


def test_the_first_visit_says_how_a_request_gets_here(browser: Browser) -> None:
    fresh = Gateway.start()
    window = Visit(browser, fresh)

    window.sign_in(path=PAGE)

    expect(window.page.get_by_text("No request yet")).to_be_visible()
    assert f'base_url="http://127.0.0.1:{fresh.port}/v1"' in window.page.locator("pre.snippet").inner_text()
    assert window.faults == []
    window.close()
    fresh.stop()


def test_a_log_that_cannot_be_read_says_so_and_the_page_stays(browser: Browser) -> None:
    broken = Gateway.start()
    window = Visit(browser, broken)
    window.sign_in()
    with sqlite3.connect(broken.folder / "hermes.db") as database:
        database.execute("ALTER TABLE ai_usage_logs RENAME TO aside")
    database.close()

    answer = window.go(PAGE)

    assert answer.status == 200
    expect(window.page.get_by_text("The usage log cannot be read at the moment")).to_be_visible()
    expect(window.page.get_by_role("heading", name="Usage log")).to_be_visible()
    window.close()
    broken.stop()


def copy_rows(gateway: Gateway, user: str, number: int) -> None:
    """So many rows of a user's, as if they had asked for hours."""
    gateway.chat("hello", user=user)
    gateway.usage(1, user_id=user)
    with sqlite3.connect(gateway.folder / "hermes.db") as database:
        names = [name for _, name, *_ in database.execute("PRAGMA table_info(ai_usage_logs)") if name != "id"]
        row = dict(zip(names, database.execute(
            f"SELECT {', '.join(names)} FROM ai_usage_logs WHERE user_id = ?", (user,)
        ).fetchone(), strict=True))  # fmt: skip
        for place in range(1, number):
            at = (datetime.now(UTC) - timedelta(minutes=place)).isoformat(timespec="milliseconds")
            values = {**row, "request_id": f"copy_{place}", "created_at": at.replace("+00:00", "Z")}
            marks = ", ".join("?" * len(names))
            database.execute(
                f"INSERT INTO ai_usage_logs ({', '.join(names)}) VALUES ({marks})",
                list(values.values()),
            )
    database.close()
