"""The residency page in a real browser: with rules in force, and something masked and blocked."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.gateway import ADMIN_KEY, Gateway
from tests.e2e.provider import Provider

from .axe import violations
from .browser import NARROW, WIDE, Visit
from .pages import HOSTILE

PAGE = "/dashboard/residency"
PART = "/dashboard/ui/residency?range=24h"
ADDRESS = "user@example.com"
RULES = [
    {"name": "customers stay", "match": {"data_classes": ["customer"]}, "regions": ["eu"]},
    {"match": {"detected": ["email", "phone"]}, "action": "redact"},
    {"match": {"detected": ["iban"]}, "action": "block"},
    {"match": {"data_classes": ["secret"]}, "regions": ["eu"], "store_text": False},
]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A server with two providers in two regions, and rules."""
    with Provider() as home, Provider() as away:
        endpoints = [
            {"model": "own-model", "base_url": home.base_url, "api_key_env": "", "region": "eu"},
            {"model": "far-model", "base_url": away.base_url, "api_key_env": "", "region": "us"},
        ]
        models = {"simple": {"endpoints": endpoints}, "complex": {"endpoints": endpoints[1:]}}
        running = Gateway.start({"models": models, "residency": {"rules": RULES}})
        running.chat(f"write to {ADDRESS} {HOSTILE}", metadata={"data_classes": ["customer"]})
        running.chat("transfer to DE89 3704 0044 0532 0130 00")
        running.chat("hello", tier="complex", metadata={"data_classes": ["customer"]})
        running.chat(f"also {ADDRESS}", metadata={"data_classes": "secret"})
        running.usage(4)
        yield running
        logs = running.logs()
        running.stop()
        assert "Traceback" not in logs


def test_the_page_proves_that_nothing_left_its_bounds(visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page

    figures = page.locator(".kpi").all_inner_texts()
    assert [text.split("\n")[1] for text in figures] == ["0", "2", "2", "4"]
    assert "of 2 calls for 3 bound requests" in figures[0]
    line = page.locator(".policy tr", has_text="customer")
    assert line.locator(".state").all_inner_texts() == ["allowed", "blocked"]
    assert page.locator(".policy tr", has_text="E-mail address").locator(".state.warn").count() == 2
    assert page.locator("#rule-1").inner_text().split() == [
        "1",
        "customers",
        "stay",
        "data",
        "class",
        "customer",
        "eu",
        "allow",
        "kept",
    ]


def test_hits_are_masked_and_lead_to_their_request(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page
    rows = page.locator("tr.hit")

    assert rows.count() == 4
    assert ADDRESS not in page.content()
    assert HOSTILE not in page.content()
    assert "write to [EMAIL_1]" in rows.nth(3).inner_text()
    assert "not kept" in rows.nth(0).inner_text()
    rows.nth(3).get_by_role("link").click()
    page.get_by_text("Answered in").wait_for()

    drawer = page.locator("#policy").inner_text()
    assert "customers stay" in drawer
    assert "email × 1 (rule 2)" in drawer


def test_what_happens_is_seen_without_a_reload(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    before = visit.page.locator("tr.hit").count()
    gateway.chat("call +49 30 901820 please")
    gateway.usage(before + 1)

    for _ in range(20):  # the page asks by itself every 30 s; what it is given is kept for a moment
        visit.page.evaluate(f"htmx.ajax('GET', '{PART}', {{target: '#residency', swap: 'outerMorph'}})")
        if visit.page.locator("tr.hit", has_text="Phone number").count():
            break
        visit.page.wait_for_timeout(200)

    assert visit.page.locator("tr.hit", has_text="Phone number").count() == 1


def test_another_range_is_in_the_address_and_the_file_holds_the_hits(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("link", name="7 d").click()
    visit.page.wait_for_url(f"**{PAGE}?range=7d")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("link", name="CSV").click()

    assert saved.value.suggested_filename == "hermes-residency-7d.csv"
    text = saved.value.path().read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["action"] for row in rows} == {"masked", "blocked"}
    assert ADDRESS not in text


@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_page_with_rules_is_accessible(visit: Visit, theme: str, size: dict[str, int]) -> None:
    visit.page.set_viewport_size(size)  # type: ignore[arg-type]
    visit.sign_in(path=f"{PAGE}?theme={theme}")

    overflow = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert violations(visit) == []
    assert overflow <= 0


def test_the_page_reads_without_script(browser: Browser, gateway: Gateway) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(ADMIN_KEY, PAGE)

    window.page.locator("#rule-4").wait_for()

    assert window.page.locator("tr.hit").count() >= 4
    window.close()
