"""The shadow page: is the target good enough to promote? Runs, one run's gate, and its samples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes.evaluation.gate import Gate
from hermes.trials import OPINIONS, Pair, Run
from hermes.web.dashboard.views.attention import Sentence
from hermes.web.dashboard.views.shadow_gate import Cost, Rule, Times, costs_of, rule_of, times_of
from hermes.web.dashboard.views.shadow_sample import SamplePane

FILTERS: Final = {"": "All", "better": "Better", "tie": "Tie", "worse": "Worse", "error": "Errors"}
STATES: Final = {
    "promoted": ("promoted", "ok"),
    "rejected": ("rejected", "line"),
    "rolled_back": ("rolled back", "warn"),
    "ended": ("ended", "line"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    run_id: int | None = None
    verdict: str = ""
    at: int = 1
    """Which of the samples, from 1 on, the newest first."""

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """What cannot be read is left out."""
        verdict = args.get("verdict", "")
        return cls(
            _number(args.get("run", "")), verdict if verdict in FILTERS else "", _number(args.get("at", "")) or 1
        )

    def query(self, **changes: Any) -> dict[str, str]:
        """The address's query, without what is as usual."""
        values = {"run": self.run_id, "verdict": self.verdict, "at": self.at, **changes}
        return {name: str(value) for name, value in values.items() if value and not (name == "at" and value == 1)}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the bar of verdicts, in percent."""

    opinion: str
    start: float
    length: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list."""

    id: int
    role: str
    name: str
    """The model that it is about."""

    label: str
    kind: str
    """Of its label: `ok`, `warn`, `bad`, `line` or nothing."""

    judged: int
    of: int
    counts: Mapping[str, int]
    bar: tuple[Piece, ...]
    is_watch: bool
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Pane:
    """The run that is open."""

    run: Run
    gate: Gate
    rules: tuple[Rule, ...]
    passed: int
    counts: Mapping[str, int]
    bar: tuple[Piece, ...]
    times: tuple[Times | None, Times | None]
    costs: tuple[Cost | None, Cost | None]
    subject: str
    """`B`, the target; in a watch `A`, the model that was promoted."""

    can_promote: bool
    can_reject: bool
    roll_back_id: int | None


@dataclass(frozen=True, slots=True)
class ShadowView:
    """The whole page."""

    wanted: Wanted
    rows: tuple[RunRow, ...]
    pane: Pane | None
    sample: SamplePane | None
    number: int
    """Of samples that fit the filter."""

    judge: str
    sampling: tuple[tuple[str, float], ...]
    """Roles with a target, and the share of their calls."""

    auto_promote: bool
    spent: str
    limit: str
    depth: int
    dropped: tuple[tuple[str, int], ...]
    trouble: str = ""


def row_of(run: Run, gate: Gate | None, min_samples: int, open_id: int | None) -> RunRow:
    """A run in the list."""
    label, kind = label_of(run, gate)
    counts = counts_of(run)
    judged = sum(counts.values())
    name = run.primary if run.kind == "watch" else run.target
    return RunRow(
        run.id, run.role, name, label, kind, judged, min_samples, counts, _bar(run, max(judged, min_samples)),
        run.kind == "watch", run.id == open_id,
    )  # fmt: skip


def label_of(run: Run, gate: Gate | None) -> tuple[str, str]:
    """How a run stands, in a word, and how that looks."""
    if not run.is_running:
        return STATES[run.state]
    standing = gate.standing if gate is not None else "open"
    if run.kind == "watch":
        return ("regression", "bad") if standing == "failed" or run.reason else ("watched", "")
    return {"passed": ("ready", "ok"), "failed": ("failing", "bad"), "open": ("running", "")}[standing]


def sentence_of(run: Run, gate: Gate | None) -> Sentence | None:
    """What the overview says of a run that somebody should decide on; None where there is nothing to decide."""
    label, _ = label_of(run, gate)
    href = f"/dashboard/shadow?run={run.id}"
    if label == "regression":
        said = run.reason or (gate.sentence if gate is not None else "")
        return Sentence(
            f"run-{run.id}", "bad", f"{run.primary} does worse for model.{run.role} than {run.target} did.",
            said, label="Review", href=href,
        )  # fmt: skip
    if label != "ready":
        return None
    counts = counts_of(run)
    judged = sum(counts.values())
    even = (counts["better"] + counts["tie"]) / judged if judged else 0.0
    return Sentence(
        f"run-{run.id}", "idle", f"{run.target} passed the gate for model.{run.role}.",
        f"{judged:,} judged, {even:.1%} win or tie.", label="Review", href=href,
    )  # fmt: skip


def pane_of(run: Run, gate: Gate, pairs: Sequence[Pair], roll_back_id: int | None) -> Pane:
    """The run that is open."""
    counts = counts_of(run)
    is_watch = run.kind == "watch"
    return Pane(
        run=run,
        gate=gate,
        rules=tuple(rule_of(one, pairs, is_watch) for one in gate.criteria),
        passed=sum(one.standing == "passed" for one in gate.criteria),
        counts=counts,
        bar=_bar(run, sum(counts.values())),
        times=times_of(pairs),
        costs=costs_of(pairs),
        subject="A" if is_watch else "B",
        can_promote=run.is_running and not is_watch,
        can_reject=run.is_running,
        roll_back_id=roll_back_id,
    )


def counts_of(run: Run) -> dict[str, int]:
    """How many verdicts there are of each kind."""
    return {opinion: (run.counts or {}).get(opinion, 0) for opinion in OPINIONS}


def _bar(run: Run, of: int) -> tuple[Piece, ...]:
    pieces, start = [], 0.0
    for opinion in OPINIONS:
        length = 100.0 * (run.counts or {}).get(opinion, 0) / max(1, of)
        if length:
            pieces.append(Piece(opinion, round(start, 3), round(length, 3)))
        start += length
    return tuple(pieces)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else None
