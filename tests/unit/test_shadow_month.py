"""A scripted month: a worse target is rejected, a better one promoted, a regression after that is rolled back.

`benchmarks/shadow_month.py` is the same with the usual rules, for as long as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.evaluation.gate import weigh
from hermes.policy import GatePolicy
from hermes.web.dashboard.views.shadow import pane_of
from tests.shadow_world import ByHand, Model, World

RULES = GatePolicy(min_samples=20, min_win_or_tie=0.8, max_error_rate=0.2)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path, Model("house", 0.5, spread=0.05), Model("worse", 0.2, spread=0.05, price=0.5),
        Model("better", 0.8, spread=0.05, price=0.4, latency_ms=400), gate=RULES, judge_goes_by_position=0.0,
    )  # fmt: skip
    yield made
    made.close()


def test_the_month(world: World) -> None:
    world.try_out("worse")
    world.days(1, requests=25, looks=25)
    assert world.serving == "house"
    assert [(run.target, run.state) for run in world.runs()] == [("worse", "rejected")]
    assert "model.chat.target" not in world.pins

    world.try_out("better")
    world.days(2, requests=25, looks=25)
    assert world.serving == "better"
    assert world.pins["model.chat.target"] == "house", "the former model is watched against"
    assert [run.state for run in world.runs()] == ["rejected", "promoted", "running"]

    world.days(1, requests=45, looks=45)
    assert world.serving == "better", "a good model stays, however often it is looked at"

    world.models["better"].quality = 0.2
    world.days(2, requests=25, looks=25)
    assert world.serving == "house"
    assert [run.state for run in world.runs()] == ["rejected", "rolled_back", "ended"]
    assert world.pins.get("model.chat.target") is None
    assert "A regression: The promoted model wins or ties in" in (world.runs()[1].reason or "")
    actions = [row["action"] for row in world.directory.audit(50) if row["action"].startswith("shadow.")]
    assert actions == ["shadow.rollback", "shadow.promote", "shadow.reject"]


def test_a_model_that_fails_after_its_promotion_is_rolled_back_too(world: World) -> None:
    world.try_out("better")
    world.days(2, requests=25, looks=25)
    assert world.serving == "better"

    world.models["better"].error_rate = 1.0
    world.days(2, requests=25, looks=25)

    assert world.serving == "house"


def test_without_auto_promote_nothing_happens_by_itself_but_is_flagged(tmp_path: Path) -> None:
    world = World(
        tmp_path, Model("house", 0.5), Model("worse", 0.1), gate=RULES, judge_goes_by_position=0.0, auto_promote=False
    )  # fmt: skip
    world.try_out("worse")

    world.days(1, requests=30, looks=30)

    (run,) = world.runs()
    assert run.state == "running"
    assert "wins or ties in" in (run.reason or "")
    world.close()


def test_the_figures_of_the_page_are_those_reckoned_by_hand(world: World) -> None:
    world.models["worse"].error_rate = 0.1
    world.policy = world.policy.__class__(cascades=world.policy.cascades, shadow=world.policy.shadow)
    world.try_out("worse")
    for _ in range(40):
        world.request(world.pins)
        world.settle()
    hand = ByHand(world.books)
    (run,) = world.runs()

    pairs = world.rows.pairs(run.id)
    pane = pane_of(run, weigh(pairs, RULES), pairs, None)

    shown = {rule.name: rule for rule in pane.rules}
    verdicts = hand.verdicts()
    assert pane.counts == verdicts
    assert shown["Judged samples"].value == "40"
    good = verdicts["better"] + verdicts["tie"]
    assert shown["Win or tie"].value == f"{100 * good / 40:.1f}%"
    slow, fast = hand.p95()
    assert shown["Latency p95"].value == (f"{fast:.0f} ms" if fast < 1000 else f"{fast / 1000:.2f} s")
    assert shown["Latency p95"].bounds.startswith(f"{fast / slow:.2f} times A")
    primary, target = hand.costs()
    assert shown["Cost per request"].bounds.startswith(f"{target / primary:.2f} times A")
    failed = sum(entry.target_failed for entry in world.books)
    assert failed > 0
    assert shown["Calls without an answer"].value == f"{100 * failed / 40:.1f}%"
    spent = sum(entry.target_nanousd or 0 for entry in world.books)
    judged = [reply.judge_nanousd or 0 for reply in world.rows.replies(run.id, limit=50)]
    assert world.rows.spent_since("") == spent + sum(judged)
