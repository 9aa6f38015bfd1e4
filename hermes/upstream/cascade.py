"""The way down a tier's endpoints until one answers.

One concern a function, and each calls only the next: `first_answer` goes from endpoint to endpoint, `_visit` asks one
endpoint again where that is allowed, `_with_each_key` goes through its keys, `_call` makes one upstream call. What a
failure means is decided in `outcome.py`.

A call is made only while fewer than `MAX_CALLS` were made, and a repetition only if that still leaves one call for each
endpoint further down, so that many 503s at the first one cannot use up the others' turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import orjson

from hermes.chatrequest import ChatRequest
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import CircuitsOpen, DeadlineExceeded, UpstreamFailed
from hermes.policy import Policy
from hermes.types import Attempt, Cascade, Endpoint, ProviderKey
from hermes.upstream.breaker import Breakers, Permit
from hermes.upstream.eventstream import EventStream, NotAnAnswer
from hermes.upstream.keyring import DEFAULT_REST_S, LONGEST_REST_S, Keyring, retry_after_s
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.notes import Notes
from hermes.upstream.outcome import COUNTS_AS_FAILURE, Kind, ProviderError, kind_of
from hermes.upstream.transport import Lost, NotSent, Response, TimedOut, Transport

MAX_CALLS = 10
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 1024 * 1024
LEAST_TIME_S = 0.01
DEFAULT_RETRY_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the cascade, and within which bounds."""

    request: ChatRequest | EmbeddingRequest
    cascade: Cascade
    policy: Policy
    deadline: float
    """A moment of the monotonic clock; the whole request is over by then."""

    lifeline: Lifeline
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
        content_type: str = "application/json",
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
        self.content_type = content_type
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
        content_type: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.message = message
        self.wait_s = wait_s
        self.body = body
        self.content_type = content_type


