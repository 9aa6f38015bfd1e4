"""Audits: a share of what the surrogate decides goes to the teacher, off the path, and changes what is trusted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import gevent
import pytest

from hermes.policy import TeacherPolicy
from hermes.routing.audit import AT_A_TIME, MOST_WAITING, Accepted, Auditor
from hermes.routing.standing import NOTHING, Judged, Point, Standing
from hermes.routing.teacher import TeacherUnavailable
from hermes.routing.trust import Trust, says
from hermes.types import Allowance, Endpoint, Verdict

POLICY = TeacherPolicy(Endpoint("t@h/v1", "t", "http://h/v1", "http://h/v1"), "{message}")

COMPLEX = Verdict("complex")


def accepted(text: str = "hello", **fields: Any) -> Accepted:
    verdict = Verdict("simple", 0.9)
    return Accepted(**{"request_id": "r1", "surrogate": "v1", "caller": None, "verdict": verdict, "text": text,
                       "kept_text": None, "rate": 0.1, **fields})  # fmt: skip


class FakeTeacher:
    """Answers when it is let."""

    def __init__(self, answer: Verdict | Exception | None = COMPLEX) -> None:
        self.answer = answer
        self.may_go = gevent.event.Event()
        self.may_go.set()
        self.asked: list[str] = []

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        self.asked.append(text)
        self.may_go.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_audit_is_kept_with_what_the_teacher_says() -> None:
    kept: list[tuple[Accepted, Verdict]] = []
    auditor = Auditor(FakeTeacher(), lambda *audit: kept.append(audit))

    auditor.audit(POLICY, accepted())
    gevent.sleep(0)

    assert kept == [(accepted(), Verdict("complex"))]
    assert auditor.missed == 0


@pytest.mark.parametrize("answer", [None, TeacherUnavailable("it rests")])
def test_without_a_verdict_nothing_is_kept(answer: Any) -> None:
    kept: list[Any] = []
    auditor = Auditor(FakeTeacher(answer), lambda *audit: kept.append(audit))

    auditor.audit(POLICY, accepted())
    gevent.sleep(0)

    assert (kept, auditor.missed) == ([], 1)


def test_a_database_that_is_away_costs_the_audit_and_no_more() -> None:
    def keep(one: Accepted, verdict: Verdict) -> None:
        raise OSError("away")

    auditor = Auditor(FakeTeacher(), keep)
    auditor.audit(POLICY, accepted())
    gevent.sleep(0)
    auditor.audit(POLICY, accepted())
    gevent.sleep(0)

    assert auditor.missed == 2


def test_a_slow_teacher_is_not_overrun() -> None:
    teacher = FakeTeacher()
    teacher.may_go.clear()
    kept: list[Any] = []
    auditor = Auditor(teacher, lambda *audit: kept.append(audit))

    for number in range(MOST_WAITING + 10):
        auditor.audit(POLICY, accepted(f"text {number}"))
    gevent.sleep(0)
    assert len(teacher.asked) == AT_A_TIME
    assert auditor.missed == 10
    teacher.may_go.set()
    for _ in range(MOST_WAITING):
        gevent.sleep(0)

    assert len(kept) == MOST_WAITING


def test_chance_alone_decides_who_is_audited() -> None:
    auditor = Auditor(FakeTeacher(), lambda *audit: None, random.Random(1))

    assert sum(bool(auditor.samples(0.1)) for _ in range(10_000)) == pytest.approx(1000, abs=100)
    assert not any(auditor.samples(0.0) for _ in range(100))
    assert all(auditor.samples(1.0) for _ in range(100))


# -- what follows from them


@dataclass
class FakeSurrogate:
    version: str = "v1"
    simple_cost: float = 1.0
    evidence: tuple[Point, ...] = (Point(0.8, 60, 60), Point(0.95, 300, 300))
    raised: list[float | None] = field(default_factory=list)

    def raise_to(self, level: float | None) -> None:
        self.raised.append(level)


@dataclass
class FakeAudit:
    id: int
    agrees: bool
    confidence: float = 0.9
    surrogate_tier: str = "complex"


def test_what_audits_say_reaches_the_surrogate() -> None:
    audits = [FakeAudit(number, agrees=number % 4 > 0) for number in range(1, 60)]
    trust, surrogate = Trust(lambda version, after: [a for a in audits if a.id > after]), FakeSurrogate()

    trust.look(surrogate, 0.95)

    assert surrogate.raised[0] is None
    assert surrogate.raised[-1] in (0.95, NOTHING)
    assert trust.standing is not None
    assert trust.standing.is_raised


def test_each_audit_is_taken_once() -> None:
    audits = [FakeAudit(1, True), FakeAudit(2, True)]
    trust, surrogate = Trust(lambda version, after: [a for a in audits if a.id > after]), FakeSurrogate()

    trust.look(surrogate, 0.95)
    audits.append(FakeAudit(3, True))
    trust.look(surrogate, 0.95)

    assert trust.standing is not None
    assert trust.standing.audited == 3


def test_another_surrogate_begins_anew() -> None:
    trust = Trust(lambda version, after: [FakeAudit(1, False)] if version == "v1" and after < 1 else [])
    trust.look(FakeSurrogate(), 0.95)

    trust.look(fresh := FakeSurrogate("v2"), 0.95)

    assert trust.standing is not None
    assert trust.standing.audited == 0
    assert fresh.raised == [None]
    trust.look(None, 0.95)
    assert trust.standing is None


@pytest.mark.parametrize(
    ("audits", "sentence"),
    [
        pytest.param([], "The surrogate v1 decides on what was known when it was fitted: no audit yet", id="none"),
        pytest.param(
            [True] * 8 + [False],
            "The surrogate v1 decides on what was known when it was fitted: 8 of 9 audited verdicts were the teacher's "
            "so far, and fewer than 30 conclude nothing",
            id="few",
        ),
        pytest.param(
            [True] * 60,
            "The surrogate v1 keeps the target of 95%: 60 of 60 audited verdicts were the teacher's",
            id="kept",
        ),
        pytest.param(
            [True, False] * 10,
            "The surrogate v1 has stepped back and the teacher decides: 5 of 10 audited verdicts were the teacher's, "
            "which is too few for the target of 95%. Traffic or teacher is not what it was fitted on; fit a new one "
            "(python -m hermes surrogate refit)",
            id="drifted",
        ),
    ],
)
def test_a_sentence_says_how_it_stands(audits: list[bool], sentence: str) -> None:
    standing = Standing([Point(0.8, 600, 595)], 0.95)
    for agrees in audits:
        standing.take(Judged(0.9, agrees))

    assert says(standing, "v1") == sentence


def test_a_raised_threshold_is_told_with_what_came_of_it() -> None:
    standing = Standing([Point(0.8, 50, 49), Point(0.9, 400, 398)], 0.95)
    for number in range(150):
        standing.take(Judged((0.85, 0.97, 0.92)[number % 3], number % 3 > 0 or number % 18 != 0))

    assert says(standing, "v1") == (
        "The surrogate v1 fell under the target of 95%, so its thresholds were raised and it decides less; "
        "from there on 100 of 100 audited verdicts were the teacher's"
    )
