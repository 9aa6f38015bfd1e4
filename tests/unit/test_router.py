"""Which tier answers a request, in which order it is found out, and what the trace says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hermes.errors import InvalidRequest
from hermes.policy import GatewayPolicy, LoggingPolicy, Policy, RoutingPolicy, SurrogatePolicy, TeacherPolicy
from hermes.routing.audit import Accepted, judge_name
from hermes.routing.router import Asked, Router
from hermes.routing.sessions import Sessions, session_key
from hermes.routing.teacher import TeacherUnavailable
from hermes.state.store import MemoryStore
from hermes.types import ANYONE, Allowance, Cascade, Decision, Endpoint, Place, Principal, Tier, Verdict

ALICE = Principal(key_id="k1", user_id="alice", identity="k1")
TIMEOUT_S = 300.0


def endpoint(model: str) -> Endpoint:
    return Endpoint(f"{model}@host/v1", model, "http://host/v1", "http://host/v1")


ROUTING = RoutingPolicy(
    session_timeout_s=TIMEOUT_S,
    override_keywords={"complex": ("implement", "step by step"), "simple": ("thanks", "lol", "how are you", "谢谢")},
    escalation_keywords=("fix", "error", "script"),
    de_escalation_keywords=("ok", "cool", "hello"),
    teacher=TeacherPolicy(endpoint("teacher"), "Classify: {message}"),
)
POLICY = Policy(
    cascades={
        "simple": Cascade("simple", (endpoint("small"), endpoint("small-2")), 120),
        "complex": Cascade("complex", (endpoint("big"),), 120),
    },
    routing=ROUTING,
    gateway=GatewayPolicy(roles={"chat": "simple", "reasoning": "complex"}),
)


def with_routing(**changes: Any) -> Policy:
    return replace(POLICY, routing=replace(ROUTING, **changes))


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


class FakeTeacher:
    """Says what it is told to, takes its time, and remembers what it was asked."""

    def __init__(self, clock: Clock) -> None:
        self.answer: Verdict | TeacherUnavailable | None = Verdict("simple", raw="simple")
        self.takes_s = 0.0
        self.texts: list[str] = []
        self._clock = clock

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        self.texts.append(text)
        self._clock.now_s += self.takes_s
        if isinstance(self.answer, TeacherUnavailable):
            raise self.answer
        return self.answer


class FakeSurrogate:
    """A learned classifier that always gives one verdict."""

    def __init__(self, verdict: Verdict | None, threshold: float = 0.9) -> None:
        self.verdict = verdict
        self.threshold = threshold
        self.version = "fake"
        self.second: Verdict | None = None

    def threshold_of(self, tier: Tier, configured: float | None = None) -> float:
        return self.threshold if configured is None else configured

    def judge(self, text: str) -> Verdict | None:
        return self.verdict

    def reconsider(self, text: str) -> Verdict | None:
        return self.second


class Routing:
    """A router with fakes around it."""

    def __init__(self, surrogate: FakeSurrogate | None = None) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.sessions = Sessions(self.store, self.clock)
        self.teacher = FakeTeacher(self.clock)
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.router = Router(self.sessions, self.teacher, lambda policy: surrogate, self._write, self.clock)
        self.policy = POLICY

    def _write(self, event: str, fields: Mapping[str, Any]) -> None:
        self.events.append((event, fields))

    def teach(self, tier: Tier) -> None:
        self.teacher.answer = Verdict(tier, raw=f"{tier}!")

    def decide(self, *messages: Any, **asked: Any) -> Decision:
        """Strings are turns of user and assistant in turn; other messages stand as they are."""
        roles = ("user", "assistant")
        listed = [{"role": roles[n % 2], "content": m} if isinstance(m, str) else m for n, m in enumerate(messages)]
        return self.router.decide(self.policy, Asked(**{"principal": ALICE, "messages": listed, **asked}))

    def written(self) -> list[str]:
        return [event for event, _ in self.events]

    def fields(self, event: str) -> Mapping[str, Any]:
        """Of the last event of a kind."""
        return [fields for name, fields in self.events if name == event][-1]


CALLS_TOOL = {"role": "assistant", "content": None, "tool_calls": [{"id": "t1"}]}
TOOL = {"role": "tool", "tool_call_id": "t1", "content": "please fix this error, thanks"}


@pytest.fixture
def routing() -> Routing:
    return Routing()


# -- forced, and roles


@pytest.mark.parametrize(
    ("asked", "tier", "source"),
    [
        pytest.param({"forced_tier_header": "complex"}, "complex", "header", id="the header"),
        pytest.param({"forced_tier_header": " Simple "}, "simple", "header", id="the header, loosely written"),
        pytest.param({"requested_model": "complex"}, "complex", "header", id="a tier as the model"),
        pytest.param({"requested_model": "reasoning"}, "complex", "role", id="a role as the model"),
        pytest.param(
            {"forced_tier_header": "simple", "requested_model": "complex"}, "simple", "header", id="header over model"
        ),
        pytest.param(
            {"forced_tier_header": "simple", "requested_model": "reasoning"}, "simple", "header", id="header over role"
        ),
    ],
)
def test_what_the_caller_forces_wins_over_everything(
    routing: Routing, asked: dict[str, Any], tier: str, source: str
) -> None:
    decision = routing.decide("implement this, thanks", **asked)

    assert (decision.tier, decision.source) == (tier, source)


@pytest.mark.parametrize("asked", [{"requested_model": "complex"}, {"requested_model": "reasoning"}])
def test_a_forced_decision_touches_no_session_and_writes_no_event(routing: Routing, asked: dict[str, Any]) -> None:
    routing.decide("hello", **asked)

    assert routing.sessions.count(TIMEOUT_S) == 0
    assert routing.events == []
    assert routing.teacher.texts == []


def test_a_header_that_names_no_tier_is_refused(routing: Routing) -> None:
    with pytest.raises(InvalidRequest, match="simple, complex") as refusal:
        routing.decide("hello", forced_tier_header="medium")

    assert refusal.value.param == "X-Hermes-Tier"
    assert refusal.value.status == 400


@pytest.mark.parametrize("header", [None, "", "  "])
def test_an_empty_header_forces_nothing(routing: Routing, header: str | None) -> None:
    assert routing.decide("tell me", forced_tier_header=header).source == "teacher"


@pytest.mark.parametrize("model", ["auto", "gpt-4o", "Complex", "", None])
def test_any_other_model_is_overwritten_by_the_decision(routing: Routing, model: str | None) -> None:
    assert routing.decide("tell me", requested_model=model).source == "teacher"


# -- override keywords


@pytest.mark.parametrize(
    ("message", "tier"),
    [
        pytest.param("Please implement a parser", "complex", id="a complex keyword in a task"),
        pytest.param("think about it step-by-step", "complex", id="a phrase"),
        pytest.param("thanks, now implement it", "complex", id="both kinds: complex wins"),
        pytest.param("thanks", "simple", id="a simple phrase alone"),
        pytest.param("Thanks so much!!", "simple", id="with fillers"),
        pytest.param("lol thanks, how are you?", "simple", id="several phrases"),
        pytest.param("thanks buddy", "simple", id="with one other word"),
        pytest.param("谢谢你", "simple", id="in a script without spaces"),
    ],
)
def test_an_override_decides_without_any_classifier(routing: Routing, message: str, tier: str) -> None:
    decision = routing.decide(message)

    assert (decision.tier, decision.source, decision.confidence) == (tier, "override", None)
    assert routing.teacher.texts == []


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("thanks, write the migration", id="a task in the same breath"),
        pytest.param("thanks, fix", id="the one word left is an escalation keyword"),
        pytest.param("thanks for the scripts", id="the one word left is a form of one"),
        pytest.param("how are you able to prove the Riemann hypothesis", id="a phrase that begins a question"),
        pytest.param("谢谢，请帮我写一个排序算法", id="a task in a script without spaces"),
        pytest.param("thanks " + "so " * 200, id="a long text of fillers"),
        pytest.param("this is fine", id="no keyword"),
    ],
)
def test_a_simple_override_decides_only_what_is_little_more_than_the_phrase(routing: Routing, message: str) -> None:
    assert routing.decide(message).source == "teacher"


def test_an_override_is_looked_for_in_the_new_user_message_only(routing: Routing) -> None:
    routing.teach("simple")
    instructions = {"role": "system", "content": "implement what you are asked"}
    messages = [
        instructions,
        {"role": "user", "content": "implement it"},
        {"role": "assistant", "content": "I implement it."},
        {"role": "user", "content": "go on"},
    ]

    assert routing.decide(*messages).source == "teacher"


def test_an_override_that_changes_a_known_sessions_tier_is_a_deviation(routing: Routing) -> None:
    routing.decide("tell me")

    decision = routing.decide("tell me", "ok", "implement it")

    assert (decision.tier, decision.source) == ("complex", "override")
    assert routing.written() == ["classify", "classify", "deviation"]
    assert routing.fields("deviation") == {
        "session_key": decision.session_key,
        "keyword": "implement",
        "direction": "escalation",
        "previous_tier": "simple",
        "new_tier": "complex",
        "model": "big",
    }
    assert routing.decide("tell me", "ok", "implement it", "done", "and then?").tier == "complex"


def test_an_override_to_simple_is_a_deviation_too(routing: Routing) -> None:
    routing.teach("complex")
    routing.decide("tell me")

    routing.decide("tell me", "well", "thanks")

    assert routing.fields("deviation")["direction"] == "de_escalation"
    assert routing.fields("deviation")["new_tier"] == "simple"


@pytest.mark.parametrize("first", [pytest.param("implement it", id="the same tier"), pytest.param("tell", id="new")])
def test_an_override_that_changes_nothing_is_no_deviation(routing: Routing, first: str) -> None:
    routing.teach("complex")
    routing.decide(first)

    routing.decide(first, "ok", "implement it")

    assert "deviation" not in routing.written()


# -- sessions


def test_a_later_turn_reuses_the_tier_without_asking(routing: Routing) -> None:
    routing.teach("complex")
    first = routing.decide("tell me")
    routing.clock.now_s += 12.34

    later = routing.decide("tell me", "well", "go on")

    assert (later.tier, later.source, later.session_key) == ("complex", "session", first.session_key)
    assert len(routing.teacher.texts) == 1
    assert routing.events[-1] == (
        "cache_hit",
        {"session_key": first.session_key, "tier": "complex", "model": "big", "age_sec": 12.3},
    )


def test_a_cached_use_does_not_prolong_the_session(routing: Routing) -> None:
    routing.decide("tell me")

    routing.clock.now_s += TIMEOUT_S - 1
    assert routing.decide("tell me", "well", "go on").source == "session"
    routing.clock.now_s += 1
    assert routing.decide("tell me", "well", "go on", "well", "more").source == "teacher"


def test_one_user_message_is_a_new_conversation_even_if_its_text_is_known(routing: Routing) -> None:
    routing.decide("tell me")
    routing.teach("complex")

    again = routing.decide("tell me")

    assert (again.tier, again.source) == ("complex", "teacher")
    assert "deviation" not in routing.written()


def test_a_named_session_that_is_known_is_no_new_conversation(routing: Routing) -> None:
    routing.teach("complex")
    first = routing.decide("turn 1", named_session="s-1")

    second = routing.decide("turn 2", named_session="s-1")

    assert (second.tier, second.source, second.session_key) == ("complex", "session", first.session_key)


def test_a_named_session_that_is_unknown_or_over_is_classified(routing: Routing) -> None:
    assert routing.decide("turn 1", named_session="s-1").source == "teacher"

    routing.clock.now_s += TIMEOUT_S

    assert routing.decide("turn 2", named_session="s-1").source == "teacher"


def test_a_later_turn_of_an_unknown_conversation_is_classified(routing: Routing) -> None:
    decision = routing.decide("tell me", "well", "go on")

    assert decision.source == "teacher"
    assert routing.teacher.texts == ["go on"]
    assert routing.fields("classify")["is_first"] is False


def test_two_callers_with_equal_words_and_names_share_nothing(routing: Routing) -> None:
    routing.teach("complex")
    routing.decide("turn 1", named_session="s-1")
    routing.teach("simple")

    for other in (
        Principal(key_id="k2", user_id="alice", identity="k2"),
        Principal(key_id="k1", user_id="bob", identity="k1"),
        Principal(identity="dummy"),
    ):
        assert routing.decide("turn 2", named_session="s-1", principal=other).source == "teacher"


# -- deviation


def test_an_escalation_keyword_in_a_simple_session_classifies_anew(routing: Routing) -> None:
    routing.decide("tell me")
    routing.teach("complex")

    decision = routing.decide("tell me", "well", "there are errors")

    assert (decision.tier, decision.source) == ("complex", "teacher")
    assert routing.teacher.texts[-1] == "there are errors"
    assert routing.written() == ["classify", "classify", "deviation"]
    assert routing.fields("deviation") == {
        "session_key": decision.session_key,
        "keyword": "error",
        "direction": "escalation",
        "previous_tier": "simple",
        "new_tier": "complex",
        "model": "big",
    }


def test_a_de_escalation_keyword_in_a_complex_session_classifies_anew(routing: Routing) -> None:
    routing.teach("complex")
    routing.decide("tell me")
    routing.teach("simple")

    decision = routing.decide("tell me", "well", "ok, cool")

    assert (decision.tier, decision.source) == ("simple", "teacher")
    assert routing.fields("deviation")["direction"] == "de_escalation"
    assert routing.fields("deviation")["keyword"] == "ok"


def test_a_new_classification_may_confirm_the_tier_and_begins_its_time_anew(routing: Routing) -> None:
    routing.decide("tell me")
    routing.clock.now_s += 200

    decision = routing.decide("tell me", "well", "an error?")

    assert (decision.tier, decision.source) == ("simple", "teacher")
    assert routing.fields("deviation")["previous_tier"] == routing.fields("deviation")["new_tier"] == "simple"
    routing.clock.now_s += 200
    assert routing.decide("tell me", "well", "an error?", "no", "go on").source == "session"


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        pytest.param("complex", "an error", id="an escalation keyword while complex"),
        pytest.param("simple", "ok, cool", id="a de-escalation keyword while simple"),
        pytest.param("simple", "a token of terror", id="keywords inside other words"),
    ],
)
def test_a_keyword_that_does_not_speak_against_the_tier_changes_nothing(
    routing: Routing, tier: Tier, message: str
) -> None:
    routing.teach(tier)
    routing.decide("tell me")

    assert routing.decide("tell me", "well", message).source == "session"
    assert len(routing.teacher.texts) == 1


@pytest.mark.parametrize("answer", [None, TeacherUnavailable("down")])
def test_an_undecided_new_classification_leaves_the_tier(
    routing: Routing, answer: Verdict | TeacherUnavailable | None
) -> None:
    routing.policy = with_routing(default_tier="complex")
    routing.decide("tell me")
    routing.clock.now_s += 200
    routing.teacher.answer = answer

    decision = routing.decide("tell me", "well", "an error")

    assert (decision.tier, decision.source) == ("simple", "session")
    assert routing.written() == ["classify", "deviation", "cache_hit"]
    assert routing.fields("deviation")["new_tier"] == "simple"
    routing.teach("simple")
    routing.clock.now_s += 100
    assert routing.decide("tell me", "well", "an error", "no", "go on").source == "teacher"


def test_assistant_turns_and_instructions_are_not_scanned(routing: Routing) -> None:
    routing.decide("tell me")
    instructions = {"role": "system", "content": "fix every error"}

    said = [{"role": "user", "content": "tell me"}, {"role": "assistant", "content": "an error, fix it"}]
    decision = routing.decide(*said, {"role": "user", "content": "go on"}, instructions)

    assert decision.source == "session"


def test_every_message_of_the_users_last_turn_is_scanned(routing: Routing) -> None:
    routing.decide("tell me")
    routing.teach("complex")

    decision = routing.decide(
        "tell me", "well", {"role": "user", "content": "an error"}, {"role": "user", "content": "look"}
    )

    assert (decision.tier, decision.source) == ("complex", "teacher")
    assert routing.teacher.texts[-1] == "an error\nlook"


# -- tool loops


def test_a_tool_loop_keeps_its_tier_in_the_first_turn(routing: Routing) -> None:
    """One user message, yet not a new conversation: the model is in the middle of answering it."""
    routing.teach("complex")
    routing.decide("look at the picture")
    routing.teach("simple")

    decision = routing.decide("look at the picture", CALLS_TOOL, TOOL)

    assert (decision.tier, decision.source) == ("complex", "session")
    assert len(routing.teacher.texts) == 1


def test_a_tool_loop_keeps_its_tier_when_the_session_has_expired(routing: Routing) -> None:
    routing.teach("complex")
    routing.decide("look")
    routing.teach("simple")

    routing.clock.now_s += TIMEOUT_S + 3000

    assert routing.decide("look", CALLS_TOOL, TOOL).tier == "complex"
    assert routing.decide("look", CALLS_TOOL, TOOL, {"role": "user", "content": "more"}).tier == "simple"


def test_a_tool_result_is_never_scanned(routing: Routing) -> None:
    routing.decide("look")

    assert routing.decide("look", CALLS_TOOL, TOOL).source == "session"


def test_a_tool_loop_of_an_unknown_conversation_is_classified_by_the_users_words(routing: Routing) -> None:
    parts = [{"type": "text", "text": "what is in"}, {"type": "image_url"}, {"type": "text", "text": "the picture?"}]

    decision = routing.decide({"role": "user", "content": parts}, CALLS_TOOL, TOOL)

    assert decision.source == "teacher"
    assert routing.teacher.texts == ["what is in\nthe picture?"]
    assert routing.decide({"role": "user", "content": parts}, CALLS_TOOL, TOOL).source == "session"


# -- surrogate, teacher, default


def test_a_sure_surrogate_decides(routing: Routing) -> None:
    routing = Routing(FakeSurrogate(Verdict("complex", 0.9, "complex 0.90")))

    decision = routing.decide("tell me")

    assert (decision.tier, decision.source, decision.confidence) == ("complex", "surrogate", 0.9)
    assert routing.teacher.texts == []
    assert decision.classifier_ms == 0


def test_the_operators_threshold_goes_before_the_models_own() -> None:
    routing = Routing(FakeSurrogate(Verdict("complex", 0.6)))
    assert routing.decide("tell me").source == "teacher"

    routing.policy = with_routing(surrogate=SurrogatePolicy(confidence_threshold=0.6))
    assert routing.decide("tell me").source == "surrogate"


def test_an_unsure_surrogate_leaves_it_to_the_teacher() -> None:
    routing = Routing(FakeSurrogate(Verdict("complex", 0.89)))

    decision = routing.decide("tell me")

    assert (decision.tier, decision.source, decision.confidence) == ("simple", "teacher", None)


@pytest.mark.parametrize(
    ("second", "source", "confidence"),
    [
        pytest.param(Verdict("complex", 0.95), "surrogate", 0.95, id="sure"),
        pytest.param(Verdict("complex", 0.7), "teacher", None, id="not sure either"),
        pytest.param(None, "teacher", None, id="not in time"),
    ],
)
def test_a_second_look_decides_where_it_is_sure(second: Verdict | None, source: str, confidence: float | None) -> None:
    surrogate = FakeSurrogate(Verdict("simple", 0.6))
    surrogate.second = second
    routing = Routing(surrogate)

    decision = routing.decide("tell me")

    assert (decision.source, decision.confidence) == (source, confidence)


def test_a_second_looks_guess_decides_where_the_teacher_fails() -> None:
    surrogate = FakeSurrogate(Verdict("simple", 0.6))
    surrogate.second = Verdict("complex", 0.7)
    routing = Routing(surrogate)
    routing.teacher.answer = TeacherUnavailable("down")

    assert routing.decide("tell me").tier == "complex"


def test_a_surrogate_that_has_stepped_back_looks_once_and_decides_nothing() -> None:
    surrogate = FakeSurrogate(Verdict("simple", 1.0), threshold=2.0)
    surrogate.second = Verdict("complex", 3.0)
    routing = Routing(surrogate)

    assert routing.decide("tell me").source == "teacher"


# -- audits


class FakeAuditor:
    """Samples everything, and remembers it."""

    def __init__(self) -> None:
        self.audited: list[Accepted] = []

    def samples(self, rate: float) -> float:
        return rate

    def doubts(self, rate: float) -> float:
        return rate

    def audit(self, policy: TeacherPolicy, accepted: Accepted) -> None:
        self.audited.append(accepted)


def audited(policy: Policy, surrogate: FakeSurrogate, **asked: Any) -> list[Accepted]:
    auditor = FakeAuditor()
    clock = Clock()
    store = MemoryStore(clock)
    router = Router(
        Sessions(store, clock), FakeTeacher(clock), lambda _: surrogate, lambda *_: None, clock, auditor=auditor
    )
    messages = [{"role": "user", "content": "tell me"}]
    router.decide(policy, Asked(**{"principal": ALICE, "messages": messages, "preview": "tell me", **asked}))
    return auditor.audited


NOT_THE_TEACHER = Allowance((Place(frozenset({"eu"}), rule=1),))
SURE = FakeSurrogate(Verdict("simple", 0.99))


def test_what_the_surrogate_decides_is_audited_with_what_it_said() -> None:
    (accepted,) = audited(POLICY, SURE)

    assert (accepted.surrogate, accepted.verdict, accepted.text) == ("fake", Verdict("simple", 0.99), "tell me")
    assert (accepted.caller, accepted.rate) == (ALICE.key_id, POLICY.routing.surrogate.audit_rate)


@pytest.mark.parametrize(("kept", "text"), [("full", "tell me"), ("preview", None), ("none", None)])
def test_an_audit_keeps_a_text_only_where_texts_are_kept_in_full(kept: str, text: str | None) -> None:
    (accepted,) = audited(replace(POLICY, logging=LoggingPolicy(kept)), SURE)

    assert accepted.kept_text == text


@pytest.mark.parametrize(
    ("policy", "surrogate", "asked"),
    [
        pytest.param(POLICY, SURE, {"allowance": NOT_THE_TEACHER}, id="the teacher may not see it"),
        pytest.param(with_routing(teacher=None), SURE, {}, id="no teacher"),
        pytest.param(with_routing(surrogate=SurrogatePolicy(audit_rate=0)), SURE, {}, id="switched off"),
    ],
)
def test_nothing_else_is_audited(policy: Policy, surrogate: FakeSurrogate, asked: dict[str, Any]) -> None:
    assert audited(policy, surrogate, **asked) == []


def test_the_teacher_is_asked_again_and_no_text_is_kept_for_that() -> None:
    (accepted,) = audited(replace(POLICY, logging=LoggingPolicy("full")), FakeSurrogate(Verdict("simple", 0.6)))

    assert accepted.surrogate == judge_name(POLICY.routing.teacher)
    assert (accepted.verdict.tier, accepted.text, accepted.kept_text) == ("simple", "tell me", None)


def test_a_switched_off_surrogate_is_not_asked() -> None:
    routing = Routing(FakeSurrogate(Verdict("complex", 1.0)))
    routing.policy = with_routing(surrogate=SurrogatePolicy(enabled=False))

    assert routing.decide("tell me").source == "teacher"


@pytest.mark.parametrize(
    "why", [pytest.param("fails", id="it fails"), pytest.param("none", id="none"), pytest.param("kept", id="not asked")]
)
def test_where_the_teacher_cannot_say_the_surrogates_best_guess_decides(why: str) -> None:
    routing = Routing(FakeSurrogate(Verdict("complex", 0.55)))
    routing.teacher.answer = TeacherUnavailable("down")
    routing.policy = with_routing(teacher=None) if why == "none" else POLICY

    decision = routing.decide("tell me", allowance=NOT_THE_TEACHER if why == "kept" else ANYONE)

    assert (decision.tier, decision.source, decision.confidence) == ("complex", "surrogate", 0.55)
    assert len(routing.teacher.texts) == (why == "fails")


def test_a_reply_that_names_no_tier_means_the_default_tier() -> None:
    routing = Routing(FakeSurrogate(Verdict("simple", 0.55)))
    routing.policy = with_routing(default_tier="complex")
    routing.teacher.answer = None

    decision = routing.decide("tell me")

    assert (decision.tier, decision.source, decision.confidence) == ("complex", "default", None)


@pytest.mark.parametrize("surrogate", [None, FakeSurrogate(None)])
def test_without_anybody_who_can_say_it_is_the_default_tier(surrogate: FakeSurrogate | None) -> None:
    routing = Routing(surrogate)
    routing.policy = with_routing(default_tier="complex")
    routing.teacher.answer = TeacherUnavailable("down")

    decision = routing.decide("tell me")

    assert (decision.tier, decision.source) == ("complex", "default")
    assert routing.fields("classify")["classifier_result"] is None
    assert routing.decide("tell me", "well", "go on").source == "session"


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="no message"),
        pytest.param([{"role": "user", "content": [{"type": "image_url"}]}], id="an image alone"),
        pytest.param([{"role": "user", "content": " \n"}], id="blanks"),
        pytest.param("junk", id="no list"),
        pytest.param([7, None, {"role": 3}, {"content": "x"}], id="junk in the list"),
    ],
)
def test_where_there_is_no_text_nobody_is_asked(routing: Routing, messages: object) -> None:
    assert routing.decide(messages=messages).source == "default"
    assert routing.teacher.texts == []


# -- what is told


def test_a_classification_is_traced_in_full(routing: Routing) -> None:
    routing.teach("complex")
    routing.teacher.takes_s = 0.25

    decision = routing.decide("tell me everything", preview="tell me…")

    assert routing.events == [
        (
            "classify",
            {
                "session_key": decision.session_key,
                "classifier_result": "complex",
                "classifier_raw": "complex!",
                "source": "teacher",
                "confidence": None,
                "latency_ms": 250.0,
                "tier": "complex",
                "model": "big",
                "is_first": True,
                "user_message_preview": "tell me…",
            },
        )
    ]
    assert decision.classifier_ms == pytest.approx(250)


@pytest.mark.parametrize("answer", [None, TeacherUnavailable("down")])
def test_the_wait_for_a_teacher_that_did_not_help_is_told_too(
    routing: Routing, answer: Verdict | TeacherUnavailable | None
) -> None:
    routing.decide("tell me")
    routing.teacher.answer, routing.teacher.takes_s = answer, 2.0

    assert routing.decide("tell me again").classifier_ms == pytest.approx(2000)
    assert routing.decide("tell me", "well", "an error").classifier_ms == pytest.approx(2000)


def test_an_override_is_traced_with_its_keyword(routing: Routing) -> None:
    routing.decide("Thanks!")

    fields = routing.fields("classify")
    assert (fields["source"], fields["classifier_raw"], fields["tier"], fields["model"]) == (
        "override",
        "thanks",
        "simple",
        "small",
    )


def test_the_admin_sees_what_was_remembered(routing: Routing) -> None:
    decision = routing.decide("tell me")

    shown = routing.sessions.all(TIMEOUT_S)[decision.session_key]
    assert (shown["tier"], shown["user_id"], shown["model"]) == ("simple", "alice", "small")


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({}, id="classified"),
        pytest.param({"forced_tier_header": "complex"}, id="forced"),
        pytest.param({"requested_model": "chat"}, id="a role"),
    ],
)
def test_every_decision_carries_its_session_and_the_sessions_strikes(routing: Routing, asked: dict[str, Any]) -> None:
    key = session_key(ALICE, "s-1", None)
    routing.sessions.strike(key)
    routing.sessions.strike(key)

    decision = routing.decide("tell me", named_session="s-1", **asked)

    assert (decision.session_key, decision.strikes) == (key, 2)
    assert routing.decide("tell me", named_session="other", **asked).strikes == 0


def test_a_policy_that_is_prepared_serves_at_once(routing: Routing) -> None:
    """Numbers and words that YAML would take for booleans are keywords like others."""
    routing.policy = with_routing(override_keywords={"complex": ("502", "on", "no"), "simple": ()})

    routing.router.prepare(routing.policy)

    sources = [
        routing.decide(text).source
        for text in ("nginx gives a 502 since noon", "switch it on please", "the answer is no", "fine weather today")
    ]
    assert sources == ["override", "override", "override", "teacher"]


def test_a_policy_without_any_keywords_works(routing: Routing) -> None:
    routing.policy = Policy(cascades=POLICY.cascades)

    assert routing.decide("implement it").source == "default"
    assert routing.decide("implement it", "ok", "an error").source == "session"