class Upstreams:
    """Asks the endpoints of a tier."""

    def __init__(
        self,
        transport: Transport,
        breakers: Breakers,
        keyring: Keyring,
        notes: Notes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._breakers = breakers
        self._keyring = keyring
        self._notes = notes
        self._clock = clock
        self._without_options: set[str] = set()
        """Endpoints that have refused `stream_options`."""

    def first_answer(self, ask: Ask) -> Answer:
        """The first answer that an endpoint gives; a caller's own mistake (400, 413, 422) is an answer too.

        Raises:
            UpstreamFailed, CircuitsOpen, DeadlineExceeded: with every attempt.
            ClientGone: the caller has hung up.
        """
        return _Descent(self, ask).first_answer()


class _Descent:
    """One request's way down; lives as long as that request has no answer."""

    def __init__(self, upstreams: Upstreams, ask: Ask) -> None:
        self._up = upstreams
        self._ask = ask
        self._attempts: list[Attempt] = []
        self._calls = 0
        self._too_long: Answer | None = None
        """The first *context length exceeded*, in case nobody with a larger window is asked after it."""

        self._calls_until_too_long = 0
        self._outgrown = 0
        """The largest window that has proved too small."""

    def first_answer(self) -> Answer:
        endpoints = self._ask.cascade.endpoints
        open_circuits = 0
        for level, endpoint in enumerate(endpoints):
            reason = self._reason_to_skip(level, endpoint)
            if reason:
                self._record(endpoint, None, reason, called=False)
                continue
            permit = self._up._breakers.permit(endpoint, self._ask.policy.breaker)
            if permit is None:
                open_circuits += 1
                self._record(endpoint, None, "skipped: its circuit is open", called=False)
                continue
            answer = self._try(level, endpoint, permit, len(endpoints) - level - 1)
            if answer is not None:
                return answer
        if self._too_long is not None and self._calls == self._calls_until_too_long:
            return self._too_long
        raise self._failure(open_circuits)

    def _try(self, level: int, endpoint: Endpoint, permit: Permit, others: int) -> Answer | None:
        """One endpoint's answer, or None; tells its breaker how it went."""
        try:
            answer = self._visit(level, endpoint, permit, others)
        except CallFailed as failed:
            if failed.kind in COUNTS_AS_FAILURE:
                permit.failed()
            permit.undecided()
            return self._after(failed, level, endpoint, permit)
        except BaseException:  # the caller has left, or the time is over: that says nothing about the endpoint
            permit.undecided()
            raise
        if answer.stream is None:
            permit.succeeded()
        else:
            permit.promising()
        return answer

    def _after(self, failed: CallFailed, level: int, endpoint: Endpoint, permit: Permit) -> Answer | None:
        """The caller's own mistake as an answer; None where the next endpoint is to be asked."""
        if failed.kind not in (Kind.CALLERS, Kind.TOO_LONG):
            return None
        answer = Answer(
            endpoint, level, permit, status=failed.status or 400, content_type=failed.content_type, body=failed.body
        )
        if failed.kind is Kind.CALLERS:
            return answer
        self._outgrown = max(self._outgrown, endpoint.context_window or 0)
        self._too_long = self._too_long or answer
        self._calls_until_too_long = self._calls
        return None

    # -- one endpoint -------------------------------------------------------------------------------------

    def _visit(self, level: int, endpoint: Endpoint, permit: Permit, others: int) -> Answer:
        """Asks one endpoint, and asks it again where that is allowed."""
        retry, busy, unsent = self._ask.policy.retry, 0, 0
        while True:
            try:
                return self._with_each_key(level, endpoint, permit)
            except CallFailed as failed:
                if failed.kind is Kind.BUSY and not self._ask.request.stream and busy < len(retry.backoff_503_s):
                    wait_s = min(
                        retry.backoff_503_s[busy], failed.wait_s if failed.wait_s is not None else float("inf")
                    )
                    busy += 1
                elif failed.kind is Kind.NOT_SENT and unsent + 1 < retry.transport_attempts:
                    wait_s = retry.transport_backoff_s
                    unsent += 1
                else:
                    raise
                if self._calls + others >= MAX_CALLS or wait_s >= self._left():
                    raise
            self._ask.lifeline.sleep(wait_s)

    def _with_each_key(self, level: int, endpoint: Endpoint, permit: Permit) -> Answer:
        """Asks with one key after the other while they are limited, each once."""
        keys = self._up._keyring.usable(endpoint)
        for index, key in enumerate(keys):
            try:
                return self._with_options(level, endpoint, permit, key)
            except CallFailed as failed:
                if failed.kind is not Kind.LIMITED:
                    raise
                self._up._keyring.rest(endpoint, key, failed.wait_s if failed.wait_s is not None else DEFAULT_REST_S)
                self._up._notes.limited(endpoint, key, self._ask.cascade.tier, failed.message)
                if index + 1 == len(keys) or self._calls >= MAX_CALLS:
                    raise
                self._up._notes.key_rotated(endpoint, self._ask.cascade.tier, failed.message)
        raise CallFailed(Kind.MISCONFIGURED, None, "skipped: no key is usable")

    def _with_options(self, level: int, endpoint: Endpoint, permit: Permit, key: ProviderKey | None) -> Answer:
        """Asks for usage in a stream, and once more without where the endpoint refuses that."""
        refuses = self._up._without_options
        try:
            return self._call(level, endpoint, permit, key, ask_usage=endpoint.id not in refuses)
        except CallFailed as failed:
            if failed.kind is not Kind.OPTIONS_REFUSED:
                raise
            if endpoint.id in refuses or self._calls >= MAX_CALLS:
                raise CallFailed(
                    Kind.CALLERS, failed.status, failed.message, body=failed.body, content_type=failed.content_type
                ) from None
        answer = self._call(level, endpoint, permit, key, ask_usage=False)
        refuses.add(endpoint.id)
        return answer

    # -- one call -----------------------------------------------------------------------------------------

    def _call(
        self, level: int, endpoint: Endpoint, permit: Permit, key: ProviderKey | None, *, ask_usage: bool
    ) -> Answer:
        """One upstream call, timed and recorded however it ends."""
        self._ask.lifeline.check()
        if self._left() < LEAST_TIME_S:
            raise self._over()
        self._calls += 1
        self._ask.turn_to(endpoint, level)
        began = self._up._clock()
        status: int | None = None
        message = "the caller hung up"
        try:
            answer = self._exchange(level, endpoint, permit, key, ask_usage=ask_usage)
            status, message = answer.status, "answered"
        except CallFailed as failed:
            status, message = failed.status, failed.message
            raise
        finally:
            self._record(endpoint, status, message, duration_ms=(self._up._clock() - began) * 1000)
        return answer

    def _exchange(
        self, level: int, endpoint: Endpoint, permit: Permit, key: ProviderKey | None, *, ask_usage: bool
    ) -> Answer:
        request = self._ask.request
        began = self._up._clock()
        deadline = min(self._ask.deadline, began + endpoint.timeout_s)
        try:
            response = self._up._transport.post(
                endpoint.base_url,
                _headers(endpoint, key, stream=request.stream),
                request.outgoing(endpoint.model, ask_usage=ask_usage),
                route=request.route,
                deadline=deadline,
                lifeline=self._ask.lifeline,
            )
        except NotSent as error:
            raise CallFailed(Kind.NOT_SENT, None, str(error)) from None
        except Lost as error:
            raise CallFailed(Kind.UNWELL, None, str(error)) from None
        except TimedOut as error:
            raise self._timed_out(error, endpoint, began, None) from None
        try:
            return self._read(level, endpoint, permit, response)
        except BaseException as error:
            response.release()
            if isinstance(error, Lost):
                raise CallFailed(Kind.UNWELL, response.status, str(error)) from None
            if isinstance(error, TimedOut):
                raise self._timed_out(error, endpoint, began, response.status) from None
            raise

    def _timed_out(self, error: TimedOut, endpoint: Endpoint, began: float, status: int | None) -> CallFailed:
        """Only an endpoint that had its whole time is to blame: a caller in a hurry must not open circuits."""
        had_its_time = self._up._clock() - began >= endpoint.timeout_s - LEAST_TIME_S
        return CallFailed(Kind.UNWELL if had_its_time else Kind.TIME_UP, status, str(error))

    def _read(self, level: int, endpoint: Endpoint, permit: Permit, response: Response) -> Answer:
        content_type = response.headers.get("content-type", "")
        if response.status != 200:
            raise self._refusal(endpoint, response, content_type)
        if not self._ask.request.stream:
            body = response.read_all(MAX_ANSWER_BYTES)
            usage = _usage_of_answer(body, self._ask.request.is_answer)
            return Answer(endpoint, level, permit, content_type=content_type, body=body, usage=usage)
        if not content_type.lower().startswith("text/event-stream"):
            raise _not_an_answer(response.read_all(MAX_ERROR_BYTES), "the provider answered with no event stream")
        stream = EventStream(
            response,
            idle_timeout_s=self._ask.policy.streaming.idle_timeout_s,
            wants_usage=self._ask.request.wants_usage,
            choices=self._ask.request.choices(),
            clock=self._up._clock,
        )
        try:
            held = stream.open()
        except NotAnAnswer as error:
            raise _not_an_answer(error.body, str(error)) from None
        return Answer(endpoint, level, permit, content_type=content_type, stream=stream, held=held)

    def _refusal(self, endpoint: Endpoint, response: Response, content_type: str) -> CallFailed:
        """What a status other than 200 means, with a message that is fit to be shown."""
        status = response.status
        if 200 <= status < 300:
            return CallFailed(Kind.UNWELL, status, f"the provider answered {status}, which holds no completion")
        body = response.read_all(MAX_ERROR_BYTES)
        error = ProviderError.read(body)
        kind = kind_of(status, error, streamed=self._ask.request.stream)
        wait_s = LONGEST_REST_S if error.is_quota else retry_after_s(response.headers, time.time())
        message = f"the provider answered {status}"
        if kind is Kind.MISCONFIGURED:
            self._up._notes.misconfigured(endpoint, status)
        elif said := self._up._notes.fit_to_show(error.message):
            message = f"{message}: {said}"
        return CallFailed(kind, status, message, wait_s=wait_s, body=body, content_type=content_type)

    # -- bookkeeping --------------------------------------------------------------------------------------

    def _reason_to_skip(self, level: int, endpoint: Endpoint) -> str:
        """Why the endpoint is not even asked; empty where nothing speaks against it."""
        ask = self._ask
        if level == 0 and ask.skip_primary and len(ask.cascade.endpoints) > 1:
            return "skipped: the session's last streams broke here"
        if endpoint.capabilities is not None and (lacking := ask.request.needs() - endpoint.capabilities):
            return f"skipped: it lacks {', '.join(sorted(lacking))}"
        window = endpoint.context_window
        if window is not None and (ask.prompt_tokens() > window or window <= self._outgrown):
            return f"skipped: the prompt does not fit its window of {window:,} tokens"
        if not endpoint.keys and endpoint.needs_key:
            return "skipped: its key is not set"
        if not self._up._keyring.usable(endpoint):
            return "skipped: its keys rest after a 429"
        return "skipped: the call limit is reached" if self._calls >= MAX_CALLS else ""

    def _record(
        self, endpoint: Endpoint, status: int | None, message: str, *, called: bool = True, duration_ms: float = 0.0
    ) -> None:
        attempt = Attempt(endpoint.id, endpoint.model, status, message, called, round(duration_ms, 3))
        self._attempts.append(attempt)
        self._ask.record(attempt)

    def _left(self) -> float:
        return self._ask.deadline - self._up._clock()

    def _over(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            "The time for this request is over; no model has answered in time.",
            self._attempts,
            retry_after_s=self._retry_after_s(),
        )

    def _failure(self, open_circuits: int) -> UpstreamFailed:
        """The error for a cascade that gave no answer."""
        if self._left() < LEAST_TIME_S and self._calls:
            return self._over()
        wait_s = self._retry_after_s()
        if open_circuits and not self._calls:
            return CircuitsOpen(
                "No model can be asked right now: the circuits of this tier are open after repeated failures.",
                self._attempts,
                retry_after_s=wait_s,
            )
        return UpstreamFailed(
            "No model of this tier could answer; error.attempts says what each one did.",
            self._attempts,
            retry_after_s=wait_s,
        )

    def _retry_after_s(self) -> float:
        """When trying again may help: as soon as one endpoint's circuit or key comes back."""
        waits: list[float] = []
        for endpoint in self._ask.cascade.endpoints:
            circuit = self._up._breakers.circuit(endpoint, self._ask.policy.breaker)
            rest_s = self._up._keyring.shortest_rest_s(endpoint) if not self._up._keyring.usable(endpoint) else None
            waits.append(max(circuit.retry_in_s, rest_s or 0.0))
        return max(1.0, min(waits, default=0.0) or DEFAULT_RETRY_AFTER_S)


def _headers(endpoint: Endpoint, key: ProviderKey | None, *, stream: bool) -> dict[str, str]:
    """What goes upstream: Hermes's own headers, none of the caller's."""
    headers = {"Accept": "text/event-stream" if stream else "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key.value.reveal()}"
    if endpoint.headers:
        own = {name.lower() for name, _ in endpoint.headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in own}
        headers |= {name: value.reveal() for name, value in endpoint.headers}
    return headers


def _usage_of_answer(body: bytes, is_answer: Callable[[Any], bool]) -> object:
    """The usage of a whole answer.

    Raises:
        CallFailed: the body is none.
    """
    try:
        whole = orjson.loads(body)
    except orjson.JSONDecodeError:
        whole = _tolerantly(body)
    if not is_answer(whole):
        raise _not_an_answer(body, "the provider answered 200 without a completion")
    return whole.get("usage")


def _tolerantly(body: bytes) -> Any:
    """NaN and lone surrogates pass the clients' parsers, so they pass here."""
    import json

    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _not_an_answer(body: bytes, message: str) -> CallFailed:
    return CallFailed(Kind.UNWELL, 200, message, body=body)
