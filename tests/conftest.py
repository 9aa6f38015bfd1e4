"""What every test shares: nothing of the developer's own environment, and properties searched alike everywhere.

Hypothesis has no time limit for one example, as the machine may be busy.
"""

from __future__ import annotations

import os

import hypothesis
import pytest

from hermes.settings import ENVIRONMENT

SKIP_VARIABLE = "HERMES_TESTS_SKIP"

hypothesis.settings.register_profile("hermes", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("hermes")


@pytest.fixture(autouse=True)
def _nobodys_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that happens to be set where the tests run must not change what they see."""
    for name in (*ENVIRONMENT.values(), "ROUTER_PROXY_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where everything is to be tested, a skipped test is a failure."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get(SKIP_VARIABLE) == "never":
        terminalreporter.write_line(f"{len(skipped)} skipped, and {SKIP_VARIABLE}=never", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """See `pytest_terminal_summary`."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and os.environ.get(SKIP_VARIABLE) == "never":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
