"""No split parts what belongs together, and rows that stand for many do not drown out those that stand for one."""

from __future__ import annotations

import numpy as np
import pytest

from hermes.learning.candidates import problem_of
from hermes.learning.families import LONGEST, families_of
from hermes.learning.traffic import Row, TrafficUnusable
from hermes.learning.weights import balanced


def row(text: str, tier: str = "simple", conversation: str = "", weight: float = 1.0) -> Row:
    return Row(text, "complex" if tier == "complex" else "simple", "2026-05-10", weight, conversation)


def families(*rows: Row) -> list[set[int]]:
    """Which rows are together, by their numbers."""
    found: dict[str, set[int]] = {}
    for number, family in enumerate(families_of(rows)):
        found.setdefault(family, set()).add(number)
    return list(found.values())


def others(number: int) -> list[Row]:
    return [
        row(f"other {'abcdefghij'[at // 100]}{'abcdefghij'[at // 10 % 10]}{'abcdefghij'[at % 10]}")
        for at in range(number)
    ]


def test_texts_that_differ_in_numbers_only_are_one_family() -> None:
    assert families(row("run job 17"), row("Run job 4"), row("stop job 4")) == [{0, 1}, {2}]


def test_a_conversation_is_one_family_and_so_is_what_it_shares_with_another() -> None:
    talk = [row("fix it", conversation="a"), row("and the tests", conversation="a"), row("fix it 2", conversation="b")]

    found = families(*talk, row("fix it 3", conversation="b"), *others(60))

    assert {0, 1} in found or any({0, 1} <= one for one in found)


def test_a_conversation_without_end_is_split_in_time() -> None:
    long = [row(f"turn {one.text}", conversation="always the same") for one in others(1000)]

    assert max(map(len, families(*long))) == LONGEST
    assert max(map(len, families(*long[:100]))) == 5, "of few rows enough parts must be left to hold back"


def test_all_rows_of_a_conversation_are_in_one_fold() -> None:
    rows = [
        row(f"{tier} {one.text} {word}", tier, conversation=f"{tier} {number // 4}")
        for tier, word in (("simple", "hello"), ("complex", "prove"))
        for number, one in enumerate(others(120))
    ]

    fold = problem_of(rows).fold

    by_conversation: dict[str, set[int]] = {}
    for one, number in zip(rows, fold.tolist(), strict=True):
        by_conversation.setdefault(one.conversation, set()).add(number)
    assert {len(folds) for folds in by_conversation.values()} == {1}
    assert np.bincount(fold).min() >= 40


@pytest.mark.parametrize("conversation", ["", "c"])
def test_where_nothing_can_be_held_back_a_sentence_says_so(conversation: str) -> None:
    rows = [*others(200), *(row(f"prove lemma {number}", "complex", conversation) for number in range(12))]

    with pytest.raises(TrafficUnusable, match="All 12 texts that the teacher called complex are variations"):
        problem_of(rows)


def test_a_few_heavy_rows_do_not_outweigh_a_stretch_that_was_seen_as_a_whole() -> None:
    weights = balanced([1.0] * 1000 + [20.0, 1.0] * 100)

    effective = weights.sum() ** 2 / (weights**2).sum()
    assert effective > 1050
    assert weights[1000] / weights[1001] == pytest.approx(20)


@pytest.mark.parametrize("count", [0, 1, 49, 1234])
def test_equal_rows_count_one_each(count: int) -> None:
    assert balanced([1.0] * count).tolist() == [1.0] * count
