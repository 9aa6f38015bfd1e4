"""What one request gets to know: what is selected, found and fitting, within its time.

Knowledge helps an answer and is never a reason to have none. Whatever goes wrong here (no embedder, no database, no
time), the request goes on without, its usage row says so, and the log tells it once a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import gevent

from hermes.errors import HermesError
from hermes.knowledge.reference import fitting, reference_message
from hermes.knowledge.selection import Selection, select
from hermes.knowledge.shelf import Shelf
from hermes.knowledge.vectors import Embedder
from hermes.policy import KnowledgePolicy, Policy
from hermes.types import ANYONE, Allowance

log = logging.getLogger("hermes-router")

PATIENCE_S: Final = 1.0
SAID_EVERY_S: Final = 60.0
BYTES_PER_TOKEN: Final = 3
"""Of the room in a window; fewer than a token has, so that what is added surely fits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a request here."""

    hint: str | None
    use_case: str | None
    question: str
    """What the user has written last."""

    room_tokens: int | None
    """In the window of the model that is to answer; None: unknown."""


@dataclass(frozen=True, slots=True)
class Grounded:
    """What came of it."""

    message: str
    """Empty: nothing is added."""

    noted: dict[str, Any]
    """For the usage row; empty: nothing was asked for."""

    waited_ms: float = 0.0
    """For an embedder that is elsewhere."""


NOTHING: Final = Grounded("", {})


class NoTime(Exception):
    """It took too long."""


class Grounder:
    """Finds what a request should know."""

    def __init__(
        self,
        shelf: Shelf,
        embedder: Callable[[Policy, Allowance], Embedder],
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            embedder: the one of a policy, for a request with this verdict of residency.
        """
        self._shelf = shelf
        self._embedder = embedder
        self._patience_s = patience_s
        self._clock = clock
        self._said: dict[str, float] = {}

    def ground(self, asked: Asked, policy: Policy, allowance: Allowance = ANYONE) -> Grounded:
        """The message for a request. Blocks: `patience_s` at most; never raises."""
        knowledge = policy.knowledge
        if not is_asked_for(asked.hint, asked.use_case, knowledge):
            return NOTHING
        began = self._clock()
        try:
            with gevent.Timeout(self._patience_s, NoTime):
                grounded = self._found(asked, policy, allowance)
        except NoTime:
            grounded = self._without(f"nothing was found within {self._patience_s:g} s")
        except HermesError as error:
            grounded = self._without(error.message)
        except Exception as error:  # an edge: the request goes on without
            log.exception("Knowledge failed")
            grounded = self._without(f"it failed ({type(error).__name__})")
        is_elsewhere = policy.embedder is not None
        waited_ms = (self._clock() - began) * 1000 if is_elsewhere else 0.0
        return Grounded(grounded.message, grounded.noted, waited_ms)

    def _found(self, asked: Asked, policy: Policy, allowance: Allowance) -> Grounded:
        knowledge = policy.knowledge
        picture = self._shelf.current()
        selection = select(asked.hint, asked.use_case, asked.question, picture.entities, knowledge.use_cases)
        if selection is None:
            return NOTHING
        if not selection.question.strip():
            return Grounded("", {**_noted(selection), "note": "the request has no text to look for"})
        embedder = self._embedder(policy, allowance)
        vector = embedder.question(selection.question)
        hits = self._shelf.search(picture, vector, selection, embedder, knowledge.top_k, knowledge.min_score)
        room = None if asked.room_tokens is None else max(0, asked.room_tokens * BYTES_PER_TOKEN)
        taken = fitting(hits, knowledge.max_chars, room)
        noted = {**_noted(selection), "chunks": [hit.noted() for hit in taken]}
        if not taken:
            noted["note"] = _why_none(len(hits), len(picture.usable(selection, embedder.identity())))
        return Grounded(reference_message(taken) if taken else "", noted)

    def _without(self, reason: str) -> Grounded:
        now = self._clock()
        if now - self._said.get(reason, -SAID_EVERY_S) >= SAID_EVERY_S:
            self._said = {known: at for known, at in self._said.items() if now - at < SAID_EVERY_S}
            self._said[reason] = now
            log.warning("A request goes on without knowledge: %s", reason)
        return Grounded("", {"chunks": [], "note": reason})


def is_asked_for(hint: str | None, use_case: str | None, knowledge: KnowledgePolicy) -> bool:
    """Whether there is anything to be done at all; costs nothing."""
    return knowledge.enabled and bool(hint or (use_case and use_case in knowledge.use_cases))


def _noted(selection: Selection) -> dict[str, Any]:
    return {"use_case": selection.use_case, "entity": selection.entity, "chunks": []}


def _why_none(found: int, documents: int) -> str:
    if found:
        return "what was found does not fit the model's window or max_chars"
    return "no passage is near enough" if documents else "there are no documents for this"
