"""What is asked of the cascade, and what can come of it: an answer, or calls that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from hermes.chatrequest import ChatRequest
from hermes.embeddingrequest import EmbeddingRequest
from hermes.policy import Policy
from hermes.types import Allowance, Attempt, Cascade, Endpoint
from hermes.upstream.breaker import Permit
from hermes.upstream.eventstream import EventStream
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.outcome import Kind


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the cascade, and within which bounds."""

    request: ChatRequest | EmbeddingRequest
    cascade: Cascade
    policy: Policy
    deadline: float
    """A moment of the monotonic clock; the whole request is over by then."""

    lifeline: Lifeline
    allowance: Allowance
    """Who may see the request."""

    record: Callable[[Attempt], None]
    """Told of every call and every skipped endpoint, also when the request ends otherwise."""

    turn_to: Callable[[Endpoint, int], None]
    """Told which endpoint is asked next, and its fallback level."""

    prompt_tokens: Callable[[], int]
    """A low estimate, to skip endpoints whose window cannot hold the prompt."""

    skip_primary: bool = False


class Answer:
    """An upstream's answer: a whole body, or a stream that has reached its first content. Held until it is closed."""

    def __init__(
        self,
        endpoint: Endpoint,
        level: int,
        permit: Permit,
        *,
        status: int = 200,
        body: bytes = b"",
        usage: object = None,
        stream: EventStream | None = None,
        held: bytes = b"",
    ) -> None:
        self.endpoint = endpoint
        self.level = level
        """The endpoint's position in the tier's list."""

        self.permit = permit
        self.status = status
        self.body = body
        self.usage = usage
        self.stream = stream
        self.held = held

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.stream.close()
        self.permit.undecided()


class CallFailed(Exception):
    """One call, or one visit to an endpoint, that gave no answer."""

    def __init__(
        self,
        kind: Kind,
        status: int | None,
        message: str,
        *,
        wait_s: float | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.message = message
        self.wait_s = wait_s
        self.body = body
