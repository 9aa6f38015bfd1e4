"""One gateway a module; every test begins with healthy providers and closed breakers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .world import World


@pytest.fixture(scope="module")
def running_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world with the module's `CONFIG` and `ENV`, where it has them."""
    world = World(getattr(request.module, "CONFIG", None), getattr(request.module, "ENV", None))
    yield world
    world.close()


@pytest.fixture
def world(running_world: World) -> World:
    """A gateway between its providers, as good as new."""
    running_world.begin()
    return running_world
