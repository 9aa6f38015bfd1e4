"""The overview's figures: six numbers with their course, where requests went, and how many there were a minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from hermes.policy import Policy
from hermes.storage import reports
from hermes.storage.latest import Latest
from hermes.storage.reports import Latency, Minute, Point, Totals
from hermes.types import TIERS
from hermes.web.dashboard import flow
from hermes.web.dashboard.charts import Chart, Series
from hermes.web.dashboard.flow import Part, flow_of
from hermes.web.dashboard.marks import duration_text, money_text, share_text
from hermes.web.dashboard.views.circuits import role_of
from hermes.web.dashboard.views.pulse import FAILED

NANO: Final = 1e-9
SHARE_95: Final = 0.95
HALF: Final = 0.5
SHOWN_MODELS: Final = 5
CHART_MINUTES: Final = 60
SECOND_MS: Final = 1000
LABELS: Final = {
    "session": "Session cache",
    "override": "Keyword",
    "surrogate": "Surrogate",
    "teacher": "Teacher",
    "header": "Forced tier",
    "role": "Role",
    "default": "Default",
}
"""What decided, in the order in which it is asked."""

STAGES: Final = {"session": 0, "override": 1, "surrogate": 2, "teacher": 3}
"""Where a decision stands on the route's drawing; others have no place on it."""


