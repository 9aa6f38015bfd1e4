"""One server with the demo provider and one Chromium for all pages' tests; each test has a window of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.gateway import Gateway

from .browser import MISSING, Visit, chromium_path, opened
from .pages import send_traffic


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    if chromium_path() is None:
        pytest.skip(MISSING)
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A server with the demo provider; nothing that happens may come as a surprise to it."""
    running = Gateway.start()
    yield running
    logs = running.logs()
    running.stop()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@pytest.fixture
def visit(browser: Browser, gateway: Gateway) -> Iterator[Visit]:
    """A window that nobody has signed in with; no page in it may have met an error or a refused script or style."""
    gateway.close_circuits()
    window = Visit(browser, gateway)
    yield window
    faults = window.faults
    window.close()
    assert faults == []


@pytest.fixture(scope="module")
def busy(gateway: Gateway) -> Gateway:
    """The server, when it has seen a little of everything."""
    send_traffic(gateway)
    return gateway


@pytest.fixture(scope="module")
def signed_in(browser: Browser, busy: Gateway) -> Iterator[Visit]:
    """One window for many pages, that somebody has signed in with."""
    window = Visit(browser, busy)
    window.sign_in()
    yield window
    window.close()
