"""Whether a newly fitted surrogate may replace the one that decides: it must be better, on rows that neither has seen.

Better than the simplest ideas (the length of the text, always the same tier), and than the live one: more of the
traffic decided as the teacher would, at an agreement that keeps the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hermes.errors import HermesError
from hermes.types import Tier, Verdict

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_NEW_ROWS: Final = 50
"""Fewer rows that the live one has not been fitted on say nothing about it."""


class NotBetter(HermesError):
    """The new surrogate does not replace the live one; the text says why."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one surrogate would have done with the rows."""

    accepted: float
    """The share that it would decide."""

    agreement: float
    """The share of that which is as the teacher decides."""

    @property
    def useful(self) -> float:
        """The share that it would decide as the teacher does."""
        return self.accepted * self.agreement

    def __str__(self) -> str:
        return f"{self.accepted:.1%} decided, {self.agreement:.1%} of it as the teacher does"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the gate saw."""

    rows: int
    live: str
    live_share: Share
    new_share: Share
    accuracy: float
    by_length: float
    majority: float

    def shown(self) -> dict[str, Any]:
        """For manifests and JSON."""
        return {
            name: _rounded(value) if isinstance(value, float | dict) else value for name, value in asdict(self).items()
        }


def share(accepted: Bools, right: Bools, weights: Floats) -> Share:
    """The share of weighted rows."""
    whole = float(weights.sum())
    part = float(weights[accepted].sum())
    return Share(part / whole if whole else 0.0, float(weights[accepted & right].sum()) / part if part else 0.0)


def decisions(
    texts: Sequence[str],
    is_complex: Bools,
    judge: Callable[[str], Verdict],
    threshold_of: Callable[[Tier], float],
    reconsider: Callable[[str], Verdict | None] = lambda text: None,
) -> tuple[Bools, Bools]:
    """Which texts a surrogate would decide, and which of its verdicts are right."""
    accepted, right = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
    for at, text in enumerate(texts):
        verdict = judge(text)
        if (verdict.confidence or 0.0) < threshold_of(verdict.tier):
            verdict = reconsider(text) or verdict
        accepted[at] = (verdict.confidence or 0.0) >= threshold_of(verdict.tier)
        right[at] = (verdict.tier == "complex") == is_complex[at]
    return accepted, right


def check(outcome: Outcome, target: float) -> None:
    """
    Raises:
        NotBetter: with the sentence for the operator.
    """
    for name, simple in (("the length of the text alone", outcome.by_length), ("the commoner tier", outcome.majority)):
        if outcome.accuracy <= simple:
            raise NotBetter(
                f"Nothing was replaced: the new surrogate is right in {outcome.accuracy:.1%} of cases, "
                f"and {name} is in {simple:.1%}."
            )
    live, new = outcome.live_share, outcome.new_share
    if live.accepted and live.agreement >= target and new.useful <= live.useful:
        raise NotBetter(
            f"Nothing was replaced: on {outcome.rows} rows that neither has seen, the live surrogate {outcome.live} is "
            f"not worse ({live}) than the new one ({new})."
        )


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value
