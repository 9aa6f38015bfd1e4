"""One upstream call for itself, off the callers' path: for targets that are compared, and for judges.

It is made once. Whatever comes of it is nobody else's business: no endpoint is asked in its place, no breaker counts
it, no key rests after it, and a key that rests is not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hermes.chatrequest import ChatRequest
from hermes.policy import Policy
from hermes.trials import Heard
from hermes.types import Allowance, Cascade, Endpoint, ProviderKey
from hermes.upstream.answer import Answer, Ask, CallFailed
from hermes.upstream.breaker import Permit
from hermes.upstream.call import Caller
from hermes.upstream.keyring import Keyring
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.outcome import Kind
from hermes.upstream.response import Lost, TimedOut

MOST_BYTES = 1024 * 1024
"""Of an answer that is compared."""


class NotAsked(Exception):
    """The call was not made, or was refused for a mistake of ours; it has cost nothing."""


class NoPermit(Permit):
    """Stands where a breaker's leave is wanted: nothing is told to any breaker."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def failed(self) -> None: ...

    def succeeded(self) -> None: ...

    def promising(self) -> None: ...

    def undecided(self) -> None: ...


class Alone:
    """Makes such calls."""

    def __init__(self, caller: Caller, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        self._caller = caller
        self._keyring = keyring
        self._clock = clock
        self._without_options: set[str] = set()
        """Endpoints that have refused `stream_options`."""

    def ask(self, endpoint: Endpoint, request: ChatRequest, policy: Policy, allowance: Allowance) -> Heard:
        """The endpoint's whole answer, or what went wrong; within the endpoint's own time.

        Args:
            allowance: who may see what the request holds.

        Raises:
            NotAsked: it may not see it, no key is to be had, the request needs what the endpoint does not have, or
                its first stream was refused for an option of ours, which the next one will not have.
        """
        if not allowance.permits(endpoint):
            raise NotAsked("residency")
        key = self._key(endpoint)
        if endpoint.capabilities is not None and request.needs() - endpoint.capabilities:
            raise NotAsked("unfit")
        ask = Ask(
            request,
            Cascade("simple", (endpoint,), endpoint.timeout_s),
            policy,
            deadline=self._clock() + endpoint.timeout_s,
            lifeline=Lifeline(),
            allowance=allowance,
            record=lambda attempt: None,
            turn_to=lambda endpoint, level: None,
            prompt_tokens=lambda: 0,
        )
        began = self._clock()
        try:
            with self._caller.answer(
                ask, 0, endpoint, NoPermit(), key, ask_usage=endpoint.id not in self._without_options
            ) as answer:
                return self._whole(answer, began)
        except CallFailed as failed:
            if failed.kind is Kind.OPTIONS_REFUSED and endpoint.id not in self._without_options:
                self._without_options.add(endpoint.id)
                raise NotAsked("unfit") from None
            bill = failed.bill()
            return Heard(
                usage=bill.usage if bill is not None else None,
                latency_ms=self._since(began),
                error=failed.message,
                is_billed=bill is not None,
            )

    def _key(self, endpoint: Endpoint) -> ProviderKey | None:
        usable = self._keyring.usable(endpoint)
        if not usable:
            raise NotAsked("key")
        return usable[0]

    def _whole(self, answer: Answer, began: float) -> Heard:
        stream = answer.stream
        if stream is None:
            size = len(answer.body)
            if size > MOST_BYTES:
                return self._too_large(answer.usage, began, size)
            return Heard(answer.body, answer.usage, self._since(began), text_bytes=size)
        pieces, size, lost = [answer.held], len(answer.held), None
        try:
            while not (stream.is_done or stream.error is not None) and (block := stream.next_block()):
                pieces.append(block)
                size += len(block)
                if size > MOST_BYTES:
                    return self._too_large(stream.usage, began, stream.content_bytes)
        except (Lost, TimedOut) as error:
            lost = str(error)
        first = stream.first_content_at
        return Heard(
            b"".join(pieces),
            stream.usage,
            self._since(began),
            None if first is None else (first - began) * 1000,
            lost or (None if stream.is_whole and stream.error is None else "the stream broke off"),
            text_bytes=stream.content_bytes,
        )

    def _too_large(self, usage: object, began: float, text_bytes: int) -> Heard:
        """It is not compared, but it is paid for."""
        return Heard(
            usage=usage,
            latency_ms=self._since(began),
            error=f"the answer is larger than {MOST_BYTES:,} bytes",
            is_too_large=True,
            text_bytes=text_bytes,
        )

    def _since(self, began: float) -> float:
        return (self._clock() - began) * 1000
