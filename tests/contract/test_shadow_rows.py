"""Runs and samples in the database, on SQLite and on Postgres alike: stored, promoted, rejected, rolled back."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.directory import Directory
from hermes.errors import Conflict, InvalidRequest, NotFound
from hermes.evaluation.promotion import Promotions
from hermes.policy import GatePolicy, Policy, ShadowPolicy
from hermes.storage.backfill import Backfill
from hermes.storage.db import Database
from hermes.storage.directory import DirectoryRepository
from hermes.storage.promotions import PromotionRepository
from hermes.storage.retention import Retention
from hermes.storage.shadow import ShadowRepository
from hermes.trials import Run
from tests.shadow_rows import a_reply, store

NOON = 1_778_414_400.0  # 2026-05-10T12:00:00Z
PRIMARIES = {"chat": "pin", "reasoning": "deep"}


class Desk:
    """What an operator has before them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.rows = ShadowRepository(database)
        self.directory = DirectoryRepository(database)
        self.promotions = Promotions(self.rows, PromotionRepository(database, lambda: NOON), clock=lambda: NOON)

    def pins(self) -> dict[str, str]:
        return dict(self._directory().pins)

    def _directory(self) -> Directory:
        return self.directory.load()

    def set(self, key: str, value: str) -> None:
        self.directory.set_pin(key, value, "anna")

    def run(self, **wanted: Any) -> Run:
        """The one run with these values."""
        (found,) = [r for r in self.rows.runs() if all(getattr(r, name) == value for name, value in wanted.items())]
        return found

    def look(self, *, auto: bool = True, **rules: Any) -> None:
        policy = Policy(cascades={}, shadow=ShadowPolicy(auto_promote=auto, gate=GatePolicy(**rules)))
        self.promotions.look(policy, self.pins(), PRIMARIES)

    def audit(self) -> list[tuple[str, str, str]]:
        return [(row["action"], row["target"], row["actor"]) for row in self.directory.audit(50)]


@pytest.fixture
def desk(database: Database) -> Desk:
    made = Desk(database)
    made.set("model.chat.target", "candidate")
    made.set("model.chat.target.sample_rate", "0.1")
    return made


def test_a_row_comes_back_as_it_was_stored(desk: Desk) -> None:
    stored = a_reply(1, "better", judge_nanousd=77, stream=True, prompt="nul \0 half \ud83d")
    store(desk.database, [stored])

    (found,) = desk.rows.replies(desk.run().id)

    assert found.primary == stored.primary
    assert found.target == stored.target
    assert (found.opinion, found.orders, found.judge_nanousd, bool(found.stream)) == ("better", "pt", 77, True)
    assert found.prompt == "nul  half \ufffd"


def test_a_request_has_one_row(desk: Desk) -> None:
    store(desk.database, [a_reply(1), a_reply(1, "worse")])

    assert [reply.opinion for reply in desk.rows.replies(desk.run().id)] == ["tie"]


def test_rows_are_counted_and_chosen_by_what_counts(desk: Desk) -> None:
    opinions = ["better", "tie", "tie", "worse", None]
    store(desk.database, [a_reply(n, opinion) for n, opinion in enumerate(opinions)])  # type: ignore[arg-type]
    store(desk.database, [a_reply(9, "worse", target_error="it answered 500")])
    run = desk.run()
    newest_tie = desk.rows.replies(run.id, verdict="tie", limit=1)[0]

    desk.promotions.verdict(newest_tie.id, "worse", "anna")
    run = desk.rows.run(run.id)

    assert run.counts == {"better": 1, "tie": 1, "worse": 3, "none": 1}
    assert run.samples == 6
    assert [r.request_id for r in desk.rows.replies(run.id, verdict="worse")] == ["req_s9", "req_s3", "req_s2"]
    assert [r.request_id for r in desk.rows.replies(run.id, verdict="worse", limit=1, offset=2)] == ["req_s2"]
    assert [r.request_id for r in desk.rows.replies(run.id, verdict="error")] == ["req_s9"]
    assert desk.rows.number(run.id, "none") == 1
    assert desk.audit()[0] == ("shadow.verdict", "req_s2", "anna")

    desk.promotions.verdict(newest_tie.id, None, "anna")
    assert desk.rows.run(run.id).counts == {"better": 1, "tie": 2, "worse": 2, "none": 1}


