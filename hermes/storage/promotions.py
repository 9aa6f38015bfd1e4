"""A target takes the pin's place, or does not, or gives it back: each in one transaction, with its audit rows.

What a rollback needs is in the run that was promoted. Nothing is done on an old picture: where the pin or the target is
another by now, somebody has changed it by hand, and is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from hermes.errors import Conflict, NotFound
from hermes.storage import audit
from hermes.storage.audit import time_text
from hermes.storage.db import Database
from hermes.storage.models.operators import ConfigRow
from hermes.storage.models.shadow import ShadowRunRow
from hermes.storage.shadow import as_run, begin
from hermes.trials import Run, State

Result = TypeVar("Result")


class PromotionRepository:
    """Changes pins and runs together.

    Every method takes who does it and why, as audit rows have it, and raises `NotFound` where there is no such run,
    `Conflict` where it is not in that state any more, and `DatabaseUnavailable`.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def promote(self, run_id: int, actor: str, reason: str) -> Run:
        """The target becomes the pin; the former model becomes the target, to be watched against. The promoted run."""
        return self._change(_promote, run_id, actor, reason)

    def reject(self, run_id: int, actor: str, reason: str) -> Run:
        """The target is taken away. A watch that is rejected ends."""
        return self._change(_reject, run_id, actor, reason)

    def roll_back(self, run_id: int, actor: str, reason: str) -> Run:
        """The pin is what it was before the promotion of this run."""
        return self._change(_roll_back, run_id, actor, reason)

    def _change(self, change: Callable[..., Result], *args: Any) -> Result:
        result: Result = self._database.write(audit.one_at_a_time, change, time_text(self._clock()), *args)
        return result


def _promote(at: str, run_id: int, actor: str, reason: str) -> Run:
    run = _row(run_id)
    if run.state != "running" or run.kind != "trial":
        raise Conflict(f"Shadow run {run_id} is {_said(run)}; only a trial that goes on can be promoted.")
    pin, target = f"model.{run.role}", f"model.{run.role}.target"
    if _value(target) != run.target_model:
        raise Conflict(f"The target of {run.role} is not {run.target_model} any more.")
    former = _value(pin)
    if former not in (None, run.primary_model):
        raise Conflict(f"The pin of {run.role} is {former} by now, and not {run.primary_model}.")
    _set(at, actor, pin, run.target_model, reason)
    _set(at, actor, target, run.primary_model, f"the former model, for the watch over {run.target_model}")
    run.former_pin = former
    _end(at, run, "promoted", actor, reason)
    begin(run.role, run.target_model, run.primary_model, at, "watch", run.id)
    audit.note(at, actor, "shadow.promote", pin, {"value": former}, {"value": run.target_model, "reason": reason})
    return as_run(run)


def _reject(at: str, run_id: int, actor: str, reason: str) -> Run:
    run = _row(run_id)
    if run.state != "running":
        raise Conflict(f"Shadow run {run_id} is {_said(run)}; only one that goes on can be ended.")
    _drop_target(at, actor, run, run.target_model, reason)
    _end(at, run, "rejected" if run.kind == "trial" else "ended", actor, reason)
    action = "shadow.reject" if run.kind == "trial" else "shadow.end_watch"
    audit.note(at, actor, action, f"model.{run.role}.target", {"value": run.target_model}, {"reason": reason})
    return as_run(run)


def _roll_back(at: str, run_id: int, actor: str, reason: str) -> Run:
    run = _row(run_id)
    if run.state != "promoted":
        raise Conflict(f"Shadow run {run_id} is {_said(run)}; only a promotion can be rolled back.")
    pin = f"model.{run.role}"
    if _value(pin) != run.target_model:
        raise Conflict(f"The pin of {run.role} is not {run.target_model} any more; nothing is left to roll back.")
    if run.former_pin is None:
        _delete(at, actor, pin, reason)
    else:
        _set(at, actor, pin, run.former_pin, reason)
    _drop_target(at, actor, run, run.primary_model, reason)
    row: Any = ShadowRunRow
    watch = (row.watches == run.id) & (row.state == "running")
    row.update(state="ended", ended_at=at, ended_by=actor, reason=reason).where(watch).execute()
    _end(at, run, "rolled_back", actor, reason)
    after = {"value": run.former_pin, "reason": reason}
    audit.note(at, actor, "shadow.rollback", pin, {"value": run.target_model}, after)
    return as_run(run)


def _row(run_id: int) -> Any:
    row = ShadowRunRow.get_or_none(ShadowRunRow.id == run_id)
    if row is None:
        raise NotFound(f"There is no shadow run {run_id}.")
    return row


def _end(at: str, run: Any, state: State, actor: str, reason: str) -> None:
    run.state, run.ended_at, run.ended_by, run.reason = state, at, actor, reason
    run.save()


def _said(run: Any) -> str:
    return "a watch" if run.state == "running" else run.state.replace("_", " ")


def _value(key: str) -> str | None:
    row = ConfigRow.get_or_none(ConfigRow.key == key)
    return None if row is None else row.value


def _set(at: str, actor: str, key: str, value: str, reason: str) -> None:
    before = _value(key)
    values = {"value": value, "updated_at": at, "updated_by": actor}
    if before is None:
        ConfigRow.insert(key=key, **values).execute()
    else:
        ConfigRow.update(**values).where(ConfigRow.key == key).execute()
    told = None if before is None else {"value": before}
    audit.note(at, actor, "pin.set", key, told, {"value": value, "reason": reason})


def _delete(at: str, actor: str, key: str, reason: str) -> None:
    before = _value(key)
    if before is not None:
        ConfigRow.delete().where(ConfigRow.key == key).execute()
        audit.note(at, actor, "pin.delete", key, {"value": before}, None)


def _drop_target(at: str, actor: str, run: Any, model: str, reason: str) -> None:
    """Unless somebody has set another one meanwhile."""
    key = f"model.{run.role}.target"
    if _value(key) == model:
        _delete(at, actor, key, reason)
