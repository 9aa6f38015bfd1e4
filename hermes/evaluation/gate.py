"""Whether a target may take the pinned model's place: five criteria, each with a bound on what chance could have done.

A criterion passes when even the unfavourable end of its interval keeps the rule, fails when even the favourable end
breaks it, and is open in between. Nothing is decided by a figure alone: 9 wins of 10 are 0.9, and may well be 0.6.

* **Samples**: rows with a verdict.
* **Win or tie**: their share; exact bounds of Clopper and Pearson. An answer that failed where the other model gave
  one has lost.
* **Latency**: the ratio of both 95th percentiles, by the nearest rank. The spread of each logarithm is that of Maritz
  and Jarrett, which is what resampling without end would give; so no chance is in it, and the same rows give the same
  bounds.
* **Cost**: the ratio of both sums over rows where both prices are known; the spread is the usual one of a ratio of
  paired sums, by linearisation, of its logarithm, as costs are skewed.
* **Errors**: the share of calls in which the target gave no answer; exact bounds again.

Source: Maritz and Jarrett, J. Am. Stat. Assoc. 73 (1978), 194-196; Cochran, Sampling Techniques, 6.4.

Held against 1,500 simulated runs of each of 50 to 200 rows that stand exactly on a rule, with skewed sizes: win or tie,
latency and errors pass wrongly in 2 to 4 of 100, cost in 6 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final, Literal

from hermes.bounds import DELTA, beta_share, lower_bound, upper_bound
from hermes.policy import GatePolicy
from hermes.trials import Pair

Standing = Literal["passed", "failed", "open"]

PERCENTILE: Final = 0.95
FEWEST_TIMES: Final = 20
"""Below, a 95th percentile is the slowest of a handful, and its spread a guess."""

FEWEST_COSTS: Final = 10
REACH: Final = 8.0
"""How many standard deviations round a rank are looked at; what is further away has no weight."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One rule, and how the target stands to it."""

    name: str
    """`samples`, `win_or_tie`, `p95_latency_ratio`, `cost_ratio`, `error_rate`."""

    standing: Standing
    value: float | None
    """None: there is nothing to reckon it from."""

    lower: float | None
    upper: float | None
    rule: float
    is_floor: bool
    """The value must not be below the rule; else not above."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Gate:
    """What the gate says of a run."""

    standing: Standing
    criteria: tuple[Criterion, ...]
    sentence: str

    def shown(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "standing": self.standing,
            "sentence": self.sentence,
            "criteria": [
                {
                    "name": one.name,
                    "standing": one.standing,
                    "value": one.value,
                    "lower": one.lower,
                    "upper": one.upper,
                    "rule": one.rule,
                    "sentence": one.sentence,
                }
                for one in self.criteria
            ],
        }


def weigh(pairs: Sequence[Pair], rules: GatePolicy, delta: float = DELTA, who: str = "The target") -> Gate:
    """The gate's verdict on the rows of a run.

    Args:
        delta: each bound of each criterion is wrong in so many of all cases at most.
        who: is weighed, at the beginning of a sentence.

    Blocks: about 10 ms for 2,000 rows.
    """
    judged = [pair for pair in pairs if pair.verdict is not None]
    criteria = (
        _samples(len(judged), rules.min_samples),
        _win_or_tie(judged, rules.min_win_or_tie, delta, who),
        _latency(pairs, rules.max_p95_latency_ratio, delta),
        _cost(pairs, rules.max_cost_ratio, delta),
        _errors(pairs, rules.max_error_rate, delta, who),
    )
    failed = [one for one in criteria if one.standing == "failed"]
    if len(judged) < rules.min_samples:
        return Gate("open", criteria, criteria[0].sentence)
    if failed:
        return Gate("failed", criteria, " ".join(one.sentence for one in failed))
    still_open = [one for one in criteria if one.standing == "open"]
    if still_open:
        return Gate("open", criteria, " ".join(one.sentence for one in still_open))
    return Gate("passed", criteria, f"All {len(criteria)} criteria pass.")


def turned(pair: Pair) -> Pair:
    """The same row, told from the other side."""
    return replace(
        pair,
        verdict={"better": "worse", "worse": "better", "tie": "tie", None: None}[pair.verdict],
        primary_ms=pair.target_ms,
        target_ms=pair.primary_ms,
        primary_nanousd=pair.target_nanousd,
        target_nanousd=pair.primary_nanousd,
        primary_failed=pair.target_failed,
        target_failed=pair.primary_failed,
    )


# -- the criteria -----------------------------------------------------------------------------------------


def _samples(judged: int, least: int) -> Criterion:
    standing: Standing = "passed" if judged >= least else "open"
    sentence = f"{judged:,} sample{' has' if judged == 1 else 's have'} a verdict, at least {least:,} are wanted."
    return Criterion("samples", standing, judged, None, None, least, True, sentence)


def _win_or_tie(judged: Sequence[Pair], least: float, delta: float, who: str) -> Criterion:
    number = len(judged)
    if not number:
        return _without("win_or_tie", least, True, "No sample has a verdict yet.")
    good = sum(pair.verdict != "worse" for pair in judged)
    lower, upper = lower_bound(good, number, delta), upper_bound(good, number, delta)
    sentence = (
        f"{who} wins or ties in {good:,} of {number:,} samples: {_percent(good / number)}, "
        f"surely {_percent(lower)} to {_percent(upper)}; at least {_percent(least)} are wanted."
    )
    return Criterion(
        "win_or_tie", _against_floor(lower, upper, least), good / number, lower, upper, least, True, sentence
    )


def _errors(pairs: Sequence[Pair], most: float, delta: float, who: str) -> Criterion:
    number = len(pairs)
    if not number:
        return _without("error_rate", most, False, f"{who} has not been called yet.")
    failed = sum(pair.target_failed for pair in pairs)
    lower, upper = lower_bound(failed, number, delta), upper_bound(failed, number, delta)
    sentence = (
        f"{who} gave no answer in {failed:,} of {number:,} calls: {_percent(failed / number)}, "
        f"surely {_percent(lower)} to {_percent(upper)}; at most {_percent(most)} are allowed."
    )
    standing = _against_ceiling(lower, upper, most)
    return Criterion("error_rate", standing, failed / number, lower, upper, most, False, sentence)


def _latency(pairs: Sequence[Pair], most: float, delta: float) -> Criterion:
    name = "p95_latency_ratio"
    both = [
        (pair.primary_ms, pair.target_ms)
        for pair in pairs
        if pair.primary_ms and pair.target_ms and not pair.primary_failed and not pair.target_failed
    ]
    if len(both) < FEWEST_TIMES:
        text = f"{len(both)} samples have both latencies; {FEWEST_TIMES} are needed to compare 95th percentiles."
        return _without(name, most, False, text)
    primary, primary_spread = percentile([math.log(one) for one, _ in both])
    target, target_spread = percentile([math.log(other) for _, other in both])
    width = NormalDist().inv_cdf(1 - delta) * math.hypot(primary_spread, target_spread)
    ratio = math.exp(target - primary)
    lower, upper = ratio * math.exp(-width), ratio * math.exp(width)
    sentence = (
        f"Its 95th percentile is {math.exp(target):,.0f} ms against {math.exp(primary):,.0f} ms: {ratio:.2f} times, "
        f"surely {lower:.2f} to {upper:.2f}; at most {most:g} are allowed."
    )
    return Criterion(name, _against_ceiling(lower, upper, most), ratio, lower, upper, most, False, sentence)


def _cost(pairs: Sequence[Pair], most: float, delta: float) -> Criterion:
    name = "cost_ratio"
    both = [
        (pair.primary_nanousd, pair.target_nanousd)
        for pair in pairs
        if pair.primary_nanousd is not None and pair.target_nanousd is not None
    ]
    if len(both) < FEWEST_COSTS or not sum(one for one, _ in both):
        text = f"{len(both)} samples have both costs; a ratio needs {FEWEST_COSTS}, and two known prices."
        return _without(name, most, False, text)
    number = len(both)
    primary, target = sum(one for one, _ in both) / number, sum(other for _, other in both) / number
    ratio = target / primary
    squares = sum((other - ratio * one) ** 2 for one, other in both)
    spread = math.sqrt(squares / (number - 1) / number) / max(target, 1e-9)
    width = student(1 - delta, number - 1) * spread
    lower, upper = ratio * math.exp(-width), ratio * math.exp(width)
    sentence = (
        f"It costs ${target / 1e9:.6f} a request against ${primary / 1e9:.6f}: {ratio:.2f} times, "
        f"surely {lower:.2f} to {upper:.2f}; at most {most:g} are allowed."
    )
    return Criterion(name, _against_ceiling(lower, upper, most), ratio, lower, upper, most, False, sentence)


# -- the reckoning ----------------------------------------------------------------------------------------


def percentile(values: Sequence[float], share: float = PERCENTILE) -> tuple[float, float]:
    """The percentile by its nearest rank, and its standard error by Maritz and Jarrett.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)[0]
    2.0
    """
    number = len(values)
    ordered = sorted(values)
    rank = max(1, math.ceil(share * number - 1e-9))
    reach = math.ceil(REACH * math.sqrt(number * share * (1 - share)) + 2)
    below = max(0, rank - reach)
    first = second = 0.0
    before = beta_share(below / number, rank, number - rank + 1)
    for position in range(below, min(number, rank + reach)):
        after = beta_share((position + 1) / number, rank, number - rank + 1)
        off = ordered[position] - ordered[rank - 1]
        first += (after - before) * off
        second += (after - before) * off**2
        before = after
    return ordered[rank - 1], math.sqrt(max(0.0, second - first**2))


def student(share: float, freedom: int) -> float:
    """The quantile of Student's distribution, by the first term of Fisher's expansion; right to 0.01 from ten on.

    >>> round(student(0.95, 49), 3)
    1.676
    """
    z = NormalDist().inv_cdf(share)
    return z + (z**3 + z) / (4 * freedom)


def _against_floor(lower: float, upper: float, rule: float) -> Standing:
    return "passed" if lower >= rule else "failed" if upper < rule else "open"


def _against_ceiling(lower: float, upper: float, rule: float) -> Standing:
    return "passed" if upper <= rule else "failed" if lower > rule else "open"


def _without(name: str, rule: float, is_floor: bool, sentence: str) -> Criterion:
    return Criterion(name, "open", None, None, None, rule, is_floor, sentence)


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