def test_the_gate_sees_the_figures(desk: Desk) -> None:
    store(desk.database, [a_reply(1), a_reply(2, "worse", target_error="x"), a_reply(3, "better", primary_error="y")])

    first, second, third = desk.rows.pairs(desk.run().id)

    assert (first.verdict, first.primary_ms, first.target_ms) == ("tie", 110.0, 88.0)
    assert (first.primary_nanousd, first.target_nanousd) == (250_000, 170_000)
    assert (bool(second.target_failed), second.target_nanousd) == (True, None)
    assert (bool(third.primary_failed), third.primary_ms) == (True, None)
    assert [pair.id for pair in desk.rows.pairs(desk.run().id, after=first.id)] == [second.id, third.id]


def test_a_target_that_passes_is_promoted_and_can_be_rolled_back(desk: Desk) -> None:
    """There was no pin before, so there is none afterwards."""
    store(desk.database, [a_reply(n) for n in range(50)])

    promoted = desk.promotions.promote(desk.run().id, GatePolicy(), "anna")

    assert desk.pins() == {
        "model.chat": "candidate",
        "model.chat.target": "pin",
        "model.chat.target.sample_rate": "0.1",
    }
    assert promoted.reason == "All 5 criteria pass."
    watch = desk.run(state="running")
    assert (watch.kind, watch.primary, watch.target, watch.watches) == ("watch", "candidate", "pin", promoted.id)
    assert desk.audit()[0] == ("shadow.promote", "model.chat", "anna")

    desk.promotions.roll_back(promoted.id, "bert", "It swears.")

    assert desk.pins() == {"model.chat.target.sample_rate": "0.1"}
    assert desk.run(id=promoted.id).state == "rolled_back"
    assert desk.run(id=watch.id).state == "ended"
    assert desk.audit()[0] == ("shadow.rollback", "model.chat", "bert")


def test_a_rollback_puts_the_former_pin_back(desk: Desk) -> None:
    desk.set("model.chat", "pin")
    store(desk.database, [a_reply(1)])

    promoted = desk.promotions.promote(desk.run().id, GatePolicy(), "anna", force=True)
    desk.promotions.roll_back(promoted.id, "anna")

    assert desk.pins()["model.chat"] == "pin"


def test_a_target_that_has_not_passed_is_promoted_only_by_force(desk: Desk) -> None:
    store(desk.database, [a_reply(1)])

    with pytest.raises(Conflict, match="1 sample has a verdict, at least 50 are wanted"):
        desk.promotions.promote(desk.run().id, GatePolicy(), "anna")

    assert "model.chat" not in desk.pins()
    assert desk.promotions.promote(desk.run().id, GatePolicy(), "anna", force=True).state == "promoted"


def test_a_rejected_target_is_gone(desk: Desk) -> None:
    store(desk.database, [a_reply(1)])

    run = desk.promotions.reject(desk.run().id, "anna", "Too chatty.")

    assert (run.state, run.reason, run.ended_by) == ("rejected", "Too chatty.", "anna")
    assert "model.chat.target" not in desk.pins()
    assert desk.audit()[0] == ("shadow.reject", "model.chat.target", "anna")


def test_whoever_was_faster_by_hand_is_right(desk: Desk) -> None:
    store(desk.database, [a_reply(1)])
    run = desk.run()

    desk.set("model.chat", "something-else")
    with pytest.raises(Conflict, match="something-else"):
        desk.promotions.promote(run.id, GatePolicy(), "anna", force=True)
    desk.directory.delete_pin("model.chat", "anna")
    desk.set("model.chat.target", "other")
    with pytest.raises(Conflict, match="not candidate any more"):
        desk.promotions.promote(run.id, GatePolicy(), "anna", force=True)
    desk.promotions.reject(run.id, "anna")

    assert desk.pins()["model.chat.target"] == "other", "it is not this run's target"


