"""One request that was drawn to be compared, from its decision to the end of its answer.

It only keeps what passes by: the bytes of the answer, up to a bound, and at the end the usage row. Nothing is read or
reckoned before the caller has had their answer, and a request that was not drawn has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes.chatrequest import ChatRequest
from hermes.policy import Policy
from hermes.types import Allowance, Attempt, Endpoint, UsageRecord

MOST_BYTES: Final = 1024 * 1024
"""Of an answer; a longer one is not compared."""

FAULTS_OF_CALLERS: Final = (400, 413, 415, 422)
"""The request itself was refused, which says nothing about the model."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is compared, and under which rules."""

    role: str
    primary: Endpoint
    target: Endpoint
    request: ChatRequest
    """As it was sent to the primary, but for the model."""

    policy: Policy
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class Task:
    """A drawn request whose own answer is over."""

    drawn: Drawn
    record: UsageRecord
    answer: bytes
    """The primary's, whole or as events; empty where it gave none."""

    error: str | None
    """Why the primary gave none."""

    call_ms: float | None = None
    """How long the upstream call took that gave it; of a stream, until its first content."""


@dataclass(slots=True)
class Sample:
    """Collects a drawn request's answer."""

    drawn: Drawn
    offer: Callable[[Task], None]
    """Takes the task; never raises and never waits."""

    drop: Callable[[str], None]
    """Counts a sample that comes to nothing, by its reason."""

    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0

    def saw(self, block: bytes) -> None:
        """A piece of the primary's answer goes to the caller."""
        self._size += len(block)
        if self._size <= MOST_BYTES:
            self._pieces.append(block)

    def over(self, record: UsageRecord, attempts: Sequence[Attempt]) -> None:
        """The request is over, and its row complete."""
        if record.status not in ("ok", "error", "interrupted"):
            self.drop("unanswered")
            return
        own = [attempt for attempt in attempts if attempt.endpoint == self.drawn.primary.id]
        error = self._error(record, own)
        if error is None and self._size > MOST_BYTES:
            self.drop("too_large")
            return
        if error == "":
            self.drop("unanswered")
            return
        answer = b"" if error else b"".join(self._pieces)
        self.offer(Task(self.drawn, record, answer, error, own[-1].duration_ms if own else None))

    def _error(self, record: UsageRecord, own: Sequence[Attempt]) -> str | None:
        """Why the primary gave no answer; None where it did, empty where that is no fault of its own."""
        if record.endpoint == self.drawn.primary.id and record.status == "ok":
            return None
        if record.endpoint == self.drawn.primary.id and record.status == "interrupted":
            return record.error_message or "the stream broke"
        if not own or own[-1].status in FAULTS_OF_CALLERS or own[-1].status == 200:
            return ""
        return own[-1].message
