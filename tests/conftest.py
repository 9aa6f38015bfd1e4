"""What every test shares: nothing of the developer's own environment, and properties searched alike everywhere.

Hypothesis has no time limit for one example, as the machine may be busy.
"""

from __future__ import annotations

import hypothesis
import pytest

from hermes.settings import ENVIRONMENT

hypothesis.settings.register_profile("hermes", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("hermes")


@pytest.fixture(autouse=True)
def _nobodys_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that happens to be set where the tests run must not change what they see."""
    for name in (*ENVIRONMENT.values(), "ROUTER_PROXY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