def test_a_promotion_that_was_overruled_cannot_be_rolled_back(desk: Desk) -> None:
    store(desk.database, [a_reply(1)])
    run = desk.promotions.promote(desk.run().id, GatePolicy(), "anna", force=True)
    desk.set("model.chat", "third")

    with pytest.raises(Conflict, match="nothing is left to roll back"):
        desk.promotions.roll_back(run.id, "anna")
    assert desk.pins()["model.chat"] == "third"


def test_nothing_is_done_twice(desk: Desk) -> None:
    store(desk.database, [a_reply(1)])
    run = desk.promotions.reject(desk.run().id, "anna")

    for act in (desk.promotions.reject, desk.promotions.roll_back):
        with pytest.raises(Conflict, match="rejected"):
            act(run.id, "anna")
    with pytest.raises(Conflict):
        desk.promotions.promote(run.id, GatePolicy(), "anna", force=True)
    with pytest.raises(NotFound):
        desk.promotions.reject(999, "anna")
    with pytest.raises(NotFound):
        desk.promotions.verdict(999, "tie", "anna")
    with pytest.raises(InvalidRequest, match="better, tie, worse"):
        desk.promotions.verdict(desk.rows.replies(run.id)[0].id, "great", "anna")  # type: ignore[arg-type]


def test_runs_follow_the_pins(desk: Desk) -> None:
    desk.look()
    assert (desk.run().primary, desk.run().target, desk.run().state) == ("pin", "candidate", "running")

    desk.set("model.chat.target", "other")
    desk.look()
    assert [(r.target, r.state) for r in desk.rows.runs()] == [("other", "running"), ("candidate", "ended")]

    desk.directory.delete_pin("model.chat.target", "anna")
    desk.look()
    assert {r.state for r in desk.rows.runs()} == {"ended"}


def test_a_run_ends_with_its_role(desk: Desk) -> None:
    desk.look()
    run_id = desk.run(state="running").id

    desk.promotions.look(Policy(cascades={}), desk.pins(), {"reasoning": "deep"})

    assert desk.run(id=run_id).reason == "The configuration has no such role any more."
    with pytest.raises(Conflict):
        desk.promotions.promote(run_id, GatePolicy(), "anna", force=True)
    assert "model.chat" not in desk.pins()


def test_answers_that_come_late_go_to_their_own_run(desk: Desk) -> None:
    """A worker that does not know of the promotion yet must not begin the old comparison anew."""
    store(desk.database, [a_reply(1)])
    promoted = desk.promotions.promote(desk.run().id, GatePolicy(), "anna", force=True)

    store(desk.database, [a_reply(2), a_reply(3, primary="never", target="heard-of")])

    assert desk.rows.run(promoted.id).samples == 2
    assert [(r.kind, r.state) for r in desk.rows.runs()] == [("watch", "running"), ("trial", "promoted")]


def test_money_of_the_day(desk: Desk) -> None:
    store(desk.database, [a_reply(1, judge_nanousd=5), a_reply(2), a_reply(3, "worse", target_error="x")])

    assert desk.rows.spent_since("2026-05-10T00:00:00.000Z") == 2 * 170_000 + 5
    assert desk.rows.spent_since("2026-05-10T00:00:02.000Z") == 170_000


def test_old_answers_are_forgotten(desk: Desk, database: Database) -> None:
    store(database, [a_reply(1), a_reply(2, created_at="2026-05-12T00:00:00.000Z")])

    Retention(database, Backfill(database), clock=lambda: NOON + 86_400, sleep=lambda _: None).run(1)

    assert [reply.request_id for reply in desk.rows.replies(desk.run().id)] == ["req_s2"]
