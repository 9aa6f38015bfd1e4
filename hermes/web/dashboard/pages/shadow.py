"""Shadow runs: how targets stand to the pinned models, samples side by side; promote, reject, roll back, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from hermes.errors import DatabaseUnavailable, InvalidRequest, NotFound
from hermes.evaluation.gate import Gate
from hermes.evaluation.shadow import sample_rate
from hermes.trials import OPINIONS, Opinion, Run
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.marks import money_text
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.attention import Sentence
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.shadow import FILTERS, ShadowView, Wanted, label_of, pane_of, row_of, sentence_of
from hermes.web.dashboard.views.shadow_gate import sure
from hermes.web.dashboard.views.shadow_sample import sample_of
from hermes.web.dashboard.views.strip import Count

PAGE: Final = "/dashboard/shadow"
PART: Final = "/dashboard/ui/shadow"
KEPT_S: Final = 2.0
RUNS: Final = 30
AWAY: Final = "The database does not answer: runs cannot be read or changed now."

Known = tuple[tuple[Run, Gate | None], ...]
"""Runs, those that go on with what the gate says."""


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/shadow` and what belongs to it."""
    page = _Page(site)
    promotions = site.hermes.comparing.promotions
    site.figures.count("shadow", page.count)
    site.figures.tell(page.told)

    @bp.get(PAGE)
    def shadow() -> Response:
        page.known.forget()
        return site.frame.page("shadow.html", **page.values(Wanted.parse(request.args)))

    @bp.get(PART)
    def shadow_part() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.shared("_shadow.html", address(wanted), lambda: page.values(wanted), KEPT_S)
        if "push" in request.args:
            response.headers["HX-Push-Url"] = address(wanted)
        return response

    @bp.post(f"{PAGE}/promote")
    def promote() -> Response:
        rules = site.hermes.policies.current().shadow.gate
        run = promotions.promote(_run_id(), rules, site.actor(), force=request.form.get("force") == "1")
        undo = f"{PAGE}/rollback?{urlencode({'run': run.id})}"
        return page.acted(f"{run.target} promoted to model.{run.role}", Wanted(run.id), undo)

    @bp.post(f"{PAGE}/reject")
    def reject() -> Response:
        run = promotions.reject(_run_id(), site.actor())
        text = f"{run.target} rejected" if run.kind == "trial" else f"The watch over {run.primary} ended"
        return page.acted(text, Wanted(run.id))

    @bp.post(f"{PAGE}/rollback")
    def rollback() -> Response:
        run = promotions.roll_back(_run_id(), site.actor())
        return page.acted(f"model.{run.role} is {run.primary} again", Wanted(run.id))

    @bp.post(f"{PAGE}/verdict")
    def verdict() -> Response:
        said = request.form.get("person", "")
        if said not in (*OPINIONS, ""):
            raise InvalidRequest(f"The verdict must be one of {', '.join(OPINIONS)}.", param="person")
        opinion = cast("Opinion", said) if said else None
        reply = promotions.verdict(_number("id"), opinion, site.actor())
        what = f"Sample judged: {said}" if said else "Your verdict is taken back"
        return page.acted(what, replace(Wanted.parse(request.values), run_id=reply.run_id))


