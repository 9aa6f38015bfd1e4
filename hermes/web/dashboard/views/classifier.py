"""The classifier's page: can the surrogate be trusted, who decides, and does the traffic change?"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hermes.bounds import interval
from hermes.learning.report import Live
from hermes.policy import Policy
from hermes.storage.decisions import BINS, Answered, Decided, Sample
from hermes.storage.labels import Audit
from hermes.types import Tier
from hermes.web.dashboard.charts import Chart, Series
from hermes.web.dashboard.views.circuits import role_of

RANGES: Final = {"6h": 6, "24h": 24, "7d": 168}
"""Hours."""

ENOUGH_AUDITS: Final = 50
NANO: Final = 1e-9
HOUR_TEXT: Final = "%Y-%m-%dT%H"
SHOWN_MODELS: Final = 12
SHOWN_DISAGREEMENTS: Final = 6
LOWEST_SHOWN: Final = 0.5
NONE: Final = 0.5
"""Where a logarithmic axis shows that there was nothing; written, it is a 0."""

ASKED: Final = ("surrogate", "teacher", "default")
"""What decides where nobody else has: the surrogate, or whoever it leaves the decision to."""

SOURCES: Final = {
    "session": "Session cache",
    "override": "Keyword",
    "surrogate": "Surrogate",
    "teacher": "Teacher",
    "default": "Default tier",
    "header": "Forced by the caller",
    "role": "Role of the gateway",
}


@dataclass(frozen=True, slots=True)
class Source:
    """What decides, and how often for which tier."""

    label: str
    simple: int
    complex: int
    simple_percent: float
    """Of the most frequent source, for the length of its bar."""

    complex_percent: float
    share: float

    @property
    def requests(self) -> int:
        """Both tiers together."""
        return self.simple + self.complex


@dataclass(frozen=True, slots=True)
class Agreement:
    """What audits say."""

    audited: int
    agreed: int
    lower: float
    upper: float
    matrix: Mapping[tuple[str, str], int]
    """Surrogate's tier and teacher's."""

    disagreements: tuple[Audit, ...]
    """The last ones, the newest first."""

    @property
    def is_enough(self) -> bool:
        """Whether a share says anything."""
        return self.audited >= ENOUGH_AUDITS


@dataclass(frozen=True, slots=True)
class Model:
    """A row of the table of models."""

    model: str
    tier: str
    role: str
    requests: int
    share: float
    p50_ms: float | None
    p95_ms: float | None
    cost_usd: float | None
    failed: float
    course: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """What is known of a range."""

    decided: Sequence[Decided]
    answered: Sequence[Answered]
    sample: Sample
    courses: Mapping[str, Mapping[str, int]]
    """Requests by model and hour."""

    percentiles: Mapping[tuple[str, str], tuple[float | None, float | None]]
    """Median and 95th, in ms, by model and tier."""

    overhead_ms: tuple[float | None, float | None]
    live: Live
    audits: Sequence[Audit]


@dataclass(frozen=True, slots=True)
class ClassifierView:
    """The whole page."""

    range: str
    now: float
    live: Live
    classified: int
    asked: int
    hits: int
    coverage: float | None
    course: tuple[float, ...]
    """Coverage by the hour, where there was any."""

    expected: float | None
    """The coverage that was measured when the surrogate was fitted."""

    agreement: Agreement
    sample: Sample
    overhead_ms: tuple[float | None, float | None]
    sources: tuple[Source, ...]
    requests: int
    drift: Chart
    drift_says: str
    confidence: Chart
    models: tuple[Model, ...]
    fallbacks: int
    overrides: Mapping[str, int]
    teacher: str
    facts: tuple[tuple[str, str], ...]
    """Of the surrogate."""


def classifier_view(read: Read, policy: Policy, wanted: str, now: float) -> ClassifierView:
    """
    Args:
        wanted: a name of `RANGES`.
        now: seconds since 1970.
    """
    by = Counter[str]()
    for one in read.decided:
        by[one.decision] += one.requests
    asked = sum(by[name] for name in ASKED)
    hours = _hours(RANGES[wanted], now)
    coverage = _coverage(read.decided, hours)
    total = sum(by.values())
    teacher = policy.routing.teacher
    return ClassifierView(
        range=wanted,
        now=now,
        live=read.live,
        classified=asked + by["override"],
        asked=asked,
        hits=by["surrogate"],
        coverage=by["surrogate"] / asked if asked else None,
        course=tuple(value for value in coverage if value is not None),
        expected=_expected(read.live),
        agreement=_agreement(read.audits),
        sample=read.sample,
        overhead_ms=read.overhead_ms,
        sources=tuple(_sources(read.decided, total)),
        requests=total,
        drift=_drift(read.decided, hours, coverage, _expected(read.live)),
        drift_says=_drift_says(hours, coverage),
        confidence=_confidence(read.sample, read.live),
        models=tuple(_models(read, policy, hours)),
        fallbacks=sum(one.fallbacks for one in read.answered),
        overrides={tier: _number(read.decided, "override", tier) for tier in ("simple", "complex")},
        teacher="" if teacher is None else teacher.endpoint.id,
        facts=tuple(_facts(read.live)),
    )


def _hours(number: int, now: float) -> list[str]:
    last = datetime.fromtimestamp(now, UTC)
    return [(last - timedelta(hours=back)).strftime(HOUR_TEXT) for back in range(number, -1, -1)]


def _number(decided: Sequence[Decided], decision: str, tier: str) -> int:
    return sum(one.requests for one in decided if (one.decision, one.tier) == (decision, tier))


def _coverage(decided: Sequence[Decided], hours: Sequence[str]) -> list[float | None]:
    """The share that the surrogate decided in each hour, in percent."""
    hits, asked = Counter[str](), Counter[str]()
    for one in decided:
        if one.decision in ASKED:
            asked[one.hour] += one.requests
            hits[one.hour] += one.requests if one.decision == "surrogate" else 0
    return [round(100 * hits[hour] / asked[hour], 2) if asked[hour] else None for hour in hours]


def _sources(decided: Sequence[Decided], total: int) -> list[Source]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in decided:
        counts[one.decision][one.tier] += one.requests
    most = max((tiers.total() for tiers in counts.values()), default=1)
    names = [name for name in SOURCES if name in counts or name in ("session", "override", "surrogate", "teacher")]
    names += [name for name in counts if name not in SOURCES]
    return [
        Source(
            SOURCES.get(name, name),
            counts[name]["simple"],
            counts[name]["complex"],
            round(100 * counts[name]["simple"] / most, 2),
            round(100 * counts[name]["complex"] / most, 2),
            counts[name].total() / total if total else 0.0,
        )
        for name in names
    ]


def _agreement(audits: Sequence[Audit]) -> Agreement:
    agreed = sum(audit.agrees for audit in audits)
    lower, upper = interval(agreed, len(audits)) if audits else (0.0, 1.0)
    matrix = Counter((audit.surrogate_tier, audit.teacher_tier) for audit in audits)
    wrong = [audit for audit in reversed(audits) if not audit.agrees]
    return Agreement(len(audits), agreed, lower, upper, matrix, tuple(wrong[:SHOWN_DISAGREEMENTS]))


def _expected(live: Live) -> float | None:
    about = live.about or {}
    share = (about.get("certificate") or {}).get("coverage")
    return share if share is not None else (about.get("cross_validation") or {}).get("accepted")


def _drift(
    decided: Sequence[Decided], hours: Sequence[str], coverage: Sequence[float | None], expected: float | None
) -> Chart:
    volume = Counter[str]()
    for one in decided:
        if one.decision in ASKED:
            volume[one.hour] += one.requests
    lowest = min((value for value in (*coverage, 100 * (expected or 1)) if value is not None), default=70)
    floor = max(0, 10 * int(min(lowest - 5, 70) // 10))
    line = {"type": "line", "xref": "paper", "yref": "y2", "x0": 0, "x1": 1, "meta": "target"}
    shapes = [] if expected is None else [{**line, "y0": 100 * expected, "y1": 100 * expected}]
    most = max(volume.values(), default=1)
    return Chart(
        "Hour",
        [f"{hour}:00:00Z" for hour in hours],
        [
            Series("Decisions", [volume[hour] for hour in hours], "volume", "bars"),
            Series("Coverage", coverage, "line", unit="%", digits=1, axis="y2", has_dots=True),
        ],
        layout={
            "yaxis": {"visible": False, "range": [0, 4 * most], "fixedrange": True},
            "yaxis2": {"overlaying": "y", "side": "left", "range": [floor, 100], "ticksuffix": "%", "dtick": 10},
            "shapes": shapes,
        },
    )


def _drift_says(hours: Sequence[str], coverage: Sequence[float | None]) -> str:
    known = [(value, hour) for value, hour in zip(coverage, hours, strict=True) if value is not None]
    if not known:
        return "Coverage by hour: nothing was classified in this range"
    low, at = min(known)
    return f"Coverage by hour: lowest {low:.1f} percent at {at[11:]}:00 UTC, lastly {known[-1][0]:.1f} percent"


def _confidence(sample: Sample, live: Live) -> Chart:
    first = int(LOWEST_SHOWN * BINS)
    x = [round((place + 0.5) / BINS, 4) for place in range(first, BINS)]
    threshold = min((live.thresholds or {}).values(), default=None)
    line = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "meta": "target"}
    shapes = [{**line, "x0": threshold, "x1": threshold}] if threshold is not None and threshold <= 1 else []
    tiers: tuple[Tier, ...] = ("simple", "complex")
    return Chart(
        "Confidence",
        x,
        [
            Series(
                tier.capitalize(), [n or NONE for n in sample.confidence.get(tier, (0,) * BINS)[first:]], tier, "steps"
            )
            for tier in tiers
        ],
        layout={
            "yaxis": {"type": "log", "dtick": 1, "rangemode": "normal", "range": [-0.31, _height(sample)]},
            "xaxis": {"range": [LOWEST_SHOWN, 1], "dtick": 0.1},
            "shapes": shapes,
        },
    )


def _height(sample: Sample) -> float:
    """Where the logarithmic axis ends: a little above the highest bin, ten at least."""
    most = max((max(bins) for bins in sample.confidence.values()), default=1)
    return round(math.log10(max(10, most)) + 0.1, 2)


def _models(read: Read, policy: Policy, hours: Sequence[str]) -> list[Model]:
    total = sum(one.requests for one in read.answered) or 1
    return [
        Model(
            one.model,
            one.tier,
            _role(policy, one),
            one.requests,
            one.requests / total,
            *read.percentiles.get((one.model, one.tier), (None, None)),
            one.nanousd * NANO if one.unpriced < one.counted or not one.counted else None,
            one.failed / one.requests if one.requests else 0.0,
            tuple(read.courses.get(one.model, {}).get(hour, 0) for hour in hours),
        )
        for one in read.answered[:SHOWN_MODELS]
    ]


def _role(policy: Policy, one: Answered) -> str:
    """What the model is in its tier's cascade; empty where it is not in it (any more)."""
    cascade = policy.cascades.get(one.tier)  # type: ignore[call-overload]  # a tier of the log, whatever it is
    levels = [level for level, entry in enumerate(cascade.endpoints) if entry.model == one.model] if cascade else []
    return role_of(levels[0]) if levels else ""


