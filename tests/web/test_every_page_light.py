"""Every page in the light theme, wide and narrow: of readable colours, as wide as the screen, without a fault in the
console. The dark theme, where every other rule is asked too, is in a file of its own, so that two workers share them.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.e2e.gateway import Gateway

from .axe import COLOURS, NOTHING_WRONG, look_at, violations
from .browser import NARROW, WIDE, Visit
from .pages import EVERY, Shown


@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
@pytest.mark.parametrize("page", EVERY)
def test_a_page_is_accessible_and_breaks_no_rule(signed_in: Visit, page: Shown, size: dict[str, Any]) -> None:
    assert look_at(signed_in, page, "light", size, COLOURS) == NOTHING_WRONG


def test_the_sign_in_page_is_accessible(browser: Browser, gateway: Gateway) -> None:
    window = Visit(browser, gateway)

    window.go("/dashboard/sign-in?theme=light")

    assert violations(window) == []
    assert window.faults == []
    window.close()
