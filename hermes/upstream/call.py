"""One upstream call: what is sent, how long it may take, and what its answer means."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hermes.chatrequest import ChatRequest
from hermes.turns import Turn
from hermes.types import Endpoint, ProviderKey
from hermes.upstream.answer import Answer, Ask, CallFailed
from hermes.upstream.breaker import Permit
from hermes.upstream.eventstream import EventStream, NotAnAnswer
from hermes.upstream.keyring import LONGEST_REST_S, retry_after_s
from hermes.upstream.notes import Notes
from hermes.upstream.outcome import Kind, ProviderError, kind_of
from hermes.upstream.reading import read
from hermes.upstream.response import Lost, NotSent, Response, TimedOut
from hermes.upstream.transport import Transport

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 1024 * 1024
TIMER_SLACK_S = 0.01


class Caller:
    """Makes upstream calls, each for itself: repetitions and other endpoints are the cascade's business."""

    def __init__(self, transport: Transport, notes: Notes, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._notes = notes
        self._clock = clock

    def answer(
        self,
        ask: Ask,
        level: int,
        endpoint: Endpoint,
        permit: Permit,
        key: ProviderKey | None,
        *,
        ask_usage: bool,
        sent: Callable[[], None] = lambda: None,
    ) -> Answer:
        """One call's answer.

        Args:
            sent: is called when the provider has the request: from then on it may be charged.

        Raises:
            CallFailed: there is none, and why.
            ClientGone: the caller has hung up.
        """
        request = ask.request
        began = self._clock()
        deadline = min(ask.deadline, began + endpoint.timeout_s)
        try:
            response = self._transport.post(
                endpoint,
                headers_for(endpoint, key, stream=request.stream),
                request.outgoing(endpoint.model, ask_usage=ask_usage),
                allowance=ask.allowance,
                route=request.route,
                deadline=deadline,
                lifeline=ask.lifeline,
                sent=sent,
            )
        except NotSent as error:
            raise CallFailed(Kind.NOT_SENT, None, str(error)) from None
        except (Lost, TimedOut) as error:
            raise self._broken(error, endpoint, began, None) from None
        stream: EventStream | None = None
        try:
            if ask.request.stream and response.status == 200:
                stream = self._stream(ask, response)
            return self._read(ask, level, endpoint, permit, response, stream)
        except BaseException as error:
            response.release()
            if isinstance(error, Lost | TimedOut):
                raise self._broken(error, endpoint, began, response.status, *_come(ask, response, stream)) from None
            raise

    def _broken(
        self,
        error: Lost | TimedOut,
        endpoint: Endpoint,
        began: float,
        status: int | None,
        usage: object = None,
        text_bytes: int = 0,
    ) -> CallFailed:
        """Of what was not in time, only an endpoint that had its whole time is to blame: a caller in a hurry must not
        open circuits.
        """
        had_its_time = self._clock() - began >= endpoint.timeout_s - TIMER_SLACK_S
        kind = Kind.TIME_UP if isinstance(error, TimedOut) and not had_its_time else Kind.UNWELL
        return CallFailed(kind, status, str(error), usage=usage, text_bytes=text_bytes)

    def _stream(self, ask: Ask, response: Response) -> EventStream:
        if not _is_event_stream(response.headers.get("content-type", "")):
            raise _not_an_answer(response.read_all(MAX_ERROR_BYTES), "the provider answered with no event stream")
        return EventStream(
            response,
            idle_timeout_s=ask.policy.streaming.idle_timeout_s,
            wants_usage=ask.request.wants_usage,
            choices=ask.request.choices(),
            clock=self._clock,
        )

    def _read(
        self, ask: Ask, level: int, endpoint: Endpoint, permit: Permit, response: Response, stream: EventStream | None
    ) -> Answer:
        if response.status != 200:
            raise self._refusal(ask, endpoint, response)
        if stream is None:
            body = response.read_all(MAX_ANSWER_BYTES)
            usage = _usage_of_answer(body, ask.request.is_answer)
            return Answer(endpoint, level, permit, body=body, usage=usage)
        try:
            held = stream.open()
        except NotAnAnswer as error:
            raise _not_an_answer(error.body, str(error), stream.usage) from None
        return Answer(endpoint, level, permit, stream=stream, held=held)

    def _refusal(self, ask: Ask, endpoint: Endpoint, response: Response) -> CallFailed:
        """What a status other than 200 means, with a message that is fit to be shown."""
        status = response.status
        if 200 <= status < 300:
            return CallFailed(Kind.UNWELL, status, f"the provider answered {status}, which holds no completion")
        body = response.read_all(MAX_ERROR_BYTES)
        with Turn() as turn:
            error = ProviderError.read(body, turn.pause)
        kind = kind_of(status, error, streamed=ask.request.stream)
        wait_s = LONGEST_REST_S if error.is_quota else retry_after_s(response.headers, time.time())
        message = f"the provider answered {status}"
        if kind is Kind.MISCONFIGURED:
            self._notes.misconfigured(endpoint, status)
        elif ask.allowance.stores_text and (said := self._notes.fit_to_show(error.message)):  # it may quote the prompt
            message = f"{message}: {said}"
        return CallFailed(kind, status, message, wait_s=wait_s, body=body)


def headers_for(endpoint: Endpoint, key: ProviderKey | None, *, stream: bool = False) -> dict[str, str]:
    """What goes upstream: Hermes's own headers, none of the caller's."""
    headers = {"Accept": "text/event-stream" if stream else "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key.value.reveal()}"
    if endpoint.headers:
        own = {name.lower() for name, _ in endpoint.headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in own}
        headers |= {name: value.reveal() for name, value in endpoint.headers}
    return headers


def _is_event_stream(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def _usage_of_answer(body: bytes, is_answer: Callable[[Any], bool]) -> object:
    """The usage of a whole answer.

    Raises:
        CallFailed: the body is none.
    """
    whole = read(body)
    if not is_answer(whole):
        raise _not_an_answer(body, "the provider answered 200 without a completion")
    return whole.get("usage")


def _not_an_answer(body: bytes, message: str, usage: object = None) -> CallFailed:
    return CallFailed(Kind.UNWELL, 200, message, body=body, usage=usage)


def _come(ask: Ask, response: Response, stream: EventStream | None) -> tuple[object, int]:
    """What a provider had told of the usage, and how many bytes of text it had sent, when its answer broke off."""
    if stream is not None:
        return stream.usage, stream.content_bytes
    return None, response.body_bytes if isinstance(ask.request, ChatRequest) else 0  # vectors are no text
