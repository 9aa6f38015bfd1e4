"""A real Chromium on the dashboard: how it is found, how an operator signs in, what may not happen on any page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.gateway import ADMIN_KEY, Gateway

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)

MISSING = "There is no Chromium here; on Debian: apt-get install chromium. CHROMIUM names one elsewhere."


def chromium_path() -> str | None:
    """The system's Chromium, or what the variable CHROMIUM names."""
    given = os.environ.get("CHROMIUM")
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def opened() -> Iterator[Browser]:
    """A browser of its own."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """One person's window: its page, and what went wrong on it."""

    def __init__(self, browser: Browser, gateway: Gateway, **options: Any) -> None:
        self.base = f"http://127.0.0.1:{gateway.port}"
        # A point that pulses makes Chromium draw without an end, which takes a quarter of a core for each window.
        wanted: Any = {"viewport": WIDE, "reduced_motion": "reduce", **options}
        self.context: BrowserContext = browser.new_context(**wanted)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def go(self, path: str) -> Any:
        """Opens a page of the server."""
        return self.page.goto(f"{self.base}{path}", wait_until="load")

    def sign_in(self, key: str = ADMIN_KEY, path: str = "/dashboard/circuits") -> None:
        """As a person does."""
        self.go(path)
        self.page.get_by_label("Admin key").fill(key)
        with self.page.expect_navigation(wait_until="domcontentloaded", timeout=3 * PATIENCE_MS):  # figures take long
            self.page.get_by_role("button", name="Sign in").click()

    def close(self) -> None:
        """Closes the window."""
        self.context.close()


def shoot(page: Page, path: Path) -> None:
    """A picture of what is on the screen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(path))
