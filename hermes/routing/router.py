"""Decides which tier answers a request.

The first that can decide does: what the caller forces, an operator's override keyword in a new user message, the tier
that the conversation has, the surrogate where it is sure, the teacher, the surrogate's best guess where the teacher
fails, the default tier. A tier stays with its conversation; only a new user message with a keyword that speaks against
it is classified anew, and inside a tool loop nothing changes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from hermes.errors import InvalidRequest
from hermes.observe.logs import request_id_var
from hermes.policy import Policy, RoutingPolicy, SurrogatePolicy
from hermes.routing.audit import Accepted, judge_name
from hermes.routing.conversation import first_user_text, in_tool_loop, last_user_text, new_user_text, user_turns
from hermes.routing.deciders import Audits, Classifier, SurrogateOf
from hermes.routing.reading import Reading
from hermes.routing.rules import RoutingKeywords
from hermes.routing.sessions import Session, Sessions, session_key
from hermes.routing.teacher import TeacherUnavailable
from hermes.types import ANYONE, TIERS, Allowance, Decision, Principal, Source, Tier, Verdict

TIER_HEADER = "X-Hermes-Tier"

Emit = Callable[[str, Mapping[str, Any]], None]
"""Writes a trace event: its name and its fields."""


class Asked(NamedTuple):
    """What a request says to the one who chooses."""

    principal: Principal
    messages: object
    """As parsed from the body; a list of messages where the caller keeps to the API."""

    requested_model: str | None = None
    forced_tier_header: str | None = None
    named_session: str | None = None
    preview: str = ""
    """What `logging.store_prompts` lets a trace show of the message."""

    allowance: Allowance = ANYONE
    """Who may see the texts; where the teacher may not, the next one in order decides."""

    first_text: str | None = None
    """The first user message as the caller wrote it, where `messages` has something masked in it."""

    patience_s: float | None = None
    """How long the request can wait for the teacher; None: as long as that has time."""


class _Turn(NamedTuple):
    """A request in its conversation."""

    policy: Policy
    asked: Asked
    key: str
    strikes: int
    is_first: bool
    """One user message at most: the conversation is new."""

    message: Reading | None
    """The new user message; None where the turn is not the user's, or has no text."""

    text: str
    """What a classifier sees: the new user message, else the last one."""

    session: Session | None
    """The one whose tier counts for this turn."""

    started_s: float

    def model(self, tier: Tier) -> str:
        """The tier's primary model."""
        return self.policy.cascades[tier].endpoints[0].model


class _Classified(NamedTuple):
    """A classification, and what it was read from."""

    tier: Tier
    source: Source
    confidence: float | None = None
    raw: str = ""
    teacher_ms: float = 0.0


