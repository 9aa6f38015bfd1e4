"""What an operator reads of the surrogate, in each state that it can be in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes.cli.surrogate_report import lines
from hermes.learning.live import Learning
from hermes.policy import RoutingPolicy, SurrogatePolicy, TeacherPolicy
from hermes.routing.audit import judge_name
from hermes.routing.surrogates import Surrogates, starter
from hermes.storage.classified import Classified, Confidence
from hermes.storage.labels import Audit
from hermes.types import Endpoint

TEACHER = TeacherPolicy(Endpoint("t@h/v1", "judge-1", "http://h/v1", "http://h/v1"), "{message}")
ROUTING = RoutingPolicy(surrogate=SurrogatePolicy(path=""), teacher=TEACHER)
NOTHING = Classified({}, 0, (), Confidence(None, None, None, (0,) * 10), {}, (), 0)


class FakeLabels:
    """Audits of the starter, and of the teacher by itself."""

    def __init__(self, of_surrogate: str, of_teacher: str = "") -> None:
        self._audits = {starter().version: of_surrogate, judge_name(TEACHER): of_teacher}

    def audits(self, version: str, after: int = 0, limit: int = 5000) -> list[Audit]:
        said = enumerate(self._audits.get(version, ""), 1)
        found = [
            Audit(
                "2026-05-10", "r", version, None, "simple", "simple" if one == "+" else "complex", 0.99, 0.03, id=number
            )
            for number, one in said
        ]
        return [audit for audit in found if audit.id > after]


class FakeClassified:
    def since(self, moment: str) -> Classified:
        return NOTHING


def told(routing: RoutingPolicy, of_surrogate: str, of_teacher: str = "") -> list[str]:
    """What `surrogate report` prints."""
    labels: Any = FakeLabels(of_surrogate, of_teacher)
    classified: Any = FakeClassified()
    learning = Learning(Surrogates(), labels, classified, clock=lambda: 1_800_000_000.0)
    for follow in (
        learning.surrogates.prepare,
        lambda policy: learning._trust.look(learning.surrogates.of(policy), 0.95),
    ):
        follow(routing.surrogate)
    return list(lines(learning.report(routing, 24), (), None))


NAME = starter().version
SHIPS = "It ships with Hermes and was not fitted on this traffic (python -m hermes surrogate fit)."


@pytest.mark.parametrize(
    ("routing", "audits", "state", "sentence"),
    [
        pytest.param(
            replace(ROUTING, teacher=None), "", "alone",
            "There is no teacher: the surrogate decides alone, and nothing can be learned or audited.", id="alone",
        ),
        pytest.param(
            ROUTING, "", "borrowed",
            f"The surrogate {NAME} decides on what was known when it was fitted: no audit yet. {SHIPS}",
            id="just installed",
        ),
        pytest.param(
            ROUTING, "+++-", "borrowed",
            f"The surrogate {NAME} decides on what was known when it was fitted: 3 of 4 audited verdicts were the "
            f"teacher's so far, and fewer than 30 conclude nothing. {SHIPS}",
            id="a few audits",
        ),
        pytest.param(
            ROUTING, "+" * 60, "borrowed",
            f"The surrogate {NAME} keeps the target of 95%: 60 of 60 audited verdicts were the teacher's. {SHIPS}",
            id="kept",
        ),
        pytest.param(
            ROUTING, "-+" * 10, "stepped back",
            f"The surrogate {NAME} has stepped back and the teacher decides: 5 of 10 audited verdicts were the "
            "teacher's, which is too few for the target of 95%. Traffic or teacher is not what it was fitted on; fit a "
            "new one (python -m hermes surrogate refit).",
            id="stepped back",
        ),
        pytest.param(
            replace(ROUTING, surrogate=SurrogatePolicy(path="", audit_rate=0)), "", "borrowed",
            "Audits are switched off (classifier.surrogate.audit_rate is 0): nobody would notice if the surrogate "
            f"{NAME} did not agree with the teacher any more. {SHIPS}",
            id="not audited",
        ),
    ],
)  # fmt: skip
def test_each_state_has_its_sentence(routing: RoutingPolicy, audits: str, state: str, sentence: str) -> None:
    first, second, *_ = told(routing, audits)

    assert first == f"Surrogate    {NAME} ({state})"
    assert second.strip() == sentence


def test_switched_off_says_so() -> None:
    first, second, *_ = told(replace(ROUTING, surrogate=SurrogatePolicy(enabled=False)), "")

    assert first == "Surrogate    none (off)"
    assert second.strip() == "No surrogate decides."


@pytest.mark.parametrize(
    ("again", "line"),
    [
        pytest.param("", None, id="not asked again"),
        pytest.param("+" * 57 + "-" * 3, "said the same in 57 of 60 cases when it was asked again", id="it does"),
        pytest.param(
            "+-" * 30,
            "said the same in 30 of 60 cases when it was asked again: nobody can agree with it in more than 75.7%, so "
            "lower the target or mend the teacher",
            id="it does not",
        ),
    ],
)
def test_the_teacher_is_measured_too(again: str, line: str | None) -> None:
    found = [one for one in told(ROUTING, "+" * 60, again) if one.startswith("Teacher")]

    assert found == ([] if line is None else [f"Teacher      {line}"])
