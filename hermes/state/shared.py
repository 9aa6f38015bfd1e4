"""What a store must offer so that several workers can share it, beyond the verbs that the stages use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hermes.state.store import StateStore


class StoreAway(Exception):
    """The shared store cannot be used now; the text says why. Its caller goes on without it."""


class SharedStore(StateStore, Protocol):
    """A store outside of this process. Every verb may raise `StoreAway`, soon."""

    def look(self, key: str) -> tuple[str, float] | None:
        """The value and how long it has to live, in seconds; or None."""

    def offer(self, entries: Sequence[tuple[str, str, float]]) -> None:
        """Puts each (key, value, lifetime in seconds) for which there is nothing."""

    def generation(self, mine: str) -> tuple[str, str]:
        """The names of all that is in the store, a new one after it was emptied: `mine`, if there is none yet; and of
        the store's own life, a new one after it was started again, empty where it does not tell.
        """
