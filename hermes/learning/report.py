"""The classifier's report: who decided, how sure, whether the teacher agrees, what it costs, and whether that changes.

Pure: sums and audits in, the JSON of `GET /classifier/report` out. Beside the contract's keys it holds what the page
and `surrogate report` show: how the surrogate stands, agreement by hour and by caller, both kinds of mistake by cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes.bounds import ceiling, interval
from hermes.storage.classified import BUCKETS, HOUR_CHARS, Classified, Confidence, Served
from hermes.storage.labels import Audit

ASKED: Final = ("surrogate", "teacher", "default")
"""What decides where nobody else has: the surrogate, or whoever it defers to."""

CLASSIFIED: Final = ("override", *ASKED)


@dataclass(frozen=True, slots=True)
class Itself:
    """How far the teacher agrees with itself."""

    asked: int = 0
    """Verdicts that it was asked for a second time."""

    same: int = 0
    """Those that it gave again."""

    def shown(self) -> dict[str, Any]:
        """For JSON; `ceiling` is the most that anybody can agree with such a teacher."""
        lower, upper = interval(self.same, self.asked) if self.asked else (None, None)
        most = None if upper is None else ceiling(upper)
        bounds = {"lower": _rounded(lower), "upper": _rounded(upper), "ceiling": _rounded(most)}
        return {"asked_again": self.asked, "same": self.same, **bounds}


@dataclass(frozen=True, slots=True)
class Live:
    """The surrogate that decides at the moment."""

    enabled: bool
    version: str | None
    """None: none decides."""

    target: float = 0.0
    thresholds: Mapping[str, float] | None = None
    """By tier: the confidence from which it decides."""

    state: str = "off"
    """`certified`, `borrowed` (it ships with Hermes), `raised`, `stepped_back`, `alone` (no teacher), `off`."""

    says: str = ""
    """The state as a sentence."""

    audit_rate: float = 0.0
    about: Mapping[str, Any] | None = None
    """The part of its manifest that people want to see."""

    itself: Itself = Itself()


def report(classified: Classified, audits: Sequence[Audit], live: Live, *, now: str, since: str) -> dict[str, Any]:
    """The report; times as ISO 8601.

    Args:
        audits: of the live surrogate, the oldest first; those before `since` count for its agreement only.
    """
    decisions = defaultdict(int, classified.decisions)
    hits = decisions["surrogate"]
    deferrals = decisions["teacher"] + decisions["default"]
    lately = [audit for audit in audits if audit.created_at >= since]
    return {
        "generated_at": now,
        "since": since,
        "surrogate": {
            "enabled": live.enabled,
            "model": live.version,
            "state": live.state,
            "says": live.says,
            "total_classifications": sum(decisions[name] for name in CLASSIFIED),
            "surrogate_hits": hits,
            "llm_deferrals": deferrals,
            "coverage_pct": _percent(hits, hits + deferrals),
            "confidence": _confidence(classified.confidence),
            "threshold": min(live.thresholds.values()) if live.thresholds else None,
            "thresholds": dict(live.thresholds) if live.thresholds else None,
            "target": live.target,
            "audit_rate": live.audit_rate,
            "agreement": {
                **_agreement(audits),
                "by_hour": _by(lately, lambda audit: f"{audit.created_at[:HOUR_CHARS]}:00:00Z", "hour"),
                "by_source": _by(lately, lambda audit: audit.caller or "anonymous", "source"),
            },
            "teacher": live.itself.shown(),
            "mistakes": _mistakes(audits, hits, classified.models),
            "about": live.about,
        },
        "classification_sources": {
            "override": decisions["override"],
            "surrogate": hits,
            "llm_classifier": decisions["teacher"],
            "default": decisions["default"],
            "cache_hits": decisions["session"],
            "keyword_deviations": classified.deviations,
        },
        "routing": {
            "total_route_events": sum(classified.decisions.values()),
            "fallback_tier1": classified.fallbacks.get(1, 0),
            "fallback_tier2": sum(count for level, count in classified.fallbacks.items() if level > 1),
            "model_distribution": _by_model(classified.models),
        },
        "models": [_model(served) for served in classified.models],
        "errors": {"stream_errors": classified.interrupted},
        "drift": {"hourly": _hourly(classified.hourly)},
    }


def _confidence(confidence: Confidence) -> dict[str, Any]:
    tenths = [f"{at / BUCKETS:.1f}-{(at + 1) / BUCKETS:.1f}" for at in range(BUCKETS)]
    return {
        "mean": _rounded(confidence.mean),
        "min": _rounded(confidence.least),
        "max": _rounded(confidence.most),
        "distribution": dict(zip(tenths, confidence.buckets, strict=True)),
    }


def _agreement(audits: Sequence[Audit]) -> dict[str, Any]:
    agreed = sum(audit.agrees for audit in audits)
    if not audits:
        return {"audited": 0, "agreed": 0, "lower": None, "upper": None}
    lower, upper = interval(agreed, len(audits))
    return {"audited": len(audits), "agreed": agreed, "lower": _rounded(lower), "upper": _rounded(upper)}


def _by(audits: Iterable[Audit], key: Callable[[Audit], str], name: str) -> list[dict[str, Any]]:
    groups: dict[str, list[Audit]] = defaultdict(list)
    for audit in audits:
        groups[key(audit)].append(audit)
    return [{name: at, **_agreement(groups[at])} for at in sorted(groups)]


def _mistakes(audits: Sequence[Audit], hits: int, models: Sequence[Served]) -> dict[str, Any]:
    """What the audited sample means for all that the surrogate has decided: tasks that were under-routed, and money
    that was overpaid. None: nothing is known.
    """
    wrong = [audit for audit in audits if not audit.agrees]
    under = sum(audit.surrogate_tier == "simple" for audit in wrong)
    over = len(wrong) - under
    dearer = _usd_a_request(models, "complex"), _usd_a_request(models, "simple")
    overpaid_usd = None
    if audits and dearer[0] is not None and dearer[1] is not None:
        overpaid_usd = round(max(dearer[0] - dearer[1], 0.0) * hits * over / len(audits), 6)
    return {
        "under_routed": under,
        "under_routed_requests": round(hits * under / len(audits)) if audits else None,
        "overpaid": over,
        "overpaid_requests": round(hits * over / len(audits)) if audits else None,
        "overpaid_usd": overpaid_usd,
    }


def _usd_a_request(models: Sequence[Served], tier: str) -> float | None:
    priced = [served for served in models if served.tier == tier and served.cost_usd is not None]
    requests = sum(served.requests for served in priced)
    return sum(served.cost_usd or 0.0 for served in priced) / requests if requests else None


def _by_model(models: Iterable[Served]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for served in models:
        counts[served.model] += served.requests
    return dict(counts)


def _model(served: Served) -> dict[str, Any]:
    return {
        "model": served.model,
        "tier": served.tier,
        "requests": served.requests,
        "errors": served.errors,
        "p50_ms": served.p50_ms,
        "p95_ms": served.p95_ms,
        "cost_usd": None if served.cost_usd is None else round(served.cost_usd, 9),
    }


def _hourly(hourly: Iterable[tuple[str, str, int]]) -> list[dict[str, Any]]:
    hours: dict[str, dict[str, int]] = {}
    for hour, decision, count in hourly:
        hours.setdefault(hour, defaultdict(int))[decision] += count
    return [
        {
            "hour": hour,
            "surrogate_pct": _percent(by["surrogate"], sum(by[name] for name in ASKED)),
            "total_classifications": sum(by[name] for name in CLASSIFIED),
        }
        for hour, by in hours.items()
    ]


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
