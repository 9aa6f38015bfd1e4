"""What holds for every page: it reads without script, and shows text as text. `test_every_page_dark` and `_light` look
at each with a ruler.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import Gateway

from .axe import NOTHING_WRONG, looked_at
from .browser import Visit
from .pages import EVERY, HOSTILE, PAGES, Shown


@pytest.mark.parametrize("page", EVERY)
def test_a_page_reads_without_script(browser: Browser, busy: Gateway, page: Shown) -> None:
    window = Visit(browser, busy, java_script_enabled=False)
    window.sign_in(path=page.path)

    window.page.wait_for_selector(page.ready)

    assert window.page.locator("h1").count() == 1
    expect(window.page.get_by_role("link", name="Circuits").first).to_be_visible()
    expect(window.page.locator("[data-palette]")).to_be_hidden()
    window.close()


@pytest.mark.parametrize("page", EVERY)
def test_what_callers_have_sent_is_shown_as_text(signed_in: Visit, page: Shown) -> None:
    signed_in.go(page.path)

    html = signed_in.page.content()

    assert HOSTILE not in html
    assert signed_in.page.locator("main img").count() == 0
    assert signed_in.page.locator("[style]").count() == 0 or page.name in CHARTED


@pytest.mark.timeout(180)  # every page, with a server of its own
def test_a_page_that_has_nothing_to_show_is_whole(browser: Browser) -> None:
    gateway = Gateway.start()
    window = Visit(browser, gateway)
    window.sign_in()

    wrong = {}
    for page in PAGES:
        window.faults.clear()
        window.go(page.path)
        window.page.wait_for_selector("h1")
        wrong[page.name] = looked_at(window)

    assert {name: look for name, look in wrong.items() if look != NOTHING_WRONG} == {}
    window.close()
    gateway.stop()


CHARTED = ("overview", "usage", "classifier", "budgets")
"""Pages with figures: Plotly sets styles by script, which the policy allows."""
