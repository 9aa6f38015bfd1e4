"""The way of a request, top to bottom. Only this module knows the order of the stages.

Each stage takes values and gives one. What a stage holds (the lifeline, the exchange's row, the upstream answer) enters
one ExitStack: an error unwinds it here; success hands it to the relay, whose end unwinds it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import orjson

from hermes.accounting.exchange import Exchange, preview_of
from hermes.admission.auth import authenticate, with_user
from hermes.chatrequest import ChatRequest
from hermes.errors import InvalidRequest
from hermes.observe.metrics import Metrics
from hermes.observe.redact import Redactor
from hermes.policy import Policy, PolicyBox
from hermes.routing.conversation import last_user_text
from hermes.routing.router import Asked, Router
from hermes.routing.sessions import Sessions
from hermes.types import Cascade, Decision, Principal
from hermes.upstream.cascade import Answer, Ask, Upstreams
from hermes.upstream.eventstream import carried_bytes
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.relay import Ended, Relay

log = logging.getLogger("hermes-router")

Emit = Callable[[str, Mapping[str, Any]], None]
SHORT_KEY_CHARS = 6


@dataclass(frozen=True, slots=True)
class Call:
    """A completion request as it came over HTTP, free of any framework."""

    route: str
    request_id: str
    read_body: Callable[[int], bytes]
    """Reads the whole body, up to a limit in bytes; raises `PayloadTooLarge`, `BodyTimeout`, `ClientGone`."""

    bearer: str
    lifeline: Lifeline
    began: float
    """On the monotonic clock."""

    tier: str | None = None
    session: str | None = None
    user: str = ""
    timeout: str | None = None
    """The headers X-Hermes-Tier, X-Hermes-Session, X-Hermes-User and X-Request-Timeout."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back: a status, headers, and bytes or a relay."""

    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]


