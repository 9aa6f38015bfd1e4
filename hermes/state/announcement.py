"""A word that one worker says and every other hears when it listens next: that the configuration was reloaded, say.

The word is a new random name each time and not a counter: a counter that was lost with the store's content would begin
anew, and could meet the number that a worker heard last.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from hermes.state.store import StateStore

KEPT_S: Final = 30 * 86_400.0


class Announcement:
    """One kind of news, as one worker sees it."""

    def __init__(self, store: StateStore, key: str, new_name: Callable[[], str] = lambda: uuid.uuid4().hex) -> None:
        """What was said before this moment is no news for this worker."""
        self._store = store
        self._key = key
        self._new_name = new_name
        self._heard = store.get(key)

    def say(self) -> None:
        """Tells the others."""
        self._heard = self._new_name()
        self._store.put(self._key, self._heard, KEPT_S)

    def is_new(self) -> bool:
        """Whether another worker has said something since the last call; of several words only the last counts."""
        said = self._store.get(self._key)
        if said is None or said == self._heard:  # None: the store has lost it
            return False
        self._heard = said
        return True