@dataclass(frozen=True, slots=True)
class Kpi:
    """One number."""

    label: str
    value: str
    unit: str = ""
    detail: str = ""
    page: str = ""
    """The name of the page that says more; of the navigation."""

    spark: tuple[float, ...] = ()
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database says of a range."""

    totals: Totals
    hours: Sequence[str]
    by_tier: Sequence[Point]
    by_decision: Sequence[Point]
    by_status: Sequence[Point]
    duration: Latency
    durations: Sequence[tuple[str, Latency]]
    overhead: Latency
    before: tuple[int, int]
    """Requests in the hours that are over, and in the same hours of an earlier time."""

    before_words: str
    saved_usd: float | None


def kpis_of(facts: Facts) -> tuple[Kpi, ...]:
    """The six of them; what is not known has an empty value."""
    return (
        _requests(facts),
        _simple(facts),
        _coverage(facts),
        _answered(facts),
        _latency(facts),
        _spend(facts),
    )


def _requests(facts: Facts) -> Kpi:
    now, earlier = facts.before
    detail = f"{(now / earlier - 1) * 100:+.1f}% on {facts.before_words}" if earlier else "nothing to compare with"
    course = _course(facts.hours, facts.by_status)
    return Kpi("Requests", f"{facts.totals.sums.requests:,}", "", detail, "usage", tuple(course))


def _simple(facts: Facts) -> Kpi:
    tiers = {tier: sum(p.sums.requests for p in facts.by_tier if p.name == tier) for tier in TIERS}
    course = _shares(facts.hours, facts.by_tier, ("simple",), TIERS)
    share = _percent(tiers["simple"], sum(tiers.values()))
    detail = f"{tiers['complex']:,} complex" if share else "no request was routed"
    return Kpi("Served as simple", share, "%" if share else "", detail, "classifier", course, "simple")


def _coverage(facts: Facts) -> Kpi:
    learned = ("surrogate", "teacher")
    counts = {name: sum(p.sums.requests for p in facts.by_decision if p.name == name) for name in learned}
    share = _percent(counts["surrogate"], sum(counts.values()))
    calls = counts["teacher"]
    detail = f"{calls:,} teacher call{'' if calls == 1 else 's'}" if share else "nothing was classified"
    course = _shares(facts.hours, facts.by_decision, ("surrogate",), learned)
    return Kpi("Surrogate coverage", share, "%" if share else "", detail, "classifier", course)


def _answered(facts: Facts) -> Kpi:
    sums = facts.totals.sums
    asked = sums.requests - sums.refused
    share = f"{(1 - sums.failed / asked) * 100:.2f}" if asked else ""
    detail = f"{share_text(facts.totals.fallbacks / asked)} by a fallback" if asked else "no request"
    whole = {hour: [0, 0] for hour in facts.hours}
    for point in facts.by_status:
        if point.at in whole and point.name != "refused":
            whole[point.at][0] += point.sums.requests
            whole[point.at][1] += point.sums.failed
    course = tuple((1 - failed / all_) * 100 for all_, failed in whole.values() if all_)
    return Kpi("Answered", share, "%" if share else "", detail, "usage", course)


def _latency(facts: Facts) -> Kpi:
    found, added = facts.duration.percentile_ms(SHARE_95), facts.overhead.percentile_ms(HALF)
    if found is None:
        return Kpi("Latency p95", "", "", "no answer", "usage")
    value, unit = duration_text(found).split(" ")
    course = tuple(ms for _, one in facts.durations if (ms := one.percentile_ms(SHARE_95)) is not None)
    detail = f"gateway adds {_small(added)}" if added is not None else ""
    return Kpi("Latency p95", value, unit, detail, "usage", course)


def _spend(facts: Facts) -> Kpi:
    sums = facts.totals.sums
    course = tuple(accumulate(_course(facts.hours, facts.by_status, "nanousd")))
    return Kpi("Spend", money_text(sums.nanousd * NANO), "", saved_text(facts.saved_usd), "budgets", course)


def saved_text(saved: float | None) -> str:
    """What routing has saved, in words."""
    if saved is None:
        return "savings are not known"
    return f"routing saved {money_text(saved)}" if saved >= 0 else f"routing has cost {money_text(-saved)} more"


def _small(ms: float) -> str:
    return f"{ms:.1f} ms" if ms < 10 else duration_text(ms)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole * 100:.1f}" if whole else ""


def _course(hours: Sequence[str], points: Iterable[Point], of: str = "requests") -> list[float]:
    """A figure hour by hour."""
    sums: dict[str, float] = dict.fromkeys(hours, 0.0)
    for point in points:
        if point.at in sums:
            sums[point.at] += getattr(point.sums, of)
    return list(sums.values())


def _shares(
    hours: Sequence[str], points: Iterable[Point], part: Sequence[str], whole: Sequence[str]
) -> tuple[float, ...]:
    """The share by hour in percent; hours without any are left out."""
    sums = {hour: [0, 0] for hour in hours}
    for point in points:
        if point.at in sums and point.name in whole:
            sums[point.at][0] += point.sums.requests
            sums[point.at][1] += point.sums.requests if point.name in part else 0
    return tuple(some / all_ * 100 for all_, some in sums.values() if all_)


# -- where requests go ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FlowView:
    """The drawing and its sentence."""

    drawing: flow.Flow | None
    label: str


def flow_view(ways: Sequence[reports.Flow], policy: Policy) -> FlowView:
    """Who decided, for which tier, and who answered; rows without a tier were refused before, or no completions."""
    routed = [way for way in ways if way.tier in TIERS]
    total = sum(way.requests for way in routed)
    sources: dict[str, dict[str, int]] = {name: dict.fromkeys(TIERS, 0) for name in LABELS}
    targets: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(TIERS, 0))
    for way in routed:
        sources.setdefault(way.decision, dict.fromkeys(TIERS, 0))[way.tier] += way.requests
        targets[way.model][way.tier] += way.requests
    parts = [Part(LABELS.get(name, name or "Unknown"), one["simple"], one["complex"]) for name, one in sources.items()]
    drawing = flow_of(parts, _targets(targets, policy))
    if drawing is None:
        return FlowView(None, "")
    decided = ", ".join(f"{part.all / total:.1%} by {part.label.lower()}" for part in parts if part.all)
    simple = sum(part.simple for part in parts) / total
    label = f"Of {total:,} requests {decided} were decided; {simple:.1%} went simple, {1 - simple:.1%} complex."
    return FlowView(drawing, label)


def _targets(targets: Mapping[str, Mapping[str, int]], policy: Policy) -> list[Part]:
    """The models that answered most, in the order of the cascades; then all others; then what nobody answered."""
    named = {model: tiers for model, tiers in targets.items() if model}
    most = sorted(named, key=lambda model: -sum(named[model].values()))[:SHOWN_MODELS]
    places = _places(policy)
    most.sort(key=lambda model: places.get(model, (9, 9)))
    parts = [Part(model, named[model]["simple"], named[model]["complex"], _role(places.get(model))) for model in most]
    others = [tiers for model, tiers in named.items() if model not in most]
    parts.append(Part("Others", sum(one["simple"] for one in others), sum(one["complex"] for one in others)))
    nobody = targets.get("", {})
    parts.append(Part("Not answered", nobody.get("simple", 0), nobody.get("complex", 0), is_bad=True))
    return parts


def _places(policy: Policy) -> dict[str, tuple[int, int]]:
    """Tier and level of each model, where it stands first."""
    places: dict[str, tuple[int, int]] = {}
    for number, tier in enumerate(TIERS):
        for level, endpoint in enumerate(policy.cascades[tier].endpoints if tier in policy.cascades else ()):
            places.setdefault(endpoint.model, (number, level))
    return places


def _role(place: tuple[int, int] | None) -> str:
    return role_of(place[1]) if place is not None and place[1] else ""


# -- requests per minute ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MinutesView:
    """The figure and its sentence."""

    chart: Chart
    label: str
    requests: int


def minutes_view(minutes: Sequence[Minute], now: datetime) -> MinutesView:
    """The last hour; the minute that is not over is left out, unless there was nothing before it."""
    this = now.strftime("%Y-%m-%dT%H:%M")
    is_all_new = bool(minutes) and all(minute.at == this for minute in minutes)
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=CHART_MINUTES - is_all_new)
    at = [(first + timedelta(minutes=place)).strftime("%Y-%m-%dT%H:%M") for place in range(CHART_MINUTES)]
    sums = {name: dict.fromkeys(at, 0) for name in ("simple", "complex", "other", "failed")}
    for minute in minutes:
        if minute.at not in sums["failed"]:
            continue
        sums[minute.tier if minute.tier in TIERS else "other"][minute.at] += minute.requests
        if minute.status in FAILED:
            sums["failed"][minute.at] += minute.requests
    values = {name: list(found.values()) for name, found in sums.items()}
    series = [
        Series("complex", values["complex"], "complex", "area"),
        Series("simple", values["simple"], "simple", "area"),
    ]
    if any(values["other"]):
        series.append(Series("without a tier", values["other"], "dim", "area"))
    series.append(Series("failed", values["failed"], "bad", "bars"))
    whole = [sum(one) for one in zip(values["simple"], values["complex"], values["other"], strict=True)]
    label = (
        f"Requests per minute in the last hour: between {min(whole):,} and {max(whole):,}, {sum(whole):,} in all, "
        f"{sum(values['failed']):,} of them failed."
    )
    # Plotly reads a time without a zone as it stands: the axis is UTC, as everything here.
    return MinutesView(Chart("Minute (UTC)", [f"{text}:00" for text in at], series), label, sum(whole))


# -- the latest requests ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatestRow:
    """One request in the list."""

    request_id: str
    at_s: float
    title: str
    stage: int | None
    decision: str
    tier: str
    model: str
    tries: str
    """A letter an attempt, `f` for one that failed."""

    duration_ms: float | None
    status: str
    kind: str
    """`ok`, `warn` or `bad`."""


KINDS: Final = {"ok": "ok", "refused": "warn", "client_disconnected": "warn"}
WORDS: Final = {"ok": "OK", "refused": "Refused", "client_disconnected": "Hung up", "interrupted": "Broken"}


def latest_rows(rows: Sequence[Latest]) -> tuple[LatestRow, ...]:
    """The rows as they are shown."""
    return tuple(
        LatestRow(
            row.request_id,
            datetime.fromisoformat(row.at).timestamp(),
            row.function_name or row.user_id or row.request_id[:12],
            STAGES.get(row.decision or ""),
            LABELS.get(row.decision or "", row.decision or ""),
            row.tier or "",
            row.model or "",
            "f" * (row.attempts - 1) + ("s" if row.model else "f") if row.attempts > 1 else "",
            row.duration_ms,
            WORDS.get(row.status, "Failed"),
            KINDS.get(row.status, "bad"),
        )
        for row in rows
    )
