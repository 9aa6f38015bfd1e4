"""The classifier's page in a real browser, and who gets it as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import ADMIN_KEY, Gateway

from .browser import Visit
from .pages import HOSTILE, send_traffic

PAGE = "/classifier/report"
KEYS = {"generated_at", "surrogate", "classification_sources", "routing", "models", "errors", "drift"}
BEARER = {"Authorization": f"Bearer {ADMIN_KEY}"}
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A server that has decided a little of everything."""
    running = Gateway.start()
    send_traffic(running)
    running.usage(40)
    yield running
    logs = running.logs()
    running.stop()
    assert "Traceback" not in logs


def database(gateway: Gateway) -> Any:
    return closing(sqlite3.connect(gateway.folder / "hermes.db", timeout=10))


def audit(gateway: Gateway, pairs: list[tuple[str, str]]) -> None:
    """What the teacher has said of decisions of the surrogate in force, in all."""
    version = gateway.admin("GET", PAGE).json["surrogate"]["model"]
    with database(gateway) as connection, connection:
        connection.execute("DELETE FROM surrogate_audits")
        connection.executemany(
            "INSERT INTO surrogate_audits (created_at, request_id, surrogate, surrogate_tier, teacher_tier, confidence,"
            " rate) VALUES ('2026-01-01T00:00:00.000Z', ?, ?, ?, ?, 0.9, 0.03)",
            [(f"req_{HOSTILE if a != b else number}", version, a, b) for number, (a, b) in enumerate(pairs)],
        )


def test_who_decided_how_surely_and_who_answered_is_shown(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page

    expect(page.locator("h1")).to_have_text("Classifier")
    sources = page.locator(".sources")
    for name in ("Session cache", "Keyword", "Surrogate", "Teacher", "Forced by the caller"):
        expect(sources).to_contain_text(name)
    told = gateway.admin("GET", f"{PAGE}?hours=24").json
    hits = told["surrogate"]["surrogate_hits"]
    expect(page.locator(".kpi").first).to_contain_text(f"{hits} of {hits + told['surrogate']['llm_deferrals']}")
    page.locator("#drift .plotly, #drift .main-svg").first.wait_for()
    page.locator("#confidence .main-svg").first.wait_for()
    expect(page.locator("table", has_text="p50")).to_contain_text("demo-small")
    expect(page.locator("section", has_text="Fallback use").last).to_contain_text("503")
    assert "aria-current" in page.get_by_role("link", name="Classifier").first.evaluate("element => element.outerHTML")


def test_the_figures_are_tables_too(visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    visit.page.locator("#drift-table > summary").click()

    expect(visit.page.locator("#drift-table table")).to_contain_text("Coverage (%)")
    assert visit.page.locator("#drift-table tbody tr").count() == 25


def test_before_fifty_audits_no_agreement_is_claimed_and_then_both_mistakes_are_named(
    gateway: Gateway, visit: Visit
) -> None:
    audit(gateway, [("simple", "simple")] * 12)
    visit.sign_in(path=f"{PAGE}?range=6h")
    visit.page.get_by_text("12 of 50, agreement shows at 50").wait_for()
    assert visit.page.locator(".matrix").count() == 0

    alike = [("simple", "simple")] * 42 + [("complex", "complex")] * 14
    audit(gateway, [*alike, *[("simple", "complex")] * 3, ("complex", "simple")])
    visit.go(f"{PAGE}?range=7d")
    matrix = visit.page.locator(".matrix")
    matrix.wait_for()

    assert [cell.inner_text().split("\n")[0] for cell in matrix.locator(".cell").all()] == ["42", "3", "1", "14"]
    expect(visit.page.locator(".kpis")).to_contain_text("93.3")
    expect(visit.page.locator(".kpis")).to_contain_text("60 audited, 95% CI")
    assert visit.page.locator("main img").count() == 0


@pytest.mark.parametrize(
    ("path", "headers", "is_page"),
    [
        pytest.param(PAGE, BEARER, False, id="a program"),
        pytest.param(f"{PAGE}?format=json", {**BEARER, **HTML}, False, id="a browser that asks for JSON"),
        pytest.param(PAGE, {**BEARER, **HTML}, False, id="a key is no session"),
    ],
)
def test_programs_get_json_with_the_keys_of_the_contract(
    gateway: Gateway, path: str, headers: dict[str, str], is_page: bool
) -> None:
    answer = gateway.request("GET", path, headers)

    assert answer.status == 200
    assert (answer.headers["content-type"].startswith("text/html")) is is_page
    assert {*answer.json} >= KEYS


def test_nobody_else_sees_it(gateway: Gateway) -> None:
    assert gateway.request("GET", PAGE).status == 401
    assert gateway.request("GET", f"{PAGE}?format=html", {"Authorization": "Bearer wrong", **HTML}).status == 401
    led = gateway.request("GET", PAGE, HTML)
    assert (led.status, led.headers["location"]) == (303, "/dashboard/sign-in?next=%2Fclassifier%2Freport")
    assert gateway.request("GET", "/dashboard/ui/classifier", HTML).status == 303


def test_a_signed_in_browser_gets_the_page_with_its_policy_or_json_where_it_asks(
    gateway: Gateway, visit: Visit
) -> None:
    visit.sign_in(path="/dashboard/circuits")

    page = visit.go(PAGE)
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["cache-control"] == "no-store"
    with visit.page.expect_download() as caught:
        visit.page.evaluate(
            "() => { const a = document.createElement('a'); a.href = '/classifier/report?format=json';"
            " a.download = 'r'; document.body.append(a); a.click(); }"
        )
    assert b'"coverage_pct"' in caught.value.path().read_bytes()


def test_two_keys_lead_to_it(visit: Visit) -> None:
    visit.sign_in(path="/dashboard/circuits")

    for key in "gr":
        visit.page.keyboard.press(key)

    visit.page.wait_for_url(f"**{PAGE}", wait_until="commit")


def test_it_reads_without_script(gateway: Gateway, browser: Browser) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(path=PAGE)

    window.page.get_by_role("link", name="6 h").click()

    window.page.get_by_text("Coverage by hour: lowest").wait_for()
    window.page.locator(".sources").wait_for()
    window.close()


@pytest.mark.parametrize(
    ("surrogate", "told"),
    [
        pytest.param({"enabled": False}, "It is switched off in the configuration", id="off"),
        pytest.param({"enabled": True}, "decides alone", id="without a teacher"),
    ],
)
def test_a_server_without_traffic_says_what_decides(browser: Browser, surrogate: dict[str, Any], told: str) -> None:
    endpoint = {"endpoints": [{"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": ""}]}
    config = {"models": {"simple": endpoint, "complex": endpoint}, "classifier": {"surrogate": surrogate}}
    gateway = Gateway.start(config)
    window = Visit(browser, gateway)

    window.sign_in(path=PAGE)

    window.page.get_by_text(told).first.wait_for()
    window.page.get_by_text("No decisions in this range").wait_for()
    assert window.faults == []
    window.close()
    gateway.stop()
