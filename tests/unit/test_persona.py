"""The teacher learns who writes, once for each state of the files, and never from a file that is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hermes.policy import PersonaPolicy, Policy, RoutingPolicy, TeacherPolicy
from hermes.routing.persona import Persona, persona_text
from hermes.types import Allowance, Endpoint

TEACHER = TeacherPolicy(Endpoint("t@h/v1", "t", "http://h/v1", "http://h/v1", needs_key=False), "{message}")


class Bench:
    def __init__(self, folder: Path) -> None:
        self.user, self.memory = folder / "USER.md", folder / "MEMORY.md"
        self.asked: list[str] = []
        self.kept: dict[str, str] = {}
        self.persona = Persona(self._ask, self.kept.get, self.kept.__setitem__)
        self.policy = Policy(
            cascades={},
            routing=RoutingPolicy(teacher=TEACHER),
            persona=PersonaPolicy(str(self.user), str(self.memory), max_context_chars=100),
        )

    def _ask(self, teacher: TeacherPolicy, prompt: str, allowance: Allowance) -> str:
        self.asked.append(prompt)
        return f" hint\nnumber {len(self.asked)} "

    def hint(self, policy: Policy) -> str:
        assert policy.routing.teacher is not None
        return policy.routing.teacher.profile_hint


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_without_files_nobody_is_asked_and_there_is_no_hint(bench: Bench) -> None:
    assert bench.persona.applied(bench.policy, may_ask=True) is bench.policy
    assert bench.asked == []


def test_the_files_are_summarised_once_and_the_summary_is_kept(bench: Bench) -> None:
    bench.user.write_text("A physicist who writes Fortran.")

    first = bench.persona.applied(bench.policy, may_ask=True)
    again = bench.persona.applied(bench.policy)

    assert bench.hint(first) == "hint number 1"
    assert bench.hint(again) == "hint number 1"
    assert len(bench.asked) == 1
    assert "A physicist who writes Fortran." in bench.asked[0]


def test_a_changed_file_renews_the_hint_and_until_then_the_old_one_holds(bench: Bench) -> None:
    bench.user.write_text("A physicist.")
    first = bench.persona.applied(bench.policy, may_ask=True)
    bench.user.write_text("A baker.")

    assert bench.persona.applied(first) is first
    assert bench.hint(bench.persona.applied(first, may_ask=True)) == "hint number 2"


def test_a_hint_in_the_configuration_is_used_as_it_is(bench: Bench) -> None:
    bench.user.write_text("A physicist.")
    given = replace(bench.policy, document={"classifier": {"profile_hint": "mine"}})

    assert bench.persona.applied(given, may_ask=True) is given
    assert bench.asked == []


def test_without_a_teacher_nothing_is_summarised(bench: Bench) -> None:
    bench.user.write_text("A physicist.")
    alone = replace(bench.policy, routing=RoutingPolicy())

    assert bench.persona.applied(alone, may_ask=True) is alone


def test_no_more_than_the_allowed_characters_are_read_and_both_files_have_their_part(bench: Bench) -> None:
    bench.user.write_text("u" * 500)
    bench.memory.write_text("m" * 500)

    text = persona_text(bench.policy.persona)

    assert text == "u" * 50 + "\n\n" + "m" * 50


@pytest.mark.parametrize("content", [b"\xff\xfe broken", b"nul \0 byte", b""], ids=["not UTF-8", "NUL", "empty"])
def test_any_file_can_be_read(bench: Bench, content: bytes) -> None:
    bench.user.write_bytes(content)

    assert "\0" not in persona_text(bench.policy.persona)
