"""One gateway a module; every test begins with healthy providers and closed breakers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .world import World

collect_ignore = ["runtimes", "within"]
"""What runs outside of pytest's own process: what the clients' tests start, and what is loaded into servers."""


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    """A world of the module's own; nothing that happens in it may come as a surprise to Hermes."""
    world = World()
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@pytest.fixture
def world(running_world: World) -> World:
    """A gateway between its providers, as good as new."""
    running_world.begin()
    return running_world
