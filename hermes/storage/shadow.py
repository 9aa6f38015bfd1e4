"""Answers of targets, and the runs they belong to: stored by workers, read by the gate, the API and the dashboard.

A row finds its run by role and models. A role has one target at a time, so a run that begins ends the role's other one;
and it begins only where the pins say so: answers that come late, after a promotion say, go to the run they are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from peewee import fn

from hermes.errors import InvalidRequest, NotFound
from hermes.storage import audit
from hermes.storage.audit import time_text
from hermes.storage.db import Database
from hermes.storage.models.operators import ConfigRow
from hermes.storage.models.shadow import ShadowReplyRow, ShadowRunRow
from hermes.trials import OPINIONS, Kind, Opinion, Pair, Run, ShadowReply, Side

SIDE: Final = ("model", "endpoint", "answer", "latency_ms", "ttft_ms", "prompt_tokens", "completion_tokens", "nanousd")
SIDE_COLUMNS: Final = (*SIDE, "error")
OWN_COLUMNS: Final = (
    "id", "created_at", "request_id", "run_id", "role", "function_name", "stream", "prompt", "similarity", "opinion",
    "opinion_by", "orders", "reason", "judge_error", "judge_nanousd", "person", "person_by",
)  # fmt: skip
MOST_PAIRS: Final = 2000
"""The newest rows of a run, which are what the gate looks at."""


class ShadowRepository:
    """`shadow_replies` and `shadow_runs`. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, reply: ShadowReply) -> None:
        """Stores a row in its run; one that is there already stays as it is, and one that is of no run is left out."""
        self._database.write(_add, reply)

    def follow_pins(self, primaries: Mapping[str, str], at: float) -> None:
        """Begins and ends runs as the pins are now.

        Args:
            primaries: by role, the model that answers where no pin is set.
        """
        self._database.write(audit.one_at_a_time, _follow_pins, primaries, time_text(at))

    def runs(self, limit: int = 50, *, state: str | None = None) -> list[Run]:
        """The runs that go on, then the others, newest first, with their counts."""
        return self._database.report(_runs, limit, state)

    def run(self, run_id: int) -> Run:
        """One run with its counts. Raises `NotFound`."""
        return self._database.report(_run, run_id)

    def pairs(self, run_id: int, after: int = 0, limit: int = MOST_PAIRS) -> list[Pair]:
        """The newest figures of a run's rows whose numbers are above `after`, the oldest first."""
        return self._database.report(_pairs, run_id, after, limit)

    def replies(
        self, run_id: int, *, verdict: str | None = None, limit: int = 20, offset: int = 0
    ) -> list[ShadowReply]:
        """Rows with their texts, newest first.

        Args:
            verdict: only those: an opinion, `none`, or `error` (the target gave no answer).
        """
        return self._database.report(_replies, run_id, verdict, limit, offset)

    def number(self, run_id: int, verdict: str) -> int:
        """How many rows `replies` has of a verdict."""
        return self._database.report(_number, run_id, verdict)

    def set_person(self, reply_id: int, verdict: Opinion | None, actor: str, at: float) -> ShadowReply:
        """Stores what a person says, with an audit row; None takes it back. Raises `NotFound`."""
        stored: ShadowReply = self._database.write(
            audit.one_at_a_time, _set_person, reply_id, verdict, actor, time_text(at)
        )
        return stored

    def claim_look(self, run: Run, looks: int, looked_id: int) -> bool:
        """Notes that the run has been weighed; False where another worker was faster."""
        return self._database.write(_claim_look, run.id, run.looks, looks, looked_id)

    def flag(self, run_id: int, reason: str | None) -> None:
        """What is wrong with a run that goes on; None: nothing any more."""
        self._database.write(_flag, run_id, reason)

    def spent_since(self, at: str) -> int:
        """What targets and judges have cost since then, as far as it is known; in nano-USD."""
        return self._database.read(_spent_since, at)


