"""The classifier: who decides, how sure the surrogate is, whether the teacher agrees, and whether traffic changes."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from flask import Blueprint, Response, request

from hermes.storage import decisions
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.classifier import (
    ENOUGH_AUDITS,
    RANGES,
    SHOWN_MODELS,
    ClassifierView,
    Read,
    classifier_view,
)
from hermes.web.dashboard.views.kept import Kept

PART: Final = "/dashboard/ui/classifier"
VIEW_S: Final = 10.0
USUAL: Final = "24h"
MEDIAN, MOST = 0.5, 0.95


def add_routes(bp: Blueprint, site: Site) -> None:
    """The page, which also stands at `/classifier/report` for browsers, and its part."""
    views = {name: Kept(partial(_view, site, name), VIEW_S) for name in RANGES}

    def values() -> dict[str, Any]:
        wanted = request.args.get("range", USUAL)
        wanted = wanted if wanted in views else USUAL
        return {"view": views[wanted].get(), "ranges": tuple(RANGES), "hours": RANGES[wanted], "enough": ENOUGH_AUDITS}

    @bp.get("/dashboard/classifier")
    def classifier() -> Response:
        return site.frame.page("classifier.html", **values())

    @bp.get(PART)
    def classifier_part() -> Response:
        return site.frame.shared("_classifier.html", request.args.get("range", "")[:10], values)


def _view(site: Site, wanted: str) -> ClassifierView:
    hermes = site.hermes
    policy = hermes.policies.current()
    now = time.time()
    end = datetime.fromtimestamp(now, UTC) + timedelta(seconds=1)
    start = end - timedelta(hours=RANGES[wanted])
    live, audits = hermes.learning.standing(policy.routing)
    answered = decisions.answered(hermes.database, start, end)
    courses: dict[str, dict[str, int]] = defaultdict(dict)
    for point in hermes.reports.series(start, end, "hour", "model"):
        courses[point.name][point.at] = point.sums.requests
    overhead = hermes.reports.latency(start, end, "overhead")
    read = Read(
        decided=decisions.decided(hermes.database, start, end),
        answered=answered,
        sample=decisions.sample(hermes.database, start),
        courses=courses,
        percentiles={
            (one.model, one.tier): _times(site, start, end, one.model, one.tier) for one in answered[:SHOWN_MODELS]
        },
        overhead_ms=(overhead.percentile_ms(MEDIAN), overhead.percentile_ms(MOST)),
        live=live,
        audits=audits,
    )
    return classifier_view(read, policy, wanted, now)


def _times(site: Site, start: datetime, end: datetime, model: str, tier: str) -> tuple[float | None, float | None]:
    latency = site.hermes.reports.latency(start, end, "duration", tier=tier, model=model)
    return latency.percentile_ms(MEDIAN), latency.percentile_ms(MOST)
