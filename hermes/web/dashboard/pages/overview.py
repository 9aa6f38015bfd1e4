"""The overview: what needs somebody, and where the traffic goes. Each cell is a part that asks at its own pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from flask import Blueprint, Response, request

from hermes.directory import ENABLED_KEY
from hermes.errors import NotFound
from hermes.storage.consumption import consumption
from hermes.storage.latest import latest
from hermes.types import Usage
from hermes.web.dashboard.attempted import attempted
from hermes.web.dashboard.door import HOME
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.pages.circuits import view_of as circuits_of
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.attention import Log, Sentence, attention
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.overview import Facts, flow_view, kpis_of, latest_rows, minutes_view
from hermes.web.dashboard.views.ranges import RANGES, Range, hour_of, hours_between, range_of
from hermes.web.dashboard.views.savings import saved_usd

SHOWN_CIRCUITS: Final = 6
SHOWN_REQUESTS: Final = 6
MINUTES: Final = timedelta(minutes=61)
INTERVALS_S: Final[Mapping[str, float]] = {
    "attention": 10,
    "kpis": 10,
    "flow": 30,
    "minutes": 10,
    "circuits": 5,
    "latest": 5,
}
"""The parts of the page, and how often each is asked for."""

Values = dict[str, Any]


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/` and what belongs to it."""
    page = Overview(site)

    @bp.get(HOME)
    def overview() -> Response:
        wanted = range_of(request.args.get("range"))
        parts = {name: page.values(name, wanted) for name in INTERVALS_S}
        return site.frame.page("overview.html", wanted=wanted, ranges=RANGES, parts=parts)

    @bp.get("/dashboard/ui/overview/<part>")
    def overview_part(part: str) -> Response:
        if part not in INTERVALS_S:
            raise NotFound("There is no such part of the page.")
        wanted = range_of(request.args.get("range"))
        return site.frame.shared(
            f"_overview_{part}.html", f"{wanted.name} {request.host_url}", lambda: page.values(part, wanted)
        )

    @bp.post("/dashboard/reset")
    def reset_from_overview() -> Response:
        endpoint = request.form.get("endpoint", "")
        site.hermes.operations.reset_circuits(endpoint, site.actor())
        return answered(Toast(f"Circuit of {endpoint.partition('@')[0]} closed"))

    @bp.post("/dashboard/start")
    def start_here() -> Response:
        site.hermes.editor.set_pin(ENABLED_KEY, {"value": "true"}, site.actor())
        return answered(Toast("The gateway is on"))

    def answered(toast: Toast) -> Response:
        wanted = range_of(request.values.get("range"))
        return site.frame.acted(toast, HOME, "_overview_attention.html", **page.values("attention", wanted))


class Overview:
    """The values of the page's parts; those that cost something are kept for all who look."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._facts = {one.name: Kept(lambda one=one: self._read(one), INTERVALS_S["kpis"]) for one in RANGES}  # type: ignore[misc]
        self._flows = {one.name: Kept(lambda one=one: self._flow(one), INTERVALS_S["flow"]) for one in RANGES}  # type: ignore[misc]
        self._minutes = Kept(self._read_minutes, INTERVALS_S["minutes"])
        self._latest = Kept(lambda: latest_rows(latest(site.hermes.database, SHOWN_REQUESTS)), 2.0)

    def values(self, part: str, wanted: Range) -> Values:
        """What the template of a part needs."""
        make: Mapping[str, Callable[[], Any]] = {
            "attention": self._attention,
            "kpis": lambda: kpis_of(self._facts[wanted.name].get()),
            "flow": self._flows[wanted.name].get,
            "minutes": self._minutes.get,
            "circuits": lambda: circuits_of(self._site),
            "latest": self._latest.get,
        }
        view, trouble = attempted(make[part])
        return {
            "wanted": wanted,
            "links": self._site.frame.links(),
            "every_s": int(INTERVALS_S[part]),
            "base": request.host_url,
            "view": view,
            "trouble": trouble,
            "now": time.time(),
            "shown_circuits": SHOWN_CIRCUITS,
        }

    def _attention(self) -> Sequence[Sentence]:
        hermes = self._site.hermes
        stopped_by = ""
        if hermes.switch.is_stopped():
            stopped_by = "pin" if not hermes.directories.current().is_enabled else hermes.settings.off_file
        limits, _ = attempted(self._site.limits.known)
        return attention(
            stopped_by=stopped_by,
            circuits=circuits_of(self._site),
            traffic=self._site.figures.traffic(),
            limits=limits or (),
            log=self._log(),
            now=time.time(),
            more=self._site.figures.told(),
        )

    def _log(self) -> Log:
        hermes = self._site.hermes
        _, away = attempted(hermes.database.check)
        trouble = away or hermes.spool.trouble or ""
        return Log(hermes.spool.depth(), hermes.ledger.gap, hermes.spool.lost, trouble)

    def _read(self, wanted: Range) -> Facts:
        reports, now = self._site.hermes.reports, datetime.now(UTC)
        start = wanted.start(now)
        over = hour_of(now)  # what is not over yet is not compared
        before = (reports.totals(start, over), reports.totals(start - wanted.earlier, over - wanted.earlier))
        return Facts(
            reports.totals(start, now),
            hours_between(start, now),
            reports.series(start, now, "hour", "tier"),
            reports.series(start, now, "hour", "decision"),
            reports.series(start, now, "hour", "status"),
            reports.latency(start, now, "duration"),
            reports.latencies(start, now, "duration"),
            reports.latency(start, now, "overhead"),
            (before[0].sums.requests, before[1].sums.requests),
            wanted.earlier_words,
            saved(self._site, start, now),
        )

    def _flow(self, wanted: Range) -> Any:
        now = datetime.now(UTC)
        ways = self._site.hermes.reports.flow(wanted.start(now), now)
        return flow_view(ways, self._site.hermes.policies.current())

    def _read_minutes(self) -> Any:
        now = datetime.now(UTC)
        return minutes_view(self._site.hermes.reports.minutes(now - MINUTES, now), now)


def saved(site: Site, start: datetime, end: datetime) -> float | None:
    """What routing has saved in USD, against the complex tier's primary; None where its price is unknown."""
    hermes = site.hermes
    cascade = hermes.policies.current().cascades.get("complex")
    if cascade is None or not cascade.endpoints or hermes.prices.price(cascade.endpoints[0]) is None:
        return None
    primary = cascade.endpoints[0]

    def cost_of(tokens: Usage, answers: int) -> int | None:
        return hermes.prices.cost_of_all_nanousd(primary, tokens, answers)

    return saved_usd(consumption(hermes.database, start, end), cost_of)
