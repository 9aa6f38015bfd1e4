"""The gate of a shadow run as people read it: times and money where the gate has ratios, and how far bars reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hermes.bounds import DELTA
from hermes.evaluation.gate import PERCENTILE, Criterion, percentile
from hermes.trials import Pair
from hermes.web.dashboard.marks import duration_text, money_text, share_text

ROOM: Final = 1.25
"""How much further a bar reaches than the greater of value and rule."""

NAMES: Final = {
    "samples": "Judged samples",
    "win_or_tie": "Win or tie",
    "p95_latency_ratio": "Latency p95",
    "cost_ratio": "Cost per request",
    "error_rate": "Calls without an answer",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A criterion of the gate."""

    name: str
    standing: str
    value: str
    rule: str
    bounds: str
    sentence: str
    percent: float
    tick: float | None


@dataclass(frozen=True, slots=True)
class Times:
    """One side's latencies, as text and in percent of the longest."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Cost:
    """One side's cost per request."""

    text: str
    percent: float


def rule_of(one: Criterion, pairs: Sequence[Pair], is_watch: bool) -> Rule:
    """A criterion as the page shows it; in a watch it is the promoted model that is weighed."""
    value, rule, bounds = _texts(one, pairs, is_watch)
    if one.name in ("win_or_tie", "error_rate"):
        full = 1.0 if one.name == "win_or_tie" else ROOM * max(one.rule, one.value or 0.0, 1e-9)
    elif one.name == "samples":
        full = one.rule
    else:
        full = ROOM * max(one.rule, one.value or 0.0)
    percent = min(100.0, 100.0 * (one.value or 0.0) / full)
    tick = None if one.name == "samples" else round(100.0 * one.rule / full, 2)
    return Rule(NAMES[one.name], one.standing, value, rule, bounds, one.sentence, round(percent, 2), tick)


def _texts(one: Criterion, pairs: Sequence[Pair], is_watch: bool) -> tuple[str, str, str]:
    """Value, rule and bounds, as people read them."""
    word = "at least" if one.is_floor else "at most"
    if one.name == "samples":
        return f"{one.value or 0:,.0f}", f"{word} {one.rule:,.0f}", ""
    if one.value is None or one.lower is None or one.upper is None:
        rule = share_text(one.rule) if one.name in ("win_or_tie", "error_rate") else f"{one.rule:g} times"
        return "", f"{word} {rule}", one.sentence
    if one.name in ("win_or_tie", "error_rate"):
        bounds = f"surely {one.lower * 100:.1f}% to {one.upper * 100:.1f}%"
        return f"{one.value * 100:.1f}%", f"{word} {share_text(one.rule)}", bounds
    base = "B" if is_watch else "A"
    bounds = f"{one.value:.2f} times {base}, surely {one.lower:.2f} to {one.upper:.2f}"
    primary, target = _both(one.name, pairs)
    weighed, against = (primary, target) if is_watch else (target, primary)
    text = duration_text if one.name == "p95_latency_ratio" else money_text
    return text(weighed), f"{word} {text(against * one.rule)}", bounds


def _both(name: str, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Both sides' figure behind a ratio: milliseconds, or dollars a request."""
    if name == "p95_latency_ratio":
        primary, target = _latencies(pairs)
        return percentile(primary, PERCENTILE)[0], percentile(target, PERCENTILE)[0]
    costs = [(p.primary_nanousd, p.target_nanousd) for p in pairs]
    known = [(a, b) for a, b in costs if a is not None and b is not None]
    return sum(a for a, _ in known) / len(known) / 1e9, sum(b for _, b in known) / len(known) / 1e9


def _latencies(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    both = [
        (p.primary_ms, p.target_ms)
        for p in pairs
        if p.primary_ms and p.target_ms and not p.primary_failed and not p.target_failed
    ]
    return [a for a, _ in both], [b for _, b in both]


def times_of(pairs: Sequence[Pair]) -> tuple[Times | None, Times | None]:
    """Both sides' latencies; None where no sample has both."""
    sides = _latencies(pairs)
    if not sides[0]:
        return None, None
    spans = [(percentile(side, 0.5)[0], percentile(side, PERCENTILE)[0]) for side in sides]
    longest = ROOM * max(end for _, end in spans)
    primary, target = (
        Times(f"{duration_text(a)} to {duration_text(b)}", round(100 * a / longest, 2), round(100 * b / longest, 2))
        for a, b in spans
    )
    return primary, target


def costs_of(pairs: Sequence[Pair]) -> tuple[Cost | None, Cost | None]:
    """Both sides' cost per request; None where a price is unknown."""
    if not any(p.primary_nanousd is not None and p.target_nanousd is not None for p in pairs):
        return None, None
    both = _both("cost_ratio", pairs)
    most = max(*both, 1e-12)
    primary, target = (Cost(money_text(usd), round(100 * usd / most, 2)) for usd in both)
    return primary, target


def sure(delta: float = DELTA) -> str:
    """How sure a bound is.

    >>> sure()
    '95%'
    """
    return share_text(1 - delta)
