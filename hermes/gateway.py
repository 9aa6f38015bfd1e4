"""The way of a request, top to bottom. Only this module knows the order of the stages.

Each stage takes values and gives one. What a stage holds (the lifeline, the exchange's row, the upstream answer) enters
one ExitStack: an error unwinds it here; success hands it to the relay, whose end unwinds it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hermes.accounting.exchange import Exchange
from hermes.accounting.tokens import tokens_of_fields
from hermes.admission.auth import Authenticator
from hermes.admission.claims import Patience
from hermes.admission.estimate import Estimate
from hermes.admission.quota import Quota
from hermes.admission.switch import KillSwitch
from hermes.directory import DirectoryBox
from hermes.errors import InvalidRequest, UpstreamFailed
from hermes.evaluation.shadow import Shadow
from hermes.halves import LOCAL_EMBEDDER, Bounds, ContractHalf, EmbeddingHalf, Half, Incoming, RouterHalf, Said
from hermes.knowing import Knowing, may_add_tokens
from hermes.observe.metrics import Metrics
from hermes.observe.redact import Redactor
from hermes.policy import Policy, PolicyBox
from hermes.reply import WHOLE, Reply, clean_events, content_bytes_of, headers_of, refusal_body
from hermes.routing.router import Router
from hermes.routing.sessions import Sessions
from hermes.ruled import preview_for, ruled
from hermes.skim import Unreadable
from hermes.types import ANYONE, Attempt, Cascade, Decision, Principal
from hermes.upstream.answer import Answer, Ask
from hermes.upstream.cascade import Upstreams, nobody_may_see_it
from hermes.upstream.legacy import LegacyRelay, legacy_answer
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.relay import Ended, Relay
from hermes.upstream.restoring import Placeholders, StreamRestorer

log = logging.getLogger("hermes-router")

Emit = Callable[[str, Mapping[str, Any]], None]
SHORT_KEY_CHARS = 6
TEACHERS_SHARE = 0.5
"""Of the time that a request has: the rest is for those who shall answer it."""


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

    said: Said = field(default_factory=Said)
    timeout: str | None = None
    """The header X-Request-Timeout."""


class Gateway:
    """Answers completion requests."""

    def __init__(
        self,
        policies: PolicyBox,
        directories: DirectoryBox,
        authenticator: Authenticator,
        switch: KillSwitch,
        quota: Quota,
        router: Router,
        sessions: Sessions,
        upstreams: Upstreams,
        knowing: Knowing,
        shadow: Shadow,
        begin: Callable[[Call], Exchange],
        emit: Emit,
        metrics: Metrics,
        redactor: Redactor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policies = policies
        self._directories = directories
        self._authenticator = authenticator
        self._switch = switch
        self._quota = quota
        self._by_text = RouterHalf(router)
        self._by_role = ContractHalf()
        self._embeddings = EmbeddingHalf()
        self._sessions = sessions
        self._upstreams = upstreams
        self._knowing = knowing
        self._shadow = shadow
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
        return self._serve(call, self._by_text)

    def complete(self, call: Call) -> Reply:
        """Answers `POST /v1/completions` and `/v1/completions/stream`; raises as `chat`."""
        return self._serve(call, self._by_role)

    def embed(self, call: Call) -> Reply:
        """Answers `POST /v1/embeddings`; raises as `chat`."""
        return self._serve(call, self._embeddings)

    def _serve(self, call: Call, half: Half) -> Reply:
        with ExitStack() as held:
            policy, directory = self._policies.current(), self._directories.current()
            held.callback(call.lifeline.release)

            # Who asks? A wrong key leaves no row; everything after this does.
            principal = self._authenticator.authenticate(call.bearer, policy.auth, directory, scope=half.scope)
            exchange = held.enter_context(self._begin(call))
            exchange.called_by(principal)
            self._switch.check()

            # For what, and until when?
            timeout_s = _timeout_s(call)
            until = call.began + (timeout_s or min(cascade.timeout_s for cascade in policy.cascades.values()))
            incoming = self._read(call, half, principal, policy, exchange)
            has_rules = bool(policy.residency.rules)
            preview = None if has_rules else preview_for(incoming, policy)  # with rules, only they say what may be kept
            self._note_asked(exchange, incoming, preview)

            # May it run, as far as limits and budgets say? The exchange gives back what it does not use.
            estimate = Estimate(
                incoming.chat.body,
                lambda: exchange.billed_tokens() + may_add_tokens(incoming, policy),
                lambda: half.could_answer(incoming, policy, directory),
            )
            patience = Patience(until, call.lifeline)
            name = incoming.function_name
            hold = self._quota.reserve(incoming.principal, directory, policy, estimate, name, patience)
            exchange.holds(hold.settle)
            held.push(hold.tell)

            # Who may see it?
            allowance = ANYONE
            placeholders: Placeholders | None = None
            if has_rules:
                with call.lifeline:
                    incoming, placeholders, ruling = ruled(incoming, policy, until, self._clock)
                exchange.ruled(ruling.proof())
                ruling.check()
                allowance = ruling.allowance
                preview = exchange.record.prompt_preview = preview_for(incoming, policy, allowance)
                reachable = half.reachable(incoming, policy, directory)
                if reachable and not any(map(allowance.permits, reachable)):
                    raise nobody_may_see_it(allowance)

            # Which tier should answer?
            with call.lifeline:
                patience_s = (until - self._clock()) * TEACHERS_SHARE
                bounds = Bounds(hold.downgrade, max(0.0, patience_s), preview, allowance)
                decision, cascade = half.choose(incoming, policy, directory, bounds)
            if decision is not None:
                exchange.decided(decision)
                self._note_decision(decision, cascade, stream=incoming.chat.stream)

            # What should it know? The role has said already whose window that must fit.
            if cascade.endpoints[0] is LOCAL_EMBEDDER:
                return self._knowing.embedded(incoming, exchange, hold.headers, call.lifeline, until)
            chat = self._knowing.informed(incoming, cascade, policy, allowance, exchange)

            # Is a target to be compared with who answers? It is called when the answer is over.
            role = _compared_role(incoming, decision) if not hold.downgrade else None
            sample = self._shadow.draw(policy, directory.pins, role, cascade, chat, exchange.tells, allowance)

            # Who answers first?
            ask = Ask(
                chat,
                cascade,
                policy,
                deadline=call.began + (timeout_s or cascade.timeout_s),
                lifeline=call.lifeline,
                allowance=allowance,
                record=exchange.tried,
                turn_to=exchange.turned_to,
                prompt_tokens=exchange.prompt_tokens,
                skip_primary=decision is not None and decision.strikes >= policy.streaming.strikes_before_fallback,
            )
            call.lifeline.deadline = ask.deadline
            answer = held.enter_context(self._first_answer(ask, decision, exchange, call.lifeline))

            # From here on the caller has an answer: nothing may fall over to another endpoint any more.
            headers = [*headers_of(answer, decision, exchange.overhead_ms()), *hold.headers]
            if answer.stream is None or decision is None:
                if sample is not None:
                    sample.saw(answer.body)
                return self._whole(answer, exchange, headers, call, placeholders, is_legacy=incoming.is_legacy)
            relay = Relay(
                answer,
                answer.stream,
                on_break=policy.streaming.on_break,
                settle=self._settler(exchange, decision, policy),
                held=held.pop_all(),
                lifeline=call.lifeline,
                clean=lambda block: clean_events(block, self._redactor),
                request_id=call.request_id,
                restorer=StreamRestorer(placeholders) if placeholders is not None else None,
                saw=sample.saw if sample is not None else None,
            )
            return Reply(200, headers, LegacyRelay(relay) if incoming.is_legacy else relay)

    # -- the stages' joints -------------------------------------------------------------------------------

    def _read(self, call: Call, half: Half, principal: Principal, policy: Policy, exchange: Exchange) -> Incoming:
        """The request, its arrival not counted as Hermes's own time: a slow sender is not a slow gateway."""
        began = self._clock()
        raw = call.read_body(policy.server.max_body_bytes)
        exchange.waited((self._clock() - began) * 1000)
        return half.read(raw, call.said, principal, policy)

    def _first_answer(self, ask: Ask, decision: Decision | None, exchange: Exchange, lifeline: Lifeline) -> Answer:
        """The cascade's answer, with one `route` event however it ends."""
        began = self._clock()
        answer: Answer | None = None
        try:
            answer = self._upstreams.first_answer(ask)
        finally:
            exchange.waited(lifeline.slept_s * 1000)
            if decision is not None:
                self._note_route(ask, decision, exchange, answer, (self._clock() - began) * 1000)
        return answer

    def _whole(
        self,
        answer: Answer,
        exchange: Exchange,
        headers: list[tuple[str, str]],
        call: Call,
        placeholders: Placeholders | None,
        *,
        is_legacy: bool,
    ) -> Reply:
        """A whole answer; its row is written before its first byte leaves."""
        if answer.status != 200:
            body = refusal_body(answer, call.request_id, self._redactor)
            body = body if placeholders is None else placeholders.whole(body)
            exchange.refuse(f"the provider answered {answer.status}")
            return Reply(answer.status, [*headers, WHOLE], [body])
        body = answer.body if placeholders is None else placeholders.whole(answer.body)
        try:
            body = legacy_answer(body) if is_legacy else body
        except Unreadable:
            self._refuse_unreadable(answer, exchange)
        exchange.settle("ok", usage=answer.usage, content_bytes=lambda: content_bytes_of(answer.body))
        if exchange.record.estimated_cost_usd is not None:
            headers.append(("X-Hermes-Cost-Usd", exchange.record.estimated_cost_usd))
        headers.append(WHOLE)
        return Reply(200, headers, [body])

    @staticmethod
    def _refuse_unreadable(answer: Answer, exchange: Exchange) -> NoReturn:
        """Of an answer that cannot be told in the caller's form. It is paid for, so its usage counts."""
        error = "the provider's answer cannot be turned into a legacy completion"
        exchange.settle(
            "interrupted", usage=answer.usage, content_bytes=lambda: content_bytes_of(answer.body), error=error
        )
        raise UpstreamFailed(f"{error[0].upper()}{error[1:]}.", exchange.attempts, retry_after_s=1.0)

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
                content_bytes=lambda: ended.content_bytes,
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

    def _note_asked(self, exchange: Exchange, incoming: Incoming, preview: str | None) -> None:
        record = exchange.record
        record.role, record.function_name, record.use_case = incoming.role, incoming.function_name, incoming.use_case
        chat = incoming.chat
        exchange.asked(
            chat.messages,
            incoming.principal,
            stream=chat.stream,
            preview=preview,
            fields_tokens=lambda measure: tokens_of_fields(chat.raw, chat.body, chat.members, chat.counted, measure),
        )

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
            _log_fallback(answer, exchange.attempts)
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


def _log_fallback(answer: Answer, attempts: Sequence[Attempt]) -> None:
    """Which endpoint answers in whose place, and why; of several attempts at the primary the last one says it."""
    first = attempts[0]
    reason = next(a.message for a in reversed(attempts) if a.endpoint == first.endpoint)
    log.warning("Fallback %d: %s answers for %s (%s)", answer.level, answer.endpoint.id, first.endpoint, reason)


def _compared_role(incoming: Incoming, decision: Decision | None) -> str | None:
    """The role whose target may be compared with the answer; None where the request is of none."""
    if decision is None or decision.source != "role":
        return None
    return incoming.role or incoming.chat.model


def _timeout_s(call: Call) -> float | None:
    """How long the caller lets the whole request take; None: as long as the tier does."""
    if call.timeout is None:
        return None
    try:
        seconds = float(call.timeout)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidRequest("X-Request-Timeout must be a positive number of seconds.", param="X-Request-Timeout")
    return seconds
