"""The traces page in a real browser."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.e2e.gateway import ADMIN_KEY, Gateway, eventually

from .browser import PATIENCE_MS, Visit
from .pages import HOSTILE

PAGE = "/dashboard/traces"


def test_what_happens_is_seen_while_it_happens(gateway: Gateway, visit: Visit) -> None:
    gateway.chat("before", tier=None)
    visit.sign_in(path=PAGE)
    visit.page.wait_for_selector("#events tr")

    answer = gateway.chat(HOSTILE, tier=None)

    new = visit.page.locator(f"#events tr:has(td[title='{answer.request_id}'])")
    new.first.wait_for()
    assert HOSTILE in visit.page.locator("#events").inner_text(), "it is text"
    assert visit.page.locator("main img").count() == 0
    assert visit.page.locator("#events tr").first.locator("td").nth(1).inner_text() == "route", "the newest is on top"


def test_only_one_kind_of_event_is_shown_and_followed(gateway: Gateway, visit: Visit) -> None:
    gateway.chat("hello", tier=None)
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("radio", name="classify").check(force=True)
    expect(visit.page.locator("#events td.ev", has_text="route")).to_have_count(0, timeout=PATIENCE_MS)
    visit.page.wait_for_url("**/dashboard/traces?event=classify")
    answer = gateway.chat("how are you", tier=None)
    visit.page.locator(f"#events td[title='{answer.request_id}']").wait_for()

    assert set(visit.page.locator("#events td.ev").all_inner_texts()) == {"classify"}


def test_nothing_is_added_while_nobody_follows(gateway: Gateway, visit: Visit) -> None:
    gateway.chat("hello", tier=None)
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("switch", name="Follow").click()
    visit.page.wait_for_url("**/dashboard/traces?follow=0")
    answer = gateway.chat("hello again", tier=None)
    visit.page.wait_for_timeout(1500)

    assert visit.page.locator(f"#events td[title='{answer.request_id}']").count() == 0
    assert visit.page.get_by_role("switch", name="Follow").get_attribute("aria-checked") == "false"


def test_the_lines_are_a_file_with_the_same_filter(gateway: Gateway, visit: Visit) -> None:
    request_id = gateway.chat("hello", tier=None).request_id
    eventually(lambda: gateway.traces(request_id=request_id, event="route"), bool)
    visit.sign_in(path=f"{PAGE}?q={request_id}")

    with visit.page.expect_download() as started:
        visit.page.get_by_role("link", name="JSONL").click()

    lines = started.value.path().read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["request_id"] for line in lines} == {request_id}
    assert ADMIN_KEY not in "".join(lines)
