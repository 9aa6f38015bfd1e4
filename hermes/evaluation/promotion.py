"""What is done about a run: it is looked at, promoted, rejected, rolled back, by people or by itself.

Looking at a growing pile of rows again and again until it happens to look good proves nothing. So whatever happens by
itself happens at a few looks only: a trial is weighed when its rows are `min_samples`, twice as many, four times as
many, each time with half of the remaining risk; a watch is weighed in blocks of `min_samples` new rows, each by itself.
People may look as often as they like, and promote whatever they like.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from hermes.bounds import DELTA
from hermes.errors import Conflict, DatabaseUnavailable, HermesError
from hermes.evaluation.gate import Gate, turned, weigh
from hermes.policy import GatePolicy, Policy
from hermes.trials import Opinion, Pair, Run, ShadowReply

log = logging.getLogger("hermes-router.shadow")

WATCH_DELTA: Final = 0.01
"""The risk that a block of a watch shows a regression where there is none, for each bound of each criterion."""

AUTO: Final = "auto_promote"
"""Who acts where nobody does, as audit rows have it."""

PROMOTED: Final = "The promoted model"


class Replies(Protocol):
    """`hermes.storage.shadow.ShadowRepository`."""

    def follow_pins(self, primaries: Mapping[str, str], at: float) -> None: ...

    def runs(self, limit: int = 50, *, state: str | None = None) -> list[Run]: ...

    def run(self, run_id: int) -> Run: ...

    def pairs(self, run_id: int, after: int = 0) -> list[Pair]: ...

    def set_person(self, reply_id: int, verdict: Opinion | None, actor: str, at: float) -> ShadowReply: ...

    def claim_look(self, run: Run, looks: int, looked_id: int) -> bool: ...

    def flag(self, run_id: int, reason: str | None) -> None: ...


class Changes(Protocol):
    """`hermes.storage.promotions.PromotionRepository`."""

    def promote(self, run_id: int, actor: str, reason: str) -> Run: ...

    def reject(self, run_id: int, actor: str, reason: str) -> Run: ...

    def roll_back(self, run_id: int, actor: str, reason: str) -> Run: ...


class Promotions:
    """The acts on runs. The actor is who does it; an empty reason is filled with what the gate says."""

    def __init__(
        self,
        replies: Replies,
        changes: Changes,
        changed: Callable[[], None] = lambda: None,
        aside: Callable[..., Any] = lambda work, *args: work(*args),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            changed: puts changed pins in force in this process.
            aside: runs a function of its arguments where it holds nobody up.
        """
        self._replies = replies
        self._changes = changes
        self._changed = changed
        self._aside = aside
        self._clock = clock
        self._had_runs = True

    # -- what people do -----------------------------------------------------------------------------------

    def gate(self, run: Run, rules: GatePolicy) -> Gate:
        """What the gate says of all that there is of a run; of a watch, how the promoted model stands to the former."""
        pairs = self._replies.pairs(run.id)
        return self._weighed(run, pairs, rules, DELTA)

    def running(self, role: str, kind: str = "trial") -> Run:
        """The run of a role that goes on; of the kind `promoted`, the last one that was promoted.

        Raises:
            Conflict: there is none.
        """
        state = "promoted" if kind == "promoted" else "running"
        for run in self._replies.runs(state=state):
            if run.role == role and (kind == "promoted" or run.kind == kind):
                return run
        what = "promotion" if kind == "promoted" else f"{kind} of a target"
        raise Conflict(f"There is no {what} for the role {role[:100]!r}.")

    def promote(self, run_id: int, rules: GatePolicy, actor: str, *, force: bool = False, reason: str = "") -> Run:
        """Moves the target into the pin.

        Raises:
            Conflict: the gate has not passed, and `force` is not given; or the run does not go on any more.
        """
        gate = self.gate(self._replies.run(run_id), rules)
        if gate.standing != "passed" and not force:
            raise Conflict(f"The gate has not passed. {gate.sentence} Only with force it is promoted all the same.")
        run = self._changes.promote(run_id, actor, reason or gate.sentence)
        return self._done(run, f"{run.target} is promoted to model.{run.role}", actor)

    def reject(self, run_id: int, actor: str, reason: str = "") -> Run:
        """Takes the target away; ends a watch."""
        run = self._changes.reject(run_id, actor, reason or "Rejected.")
        return self._done(run, f"{run.target} is not the target of model.{run.role} any more", actor)

    def roll_back(self, run_id: int, actor: str, reason: str = "") -> Run:
        """Gives the pin back to the former model."""
        run = self._changes.roll_back(run_id, actor, reason or "Rolled back.")
        return self._done(run, f"model.{run.role} is {run.primary} again", actor)

    def verdict(self, reply_id: int, verdict: Opinion | None, actor: str) -> ShadowReply:
        """What a person says of a sample; None takes it back."""
        return self._replies.set_person(reply_id, verdict, actor, self._clock())

    # -- what happens by itself ---------------------------------------------------------------------------

    def look(self, policy: Policy, pins: Mapping[str, str], primaries: Mapping[str, str]) -> None:
        """Follows the pins, and weighs the runs whose time has come; for a background loop of one worker.

        Args:
            primaries: by role, the model that answers where no pin is set.
        """
        if not self._had_runs and not any(f"model.{role}.target" in pins for role in primaries):
            return
        self._replies.follow_pins(primaries, self._clock())
        runs = self._replies.runs(state="running")
        self._had_runs = bool(runs)
        for run in runs:
            try:
                self._look_at(run, policy)
            except DatabaseUnavailable:
                raise
            except HermesError as error:  # somebody was faster
                log.info("Shadow run %d was left alone: %s", run.id, error)

    def _look_at(self, run: Run, policy: Policy) -> None:
        rules = policy.shadow.gate
        is_trial = run.kind == "trial"
        wanted = rules.min_samples * 2**run.looks if is_trial else rules.min_samples
        pairs = self._replies.pairs(run.id, 0 if is_trial else run.looked_id)
        judged = run.samples - (run.counts or {}).get("none", 0) if is_trial else _judged(pairs)
        if judged < wanted or not self._replies.claim_look(run, run.looks + 1, pairs[-1].id):
            return
        delta = DELTA / 2 ** (run.looks + 1) if is_trial else WATCH_DELTA
        gate = self._weighed(run, pairs, rules, delta)
        log.info("Shadow run %d (%s for %s): %s", run.id, run.target, run.role, gate.sentence)
        if policy.shadow.auto_promote:
            self._act(run, gate)
        elif gate.standing == "failed":
            self._replies.flag(run.id, gate.sentence)
        elif run.reason is not None:
            self._replies.flag(run.id, None)

    def _act(self, run: Run, gate: Gate) -> None:
        if run.kind == "watch":
            if gate.standing == "failed" and run.watches is not None:
                self.roll_back(run.watches, AUTO, f"A regression: {gate.sentence}")
        elif gate.standing == "passed":
            promoted = self._changes.promote(run.id, AUTO, gate.sentence)
            self._done(promoted, f"{run.target} is promoted to model.{run.role}", AUTO)
        elif gate.standing == "failed":
            self.reject(run.id, AUTO, gate.sentence)

    def _weighed(self, run: Run, pairs: list[Pair], rules: GatePolicy, delta: float) -> Gate:
        if run.kind == "trial":
            return self._aside(weigh, pairs, rules, delta)  # type: ignore[no-any-return]
        return self._aside(weigh, [turned(pair) for pair in pairs], rules, delta, PROMOTED)  # type: ignore[no-any-return]

    def _done(self, run: Run, what: str, actor: str) -> Run:
        log.warning("Shadow run %d: %s, by %s. %s", run.id, what, actor, run.reason or "")
        self._changed()
        return run


def _judged(pairs: list[Pair]) -> int:
    return sum(pair.verdict is not None for pair in pairs)