def as_run(row: Any, counts: Mapping[str, int] | None = None, samples: int = 0) -> Run:
    """A row as a value."""
    return Run(
        id=row.id, role=row.role, primary=row.primary_model, target=row.target_model, kind=row.kind, state=row.state,
        began_at=row.began_at, ended_at=row.ended_at, ended_by=row.ended_by, reason=row.reason,
        former_pin=row.former_pin, watches=row.watches, looks=row.looks, looked_id=row.looked_id,
        samples=samples, counts=counts,
    )  # fmt: skip


def begin(role: str, primary: str, target: str, at: str, kind: Kind = "trial", watches: int | None = None) -> Any:
    """Begins a run, and ends the role's other ones. Inside `Database.write`, within `one_at_a_time`; its row."""
    row: Any = ShadowRunRow
    others = (row.role == role) & (row.state == "running")
    row.update(state="ended", ended_at=at, reason="Another target or pin has taken its place.").where(others).execute()
    return row.create(
        role=role, primary_model=primary, target_model=target, kind=kind, state="running", began_at=at,
        watches=watches, looks=0, looked_id=0,
    )  # fmt: skip


# -- what runs inside `Database.read` and `Database.write` ------------------------------------------------


def _running(role: str, primary: str, target: str) -> Any:
    row: Any = ShadowRunRow
    wanted = (row.role == role) & (row.state == "running")
    return row.get_or_none(wanted & (row.primary_model == primary) & (row.target_model == target))


def _follow_pins(primaries: Mapping[str, str], at: str) -> None:
    row: Any = ShadowRunRow
    lost = row.role.not_in(list(primaries)) & (row.state == "running")
    row.update(state="ended", ended_at=at, reason="The configuration has no such role any more.").where(lost).execute()
    for role, default in primaries.items():
        primary, target = _pin(f"model.{role}") or default, _pin(f"model.{role}.target")
        if target is None or target == primary:
            gone = (row.role == role) & (row.state == "running")
            row.update(state="ended", ended_at=at, reason="The target was taken away.").where(gone).execute()
        elif _running(role, primary, target) is None:
            begin(role, primary, target, at)


def _run_of(role: str, primary: str, target: str, at: str) -> Any:
    """The run of a row; None: it is of none."""
    return _running(role, primary, target) or audit.one_at_a_time(_begun, role, primary, target, at)


def _begun(role: str, primary: str, target: str, at: str) -> Any:
    found = _running(role, primary, target)  # another worker may have begun it meanwhile
    if found is not None:
        return found
    if _pin(f"model.{role}.target") == target and _pin(f"model.{role}") in (None, primary):
        return begin(role, primary, target, at)
    row: Any = ShadowRunRow
    pair = (row.role == role) & (row.primary_model == primary) & (row.target_model == target)
    return row.select().where(pair).order_by(row.id.desc()).first()


def _pin(key: str) -> str | None:
    row = ConfigRow.get_or_none(ConfigRow.key == key)
    return None if row is None else str(row.value)


def _add(reply: ShadowReply) -> None:
    primary, target = reply.primary, reply.target
    run = _run_of(reply.role, primary.model, target.model, reply.created_at)
    if run is None:
        return
    values = {name: getattr(reply, name) for name in OWN_COLUMNS if name not in ("id", "run_id")}
    for side, name in ((primary, "primary"), (target, "target")):
        values |= {f"{name}_{column}": getattr(side, column) for column in SIDE_COLUMNS}
    row = {name: _clean(value) for name, value in values.items()}
    ShadowReplyRow.insert(**row, run_id=run.id).on_conflict_ignore().execute()


def _runs(limit: int, state: str | None) -> list[Run]:
    row: Any = ShadowRunRow
    query = row.select().order_by((row.state == "running").desc(), row.id.desc()).limit(limit)
    found = list(query if state is None else query.where(row.state == state))
    counts = _counts([one.id for one in found])
    return [as_run(one, counts.get(one.id, {}), sum(counts.get(one.id, {}).values())) for one in found]


def _run(run_id: int) -> Run:
    row = ShadowRunRow.get_or_none(ShadowRunRow.id == run_id)
    if row is None:
        raise NotFound(f"There is no shadow run {run_id}.")
    counts = _counts([run_id]).get(run_id, {})
    return as_run(row, counts, sum(counts.values()))


