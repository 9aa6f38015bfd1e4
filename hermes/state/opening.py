"""Which state store a URL names."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from hermes.settings import MEMORY
from hermes.state.resilient import ResilientStore
from hermes.state.store import MemoryStore, StateStore

log = logging.getLogger("hermes-router.state")

THIS_MACHINE: Final = (None, "localhost", "127.0.0.1", "::1")


def open_store(url: str, workers: int = 1, rebuilt: Collection[str] = (), seals: str | None = None) -> StateStore:
    """The store of `HERMES_STATE_URL`; one that is shared need not be there yet.

    Args:
        workers: how many of this machine's processes use it.
        rebuilt: nouns that are made anew where they are missing, see `ResilientStore`.
        seals: the one of them that vouches for the others.

    Raises:
        StartRefused: the URL makes no sense.
    """
    if url == MEMORY:
        return MemoryStore()
    # redis-py takes a fifth of a second to load, and only this kind of URL needs it.
    from hermes.state.redis_store import RedisStore

    store = ResilientStore(RedisStore(url), workers, rebuilt=rebuilt, seals=seals)
    parts = urlsplit(url)
    if parts.scheme == "redis" and not parts.password and parts.hostname not in THIS_MACHINE:
        log.warning("The shared state on %s asks for no password and is not encrypted", parts.hostname)
    return store
