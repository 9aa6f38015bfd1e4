"""What every test shares: nothing of the developer's own environment, properties searched alike everywhere, and
temporary files in memory.

Hypothesis has no time limit for one example, as the machine may be busy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

from hermes.settings import ENVIRONMENT

SKIP_VARIABLE = "HERMES_TESTS_SKIP"

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 1024**3
"""Far more than all tests need; a container often has 64 MB there."""

LONGEST = ("web", "e2e", "contract")
"""Folders of tests with browsers and servers, in the order of how long a file of theirs takes."""

hypothesis.settings.register_profile("hermes", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("hermes")


def pytest_configure(config: pytest.Config) -> None:
    """Puts temporary files into memory where there is plenty: hundreds of databases and of browsers' profiles are made
    and thrown away, and a disk takes several times as long. Whoever wants to look at them afterwards sets `TMPDIR`.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        return
    for left in MEMORY.glob("hermes-tests-of-*-*"):  # by a run that was killed
        if not Path("/proc", left.name.split("-")[3]).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"hermes-tests-of-{os.getpid()}-", dir=MEMORY))
    folder.chmod(0o755)  # Postgres runs as another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)  # for processes that are begun from here, too

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(remove)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the tests, the longest files come first: none is left for the end, when the others
    have nothing more to do. Goes with xdist's `--no-loadscope-reorder`, which else begins with the files of many tests.
    """
    if hasattr(config, "workerinput"):
        items.sort(
            key=lambda item: next((n for n, name in enumerate(LONGEST) if name in item.path.parts), len(LONGEST))
        )


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