class Gateway:
    """Answers completion requests."""

    def __init__(
        self,
        policies: PolicyBox,
        router: Router,
        sessions: Sessions,
        upstreams: Upstreams,
        begin: Callable[[Call], Exchange],
        emit: Emit,
        metrics: Metrics,
        redactor: Redactor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policies = policies
        self._router = router
        self._sessions = sessions
        self._upstreams = upstreams
        self._begin = begin
        self._emit = emit
        self._metrics = metrics
        self._redactor = redactor
        self._clock = clock

    def chat(self, call: Call) -> Reply:
        """Answers `POST /v1/chat/completions`.

        Raises:
            HermesError: with the status and the body of its answer; the usage row is written by then.
            ClientGone: there is nobody to answer.
        """
        with ExitStack() as held:
            policy = self._policies.current()
            held.callback(call.lifeline.release)

            # Who asks, and for what?
            principal = authenticate(call.bearer, policy.auth)
            exchange = held.enter_context(self._begin(call))
            request = self._read(call, policy, exchange)
            principal = with_user(principal, request.body, call.user)
            prompt = last_user_text(request.messages) or ""
            preview = preview_of(prompt, policy.logging.store_prompts)
            exchange.asked(request.messages, principal, stream=request.stream, preview=preview)

            # Which tier should answer?
            with call.lifeline:
                decision = self._router.decide(policy, _asked(call, request, principal, preview))
            exchange.decided(decision)
            cascade = policy.cascades[decision.tier]
            self._note_decision(decision, cascade, stream=request.stream)

            # Who answers first?
            ask = Ask(
                request,
                cascade,
                policy,
                deadline=call.began + _timeout_s(call, cascade),
                lifeline=call.lifeline,
                record=exchange.tried,
                turn_to=exchange.turned_to,
                prompt_tokens=exchange.prompt_tokens,
                skip_primary=decision.strikes >= policy.streaming.strikes_before_fallback,
            )
            answer = held.enter_context(self._first_answer(ask, decision, exchange, call.lifeline))

            # From here on the caller has an answer: nothing may fall over to another endpoint any more.
            headers = _headers(answer, decision, exchange)
            if answer.stream is None:
                return self._whole(answer, exchange, headers, call)
            relay = Relay(
                answer,
                answer.stream,
                on_break=policy.streaming.on_break,
                settle=self._settler(exchange, decision, policy),
                held=held.pop_all(),
                request_id=call.request_id,
            )
            return Reply(200, headers, relay)

    # -- the stages' joints -------------------------------------------------------------------------------

    def _read(self, call: Call, policy: Policy, exchange: Exchange) -> ChatRequest:
        """The request, its reading not counted as Hermes's own time: a slow sender is not a slow gateway."""
        began = self._clock()
        raw = call.read_body(policy.server.max_body_bytes)
        exchange.waited((self._clock() - began) * 1000)
        return ChatRequest.parse(raw)

    def _first_answer(self, ask: Ask, decision: Decision, exchange: Exchange, lifeline: Lifeline) -> Answer:
        """The cascade's answer, with one `route` event however it ends."""
        began = self._clock()
        answer: Answer | None = None
        try:
            answer = self._upstreams.first_answer(ask)
        finally:
            exchange.waited(lifeline.slept_s * 1000)
            self._note_route(ask, decision, exchange, answer, (self._clock() - began) * 1000)
        return answer

    def _whole(self, answer: Answer, exchange: Exchange, headers: list[tuple[str, str]], call: Call) -> Reply:
        """A whole answer; its row is written before its first byte leaves."""
        if answer.status != 200:
            body = self._refusal_body(answer, call.request_id)
            exchange.refuse(f"the provider answered {answer.status}")
            return Reply(answer.status, [*headers, ("Content-Type", "application/json")], [body])
        content_bytes = 0 if answer.usage else _content_bytes(answer.body)
        exchange.settle("ok", usage=answer.usage, content_bytes=content_bytes)
        if exchange.record.estimated_cost_usd is not None:
            headers.append(("X-Hermes-Cost-Usd", exchange.record.estimated_cost_usd))
        headers.append(("Content-Type", answer.content_type or "application/json"))
        return Reply(200, headers, [answer.body])

    def _refusal_body(self, answer: Answer, request_id: str) -> bytes:
        """The provider's own error, byte for byte if it is JSON; never with one of our keys in it."""
        try:
            orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            message = f"The provider refused the request with status {answer.status} (request {request_id})."
            body = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
            return orjson.dumps({"error": body})
        return self._redactor.clean_bytes(answer.body)

    def _settler(self, exchange: Exchange, decision: Decision, policy: Policy) -> Callable[[Ended], None]:
        """What a relay calls at its end: the account, the session's strikes, the trace."""

        def settle(ended: Ended) -> None:
            if ended.status == "interrupted":
                self._strike(decision, exchange, policy, ended.error or "the stream broke")
            elif ended.status == "ok" and decision.strikes:
                self._sessions.clean(decision.session_key)
            exchange.settle(
                ended.status,
                usage=ended.usage,
                content_bytes=ended.content_bytes,
                first_content_at=ended.first_content_at,
                error=ended.error,
            )

        return settle

    # -- what is told on the way --------------------------------------------------------------------------

    def _strike(self, decision: Decision, exchange: Exchange, policy: Policy, error: str) -> None:
        failures = self._sessions.strike(decision.session_key) if decision.session_key else 1
        limit = policy.streaming.strikes_before_fallback
        model = exchange.record.model
        self._emit(
            "stream_error",
            {
                "session_key": decision.session_key,
                "model": model,
                "error": error,
                "failure_count": failures,
                "max_failures": limit,
            },
        )
        log.warning("Stream of %s broke: %s (%d of %d)", model, error, failures, limit)

    def _note_decision(self, decision: Decision, cascade: Cascade, *, stream: bool) -> None:
        self._metrics.request(decision.tier, stream)
        log.info(
            "Routing session %s → %s (%s)",
            decision.session_key[:SHORT_KEY_CHARS] or "-",
            decision.tier,
            cascade.endpoints[0].model,
        )

    def _note_route(
        self, ask: Ask, decision: Decision, exchange: Exchange, answer: Answer | None, latency_ms: float
    ) -> None:
        called = [attempt for attempt in exchange.attempts if attempt.called]
        level = answer.level if answer else exchange.record.fallback_level
        if answer is not None and answer.level > 0:
            self._metrics.fallback(answer.level)
        self._emit(
            "route",
            {
                "session_key": decision.session_key,
                "tier": decision.tier,
                "model": ask.cascade.endpoints[0].model,
                "upstream_status": answer.status if answer else (called[-1].status if called else None),
                "stream": ask.request.stream,
                "latency_ms": round(latency_ms, 3),
                "fallback_level": level,
                "fallback_model": answer.endpoint.model if answer and answer.level else None,
            },
        )


def _asked(call: Call, request: ChatRequest, principal: Principal, preview: str | None) -> Asked:
    metadata = request.body.get("metadata")
    named = metadata.get("session_id") if isinstance(metadata, Mapping) else None
    return Asked(
        principal=principal,
        messages=request.messages,
        requested_model=request.model,
        forced_tier_header=call.tier,
        named_session=call.session or (str(named) if named else None),
        preview=preview or "",
    )


def _timeout_s(call: Call, cascade: Cascade) -> float:
    """How long the whole request may take: what the caller says, else what the tier says."""
    if call.timeout is None:
        return cascade.timeout_s
    try:
        seconds = float(call.timeout)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidRequest("X-Request-Timeout must be a positive number of seconds.", param="X-Request-Timeout")
    return seconds


def _headers(answer: Answer, decision: Decision, exchange: Exchange) -> list[tuple[str, str]]:
    source = decision.source
    if decision.confidence is not None:
        source = f"{source};confidence={decision.confidence:.3f}"  # type: ignore[assignment]
    headers = [
        ("X-Hermes-Tier", decision.tier),
        ("X-Hermes-Model", answer.endpoint.model),
        ("X-Hermes-Decision", source),
        ("X-Hermes-Fallback-Level", str(answer.level)),
        ("X-Hermes-Overhead-Ms", f"{exchange.overhead_ms():.2f}"),
    ]
    if answer.stream is not None:
        headers += [
            ("Content-Type", answer.content_type),
            ("Cache-Control", "no-cache, no-transform"),
            ("X-Accel-Buffering", "no"),
        ]
    return headers


def _content_bytes(body: bytes) -> int:
    """How much text a whole answer holds, for an estimate where it does not say its usage."""
    try:
        choices = orjson.loads(body).get("choices")
    except orjson.JSONDecodeError:
        return 0
    messages = [choice.get("message") for choice in choices if isinstance(choice, Mapping)]
    return sum(carried_bytes(message) for message in messages)
