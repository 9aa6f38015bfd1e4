"""What is asked of the cascade, and what can come of it: an answer, or calls that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from hermes.chatrequest import ChatRequest
from hermes.embeddingrequest import EmbeddingRequest
from hermes.policy import Policy
from hermes.types import Allowance, Attempt, Bill, Cascade, Endpoint
from hermes.upstream.breaker import Permit
from hermes.upstream.eventstream import EventStream
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.outcome import Kind
from hermes.upstream.reading import read


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
        usage: object = None,
        text_bytes: int = 0,
    ) -> None:
        """
        Args:
            usage: what the provider has told before the call failed; the body's counts where it holds one.
            text_bytes: how much text had come by then.
        """
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.message = message
        self.wait_s = wait_s
        self.body = body
        self._usage = usage
        self._text_bytes = text_bytes

    def bill(self) -> Bill | None:
        """What the provider may charge. A refusal is free, and so is what was never sent; what went silent, or was no
        completion, may have been made.
        """
        if self.kind is Kind.NOT_SENT or (self.status is not None and not 200 <= self.status < 300):
            return None
        said = read(self.body) if self.body else None
        if not isinstance(said, dict):
            return Bill(self._usage, self._text_bytes)
        usage = said.get("usage") or self._usage
        return None if said.get("error") and not usage else Bill(usage, self._text_bytes)