class Router:
    """Chooses the tier of each request; see the module's text for the order."""

    def __init__(
        self,
        sessions: Sessions,
        teacher: Classifier,
        surrogate_of: SurrogateOf,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
        auditor: Audits | None = None,
    ) -> None:
        self._auditor = auditor
        self._sessions = sessions
        self._teacher = teacher
        self._surrogate_of = surrogate_of
        self._emit = emit
        self._clock = clock
        self._keywords: tuple[RoutingPolicy, RoutingKeywords] | None = None

    def prepare(self, policy: Policy) -> None:
        """Makes a policy's keywords ready before requests come; call it at every swap.

        Blocks: about 10 ms a list that is new.
        """
        self._keywords_of(policy.routing)

    def decide(self, policy: Policy, asked: Asked) -> Decision:
        """The tier that should answer, and why.

        Raises:
            InvalidRequest: `X-Hermes-Tier` names no tier.

        Blocks: 0.1 ms, or until embeddings have had a look (5 ms), or until the teacher has replied.
        """
        first_text = first_user_text(asked.messages) if asked.first_text is None else asked.first_text
        key = session_key(asked.principal, asked.named_session, first_text)
        strikes = self._sessions.strikes(key)

        # Does the caller say it?
        if forced := _forced(policy, asked):
            return Decision(*forced, session_key=key, strikes=strikes)

        # Do the message's own words settle it?
        turn = self._turn(policy, asked, key, strikes)
        keywords = self._keywords_of(policy.routing)
        override = keywords.override(turn.message) if turn.message is not None else None
        if override is not None:
            tier, keyword = override
            changes = turn.session is not None and turn.session.tier != tier
            return self._settle(turn, _Classified(tier, "override", raw=keyword), keyword if changes else None)

        # Does the conversation have a tier, and does the message leave it at that?
        if turn.session is None:
            return self._settle(turn, self._classify(turn))
        against = keywords.against(turn.session.tier, turn.message) if turn.message is not None else None
        if against is None:
            return self._reuse(turn, turn.session)

        # The message speaks against the tier: does a classifier agree?
        classified = self._classify(turn)
        if classified.source != "default":
            return self._settle(turn, classified, against)
        self._emit_deviation(turn, turn.session, turn.session.tier, against)
        kept = self._reuse(turn, turn.session, classified.teacher_ms)
        return replace(kept, deviation=_direction(turn.session))

    def _keywords_of(self, routing: RoutingPolicy) -> RoutingKeywords:
        """Those of the policy in force are at hand; requests in flight may still want the ones before."""
        if self._keywords is None or self._keywords[0] is not routing:
            self._keywords = (routing, RoutingKeywords.of(routing))
        return self._keywords[1]

    def _turn(self, policy: Policy, asked: Asked, key: str, strikes: int) -> _Turn:
        started_s = self._clock()
        new = new_user_text(asked.messages)
        is_first = user_turns(asked.messages) <= 1
        # An open tool loop keeps its tier even after the session's time, and even in the first turn.
        is_in_loop = in_tool_loop(asked.messages)
        is_new = is_first and not asked.named_session and not is_in_loop
        session = None if is_new else self._sessions.get(key)
        if session is not None and not is_in_loop and session.expired(policy.routing.session_timeout_s):
            session = None
        message = Reading.of(new) if new else None
        text = new or last_user_text(asked.messages) or ""
        return _Turn(policy, asked, key, strikes, is_first, message, text, session, started_s)

    def _classify(self, turn: _Turn) -> _Classified:
        """Asks the surrogate, then the teacher; the default tier where neither decides."""
        routing = turn.policy.routing
        if not turn.text.strip():  # an image alone, say
            return _Classified(routing.default_tier, "default")
        guess, is_sure = self._guess(routing.surrogate, turn.text)
        if guess is not None and is_sure:
            if self._auditor is not None and (rate := self._auditor.samples(routing.surrogate.audit_rate)):
                self._audit(self._auditor, turn, guess, rate)
            return _Classified(guess.tier, "surrogate", guess.confidence, guess.raw)
        default = _Classified(routing.default_tier, "default")
        asked_s = self._clock()
        try:
            verdict = self._ask_teacher(turn)
        except TeacherUnavailable:
            found = _Classified(guess.tier, "surrogate", guess.confidence, guess.raw) if guess else default
        else:
            found = default
            if verdict is not None:
                found = _Classified(verdict.tier, "teacher", verdict.confidence, verdict.raw)
                self._ask_again(turn, verdict)
        return found._replace(teacher_ms=self._ms_since(asked_s))

    def _guess(self, policy: SurrogatePolicy, text: str) -> tuple[Verdict | None, bool]:
        """What the surrogate thinks, and whether it is sure enough to decide."""
        surrogate = self._surrogate_of(policy) if policy.enabled else None
        guess = surrogate.judge(text) if surrogate is not None else None
        if surrogate is None or guess is None or guess.confidence is None:
            return guess, False
        threshold = surrogate.threshold_of(guess.tier, policy.confidence_threshold)
        if guess.confidence >= threshold or threshold > 1:  # above 1 it has stepped back: another look decides nothing
            return guess, guess.confidence >= threshold
        second = surrogate.reconsider(text)
        if second is None or second.confidence is None:
            return guess, False
        return second, second.confidence >= surrogate.threshold_of(second.tier, policy.confidence_threshold)

    def _audit(self, auditor: Audits, turn: _Turn, guess: Verdict, rate: float) -> None:
        """Has an accepted verdict compared with the teacher's, where that may see the text."""
        routing, asked = turn.policy.routing, turn.asked
        surrogate = self._surrogate_of(routing.surrogate)
        if routing.teacher is None or surrogate is None or not asked.allowance.permits(routing.teacher.endpoint):
            return
        kept_text = asked.preview if turn.policy.logging.store_prompts == "full" else None
        key_id, request_id = asked.principal.key_id, request_id_var.get()
        accepted = Accepted(
            request_id, surrogate.version, key_id, guess, turn.text, kept_text or None, rate, asked.allowance
        )
        auditor.audit(routing.teacher, accepted)

    def _ask_again(self, turn: _Turn, verdict: Verdict) -> None:
        """Has a share of the teacher's verdicts compared with what it says the next time; no text is kept for that."""
        routing, auditor = turn.policy.routing, self._auditor
        rate = auditor.doubts(routing.surrogate.audit_rate) if auditor is not None else 0.0
        if auditor is None or routing.teacher is None or not rate:
            return
        name, key_id = judge_name(routing.teacher), turn.asked.principal.key_id
        auditor.audit(
            routing.teacher,
            Accepted(request_id_var.get(), name, key_id, verdict, turn.text, None, rate, turn.asked.allowance),
        )

    def _ask_teacher(self, turn: _Turn) -> Verdict | None:
        policy = turn.policy.routing.teacher
        allowance = turn.asked.allowance
        if policy is None or not allowance.permits(policy.endpoint):
            raise TeacherUnavailable("there is no classifier to ask")
        return self._teacher.classify(policy, turn.text, turn.asked.patience_s, allowance=allowance)

    def _settle(self, turn: _Turn, made: _Classified, keyword: str | None = None) -> Decision:
        """Makes a classification the conversation's tier; `keyword`: what spoke against the one it had."""
        model = turn.model(made.tier)
        timeout_s = turn.policy.routing.session_timeout_s
        self._sessions.remember(turn.key, made.tier, timeout_s, user_id=turn.asked.principal.user_id, model=model)
        self._emit(
            "classify",
            {
                "session_key": turn.key,
                "classifier_result": made.tier if made.source != "default" else None,
                "classifier_raw": made.raw if turn.asked.allowance.stores_text else "",
                "source": made.source,
                "confidence": made.confidence,
                "latency_ms": round(self._ms_since(turn.started_s), 3),
                "tier": made.tier,
                "model": model,
                "is_first": turn.is_first,
                "user_message_preview": turn.asked.preview,
            },
        )
        decision = Decision(made.tier, made.source, made.confidence, turn.key, turn.strikes, made.teacher_ms)
        if keyword is None or turn.session is None:
            return decision
        self._emit_deviation(turn, turn.session, made.tier, keyword)
        return replace(decision, deviation=_direction(turn.session))

    def _reuse(self, turn: _Turn, session: Session, teacher_ms: float = 0.0) -> Decision:
        """Stays with the conversation's tier; its lifetime is not prolonged."""
        self._emit(
            "cache_hit",
            {
                "session_key": turn.key,
                "tier": session.tier,
                "model": turn.model(session.tier),
                "age_sec": round(session.age_s, 1),
            },
        )
        return Decision(session.tier, "session", session_key=turn.key, strikes=turn.strikes, classifier_ms=teacher_ms)

    def _emit_deviation(self, turn: _Turn, session: Session, tier: Tier, keyword: str) -> None:
        """The direction is the keyword's: away from the tier that the session had."""
        self._emit(
            "deviation",
            {
                "session_key": turn.key,
                "keyword": keyword,
                "direction": _direction(session),
                "previous_tier": session.tier,
                "new_tier": tier,
                "model": turn.model(tier),
            },
        )

    def _ms_since(self, start_s: float) -> float:
        return (self._clock() - start_s) * 1000


def _direction(session: Session) -> Literal["escalation", "de_escalation"]:
    """Away from the tier that the session had."""
    return "escalation" if session.tier == "simple" else "de_escalation"


def named_tier(policy: Policy, header: str | None, model: str | None) -> tuple[Tier, Source] | None:
    """The tier that a header or a request's model names, and which of them; None where neither is a tier or a role."""
    named = (header or "").strip().lower() or model
    for tier in TIERS:
        if tier == named:
            return tier, "header"
    role_tier = policy.gateway.roles.get(model or "")
    return (role_tier, "role") if role_tier else None


def _forced(policy: Policy, asked: Asked) -> tuple[Tier, Source] | None:
    """The tier that the caller names, by header or as the model, or the one of the role that stands as the model."""
    header = (asked.forced_tier_header or "").strip().lower()
    if header and header not in TIERS:
        raise InvalidRequest(f"{TIER_HEADER} must be one of {', '.join(TIERS)}.", param=TIER_HEADER)
    return named_tier(policy, header, asked.requested_model)