def _facts(live: Live) -> list[tuple[str, str]]:
    """What is to be known of the surrogate, as far as its manifest has it."""
    about = live.about or {}
    counts, quality = about.get("counts") or {}, about.get("cross_validation") or {}
    certificate = about.get("certificate") or {}
    facts = [
        ("Version", live.version or ""),
        ("Method", str(about.get("method", ""))),
        ("Fitted", f"{str(about.get('made_at', ''))[:16].replace('T', ' ')} UTC" if about.get("made_at") else ""),
        ("Rows", f"{counts['rows']:,}" if isinstance(counts.get("rows"), int) else ""),
        ("Cross-validated accuracy", _percent(quality.get("accuracy"))),
        ("Certified agreement, at least", _percent(certificate.get("lower"))),
        ("Decides from", _thresholds(live)),
        ("Wanted agreement", _percent(live.target)),
        ("Audited", f"{live.audit_rate:.1%} of its decisions, more on quiet days" if live.audit_rate else "nothing"),
    ]
    return [(name, value) for name, value in facts if value]


def _thresholds(live: Live) -> str:
    values = live.thresholds or {}
    if len({round(value, 4) for value in values.values()}) == 1:
        return _level(next(iter(values.values())))
    return ", ".join(f"{tier} {_level(value)}" for tier, value in values.items())


def _level(value: float) -> str:
    return "nothing" if value > 1 else f"{value:.2f}"


def _percent(share: Any) -> str:
    return f"{100 * share:.1f}%" if isinstance(share, int | float) else ""