class _Page:
    """What the routes share."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.known: Kept[Known] = Kept(self._read, KEPT_S)

    def count(self) -> Count | None:
        """What stands beside the page's entry in the navigation."""
        labels = [label_of(run, gate)[0] for run, gate in self._runs() if run.is_running]
        for label, kind in (("regression", "bad"), ("ready", ""), ("failing", "warn")):
            if number := labels.count(label):
                return Count(f"{number} {label}", kind)
        return None

    def told(self) -> list[Sentence]:
        """What the overview says of runs."""
        return [sentence for run, gate in self._runs() if (sentence := sentence_of(run, gate)) is not None]

    def acted(self, text: str, wanted: Wanted, undo_url: str = "") -> Response:
        """After an act."""
        self.known.forget()
        toast = Toast(text, undo_url=undo_url)
        response = self._site.frame.acted(toast, address(wanted), "_shadow.html", **self.values(wanted))
        response.headers["HX-Replace-Url"] = address(wanted)
        return response

    def values(self, wanted: Wanted) -> dict[str, Any]:
        """What the templates need."""
        try:
            view = self._view(wanted, self.known.get())
        except DatabaseUnavailable:
            view = self._around(wanted, trouble=AWAY)
        return {"view": view, "address": address, "part_address": part_address, "filters": FILTERS, "sure": sure()}

    def _view(self, wanted: Wanted, known: Known) -> ShadowView:
        rules = self._site.hermes.policies.current().shadow.gate
        run = self._opened(wanted, known)
        if run is None:
            return self._around(wanted)
        comparing = self._site.hermes.comparing
        pairs = comparing.rows.pairs(run.id)
        gate = comparing.promotions.gate(run, rules)
        verdict = wanted.verdict or None
        number = run.samples if verdict is None else comparing.rows.number(run.id, verdict)
        at = min(wanted.at, max(1, number))
        found = comparing.rows.replies(run.id, verdict=verdict, limit=1, offset=at - 1) if number else []
        wanted = replace(wanted, at=at)
        return replace(
            self._around(wanted),
            rows=tuple(row_of(one, its, rules.min_samples, run.id) for one, its in known),
            pane=pane_of(run, gate, pairs, self._roll_back_id(run, known)),
            sample=sample_of(found[0], at, number) if found else None,
            number=number,
        )

    def _opened(self, wanted: Wanted, known: Known) -> Run | None:
        if wanted.run_id is not None:
            try:
                return self._site.hermes.comparing.rows.run(wanted.run_id)
            except NotFound:
                pass
        return known[0][0] if known else None

    def _roll_back_id(self, run: Run, known: Sequence[tuple[Run, Gate | None]]) -> int | None:
        """The promotion that can be taken back from this run's pane: its own, or the one it watches."""
        wanted = run.id if run.state == "promoted" else run.watches if run.is_running else None
        pins = self._site.hermes.directories.current().pins
        model = run.target if run.state == "promoted" else run.primary
        return wanted if pins.get(f"model.{run.role}") == model else None

    def _around(self, wanted: Wanted, trouble: str = "") -> ShadowView:
        hermes = self._site.hermes
        policy, pins = hermes.policies.current(), hermes.directories.current().pins
        comparing = hermes.comparing
        targets = [role for role in policy.gateway.roles if f"model.{role}.target" in pins]
        return ShadowView(
            wanted=wanted,
            rows=(),
            pane=None,
            sample=None,
            number=0,
            judge=policy.shadow.judge.model if policy.shadow.judge is not None else "",
            sampling=tuple((role, sample_rate(pins, role)) for role in targets),
            auto_promote=policy.shadow.auto_promote,
            spent=money_text(comparing.spend.spent(policy.budgets.timezone) / 1e9),
            limit=money_text(policy.shadow.daily_nanousd / 1e9),
            depth=comparing.shadow.depth(),
            dropped=tuple(comparing.shadow.dropped.most_common(4)),
            trouble=trouble,
        )

    def _runs(self) -> Known:
        try:
            return self.known.get()
        except DatabaseUnavailable:
            return ()

    def _read(self) -> Known:
        comparing = self._site.hermes.comparing
        rules = self._site.hermes.policies.current().shadow.gate
        return tuple(
            (run, comparing.promotions.gate(run, rules) if run.is_running else None)
            for run in comparing.rows.runs(RUNS)
        )


def address(wanted: Wanted, **changes: Any) -> str:
    """The page's address for what is wanted.

    >>> address(Wanted(7, "worse"), at=3)
    '/dashboard/shadow?run=7&verdict=worse&at=3'
    """
    query = urlencode(wanted.query(**changes))
    return f"{PAGE}?{query}" if query else PAGE


def part_address(wanted: Wanted, **changes: Any) -> str:
    """The same of the page's live part."""
    query = urlencode(wanted.query(**changes))
    return f"{PART}?{query}" if query else PART


def _run_id() -> int:
    return _number("run")


def _number(name: str) -> int:
    text = request.values.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        raise InvalidRequest(f"{name} must be a whole number.", param=name)
    return int(text)