def _counts(run_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Rows by run and verdict; `none` for those without."""
    row: Any = ShadowReplyRow
    query = row.select(row.run_id, row.person, row.opinion, fn.COUNT(row.id)).where(row.run_id.in_(list(run_ids)))
    counts: dict[int, dict[str, int]] = {}
    for run_id, person, opinion, number in query.group_by(row.run_id, row.person, row.opinion).tuples():
        of_run, name = counts.setdefault(run_id, {}), person or opinion or "none"
        of_run[name] = of_run.get(name, 0) + int(number)
    return counts


def _pairs(run_id: int, after: int, limit: int) -> list[Pair]:
    row: Any = ShadowReplyRow
    query = (
        row.select(
            fn.COALESCE(row.person, row.opinion), row.primary_latency_ms, row.target_latency_ms, row.primary_nanousd,
            row.target_nanousd, row.primary_error.is_null(False), row.target_error.is_null(False), row.id,
        )
        .where(row.run_id == run_id, row.id > after)
        .order_by(row.id.desc())
        .limit(limit)
    )  # fmt: skip
    names = [field.name for field in fields(Pair)]
    found = [Pair(**dict(zip(names, values, strict=True))) for values in query.tuples()]
    return found[::-1]


def _replies(run_id: int, verdict: str | None, limit: int, offset: int) -> list[ShadowReply]:
    row: Any = ShadowReplyRow
    query = row.select().where(_of(run_id, verdict)).order_by(row.id.desc()).limit(limit).offset(offset)
    return [_reply(one) for one in query]


def _number(run_id: int, verdict: str) -> int:
    return int(ShadowReplyRow.select().where(_of(run_id, verdict)).count())


def _of(run_id: int, verdict: str | None) -> Any:
    row: Any = ShadowReplyRow
    if verdict is None:
        return row.run_id == run_id
    if verdict == "error":
        return (row.run_id == run_id) & row.target_error.is_null(False)
    return (row.run_id == run_id) & (fn.COALESCE(row.person, row.opinion, "none") == verdict)


def _set_person(reply_id: int, verdict: Opinion | None, actor: str, at: str) -> ShadowReply:
    row: Any = ShadowReplyRow.get_or_none(ShadowReplyRow.id == reply_id)
    if row is None:
        raise NotFound(f"There is no shadow sample {reply_id}.")
    if verdict is not None and verdict not in OPINIONS:
        raise InvalidRequest(f"verdict must be one of {', '.join(OPINIONS)}, or null.", param="verdict")
    before = row.person
    if before != verdict:
        row.person, row.person_by = verdict, actor if verdict is not None else None
        row.save(only=[ShadowReplyRow.person, ShadowReplyRow.person_by])
        target = f"{row.request_id}"
        audit.note(at, actor, "shadow.verdict", target, {"verdict": before}, {"verdict": verdict})
    return _reply(row)


def _claim_look(run_id: int, before: int, looks: int, looked_id: int) -> bool:
    row: Any = ShadowRunRow
    own = (row.id == run_id) & (row.looks == before) & (row.state == "running")
    return bool(row.update(looks=looks, looked_id=looked_id).where(own).execute())


def _flag(run_id: int, reason: str | None) -> None:
    row: Any = ShadowRunRow
    row.update(reason=reason).where((row.id == run_id) & (row.state == "running")).execute()


def _spent_since(at: str) -> int:
    row: Any = ShadowReplyRow
    sums = row.select(fn.COALESCE(fn.SUM(row.target_nanousd), 0), fn.COALESCE(fn.SUM(row.judge_nanousd), 0))
    return sum(int(value) for value in sums.where(row.created_at >= at).tuples().get())


def _reply(row: Any) -> ShadowReply:
    sides = [
        Side(**{column: getattr(row, f"{name}_{column}") for column in SIDE_COLUMNS}) for name in ("primary", "target")
    ]
    own = {name: getattr(row, name) for name in OWN_COLUMNS}
    return ShadowReply(**own, primary=sides[0], target=sides[1])


def _clean(value: Any) -> Any:
    """Without what Postgres refuses: NUL characters, and halves of surrogate pairs."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
