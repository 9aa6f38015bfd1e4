"""What holds for every page: it is accessible in both themes and widths, reads without script, shows text as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.e2e.gateway import Gateway

from .browser import NARROW, WIDE, Visit
from .pages import HOSTILE, PAGES, Shown, send_traffic

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
EVERY = [pytest.param(page, id=page.name) for page in PAGES]
EXPECTED_FAULT = "status of 404"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A server that has seen a little of everything."""
    running = Gateway.start()
    send_traffic(running)
    yield running
    logs = running.logs()
    running.stop()
    assert "Traceback" not in logs


@pytest.fixture(scope="module")
def signed_in(browser: Browser, gateway: Gateway) -> Iterator[Visit]:
    """A window that somebody has signed in with."""
    window = Visit(browser, gateway)
    window.sign_in()
    yield window
    window.close()


@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("page", EVERY)
def test_a_page_is_accessible_and_breaks_no_rule(
    signed_in: Visit, page: Shown, theme: str, size: dict[str, Any]
) -> None:
    signed_in.faults.clear()
    signed_in.page.set_viewport_size(size)  # type: ignore[arg-type]

    signed_in.go(f"{page.path}{'&' if '?' in page.path else '?'}theme={theme}")
    signed_in.page.wait_for_selector(page.ready)
    found = violations(signed_in)
    overflow = signed_in.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert found == []
    assert overflow <= 0, "the page itself must not scroll sideways"
    assert [fault for fault in signed_in.faults if EXPECTED_FAULT not in fault] == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_sign_in_page_is_accessible(browser: Browser, gateway: Gateway, theme: str) -> None:
    window = Visit(browser, gateway)

    window.go(f"/dashboard/sign-in?theme={theme}")

    assert violations(window) == []
    assert window.faults == []
    window.close()


@pytest.mark.parametrize("page", EVERY)
def test_a_page_reads_without_script(browser: Browser, gateway: Gateway, page: Shown) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(path=page.path)

    window.page.wait_for_selector(page.ready)

    assert window.page.locator("h1").count() == 1
    assert window.page.get_by_role("link", name="Circuits").first.is_visible()
    assert not window.page.locator("[data-palette]").is_visible()
    window.close()


@pytest.mark.parametrize("page", EVERY)
def test_what_callers_have_sent_is_shown_as_text(signed_in: Visit, page: Shown) -> None:
    signed_in.go(page.path)

    html = signed_in.page.content()

    assert HOSTILE not in html
    assert signed_in.page.locator("main img").count() == 0
    assert signed_in.page.locator("[style]").count() == 0 or page.name in CHARTED


CHARTED = ("overview", "usage", "classifier", "budgets")
"""Pages with figures: Plotly sets styles by script, which the policy allows."""


def violations(window: Visit) -> list[str]:
    """What axe-core finds, a line each."""
    window.page.evaluate(AXE.read_text(encoding="utf-8"))
    result = window.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for violation in result["violations"]
        for node in violation["nodes"]
    ]
