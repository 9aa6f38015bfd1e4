"""Budgets: who spends what, who will be stopped; and setting, changing and removing limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from flask import Blueprint, Response, request

from hermes.directory import Budget
from hermes.errors import InvalidRequest, NotFound
from hermes.storage.export import FORMULA_STARTS
from hermes.web.dashboard.attempted import attempted
from hermes.web.dashboard.door import page_around
from hermes.web.dashboard.frame import Toast, htmx
from hermes.web.dashboard.pages.spend import Spend
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.budget_form import Form, fits_text
from hermes.web.dashboard.views.limits import ACTIONS, KINDS, PERIODS, UNITS, Limit, name_of, parts_of
from hermes.web.dashboard.views.spend import DAYS, Wanted

PAGE: Final = "/dashboard/budgets"
MOST_CHARS: Final = 300
MOST_KEYS: Final = 100
OF_LIMITS: Final = ("q", "edit", "new")
"""What the address says of the table of limits; the rest of it is about spending."""

Values = dict[str, Any]


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/budgets` and what belongs to it."""
    spend = Spend(site)
    site.figures.count("budgets", site.limits.count)
    _add_pages(bp, site, spend)
    _add_acts(bp, site, spend)


def _add_pages(bp: Blueprint, site: Site, spend: Spend) -> None:
    @bp.get(PAGE)
    def budgets() -> Response:
        return site.frame.page("budgets.html", **_values(site, spend, request.args))

    @bp.get("/dashboard/ui/budgets/spend")
    def spend_part() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.shared("_spend.html", f"{wanted.days} {wanted.by}", lambda: spend.values(wanted))
        if "push" in request.args:
            response.headers["HX-Push-Url"] = _around(range=wanted.days, by=wanted.by)
        return response

    @bp.get("/dashboard/ui/budgets/limits")
    def limits_part() -> Response:
        response = site.frame.fragment("_limits.html", **_limits(site, request.args))
        if "push" in request.args:
            response.headers["HX-Push-Url"] = _around(**{name: request.args.get(name, "") for name in OF_LIMITS})
        return response

    @bp.get(f"{PAGE}/spend.csv")
    def spend_csv() -> Response:
        wanted = Wanted.parse(request.args)
        return site.export(f"hermes-spend-{wanted.by}-{wanted.days}.csv", lambda: _csv(spend.rows(wanted), wanted))

    @bp.get(f"{PAGE}/remove")
    def remove_asked() -> Response:
        name = request.args.get("name", "")[:MOST_CHARS]
        budget = _found(site, name)
        return site.frame.page(
            "confirm.html",
            title="Remove this budget?",
            text=f"{Form.of(budget).label}, per {budget.period}: it may be used without limit from then on.",
            label="Remove",
            action=f"{PAGE}/remove?{urlencode({'name': name})}",
            back=PAGE,
        )


def _add_acts(bp: Blueprint, site: Site, spend: Spend) -> None:
    def answered(text: str) -> Response:
        response = site.frame.acted(Toast(text), PAGE, "_limits.html", **_limits(site, {}))
        if htmx:
            response.headers["HX-Replace-Url"] = _around(**dict.fromkeys(OF_LIMITS, ""))
        return response

    @bp.post(PAGE)
    def put_budget() -> Response:
        form = Form.parse(request.form)
        try:
            _check_name(site, form)
            budget = site.hermes.editor.put_budget(form.body(), site.actor())
        except InvalidRequest as error:
            return _refused(site, spend, form.refused(error))
        if form.was and form.was != name_of(budget):
            site.hermes.editor.delete_budget(parts_of(form.was), site.actor())
        return answered(f"Budget of {Form.of(budget).label} {'changed' if form.was else 'set'}")

    @bp.post(f"{PAGE}/remove")
    def remove() -> Response:
        name = request.values.get("name", "")[:MOST_CHARS]
        site.hermes.editor.delete_budget(parts_of(name), site.actor())
        return answered("Budget removed")


def _refused(site: Site, spend: Spend, form: Form) -> Response:
    """The form again, with the message; where a script asks, only the table that it stands in."""
    if htmx:
        response = site.frame.fragment("_limits.html", **_limits(site, {}, form))
        response.status_code = 422
        return response
    return site.frame.page("budgets.html", status=422, **_values(site, spend, {}, form))


def _check_name(site: Site, form: Form) -> None:
    """
    Raises:
        InvalidRequest: it would silently take the place of another budget.
        NotFound: what it changes is no more.
    """
    names = {name_of(budget) for budget in site.hermes.directories.current().budgets}
    if form.was and form.was not in names:
        raise NotFound("This budget was removed meanwhile.")
    if form.name != form.was and form.name in names:
        raise InvalidRequest(f"There is a budget of this per {form.period} already; change that one.", param="period")


def _found(site: Site, name: str) -> Budget:
    for budget in site.hermes.directories.current().budgets:
        if name_of(budget) == name:
            return budget
    raise NotFound("There is no such budget.")


def _values(site: Site, spend: Spend, args: Mapping[str, str], form: Form | None = None) -> Values:
    return {**spend.values(Wanted.parse(args)), **_limits(site, args, form), "days": DAYS}


def _limits(site: Site, args: Mapping[str, str], form: Form | None = None) -> Values:
    """The table of limits, a row of it or a row above it being a form."""
    limits, trouble = attempted(site.limits.get)
    text = args.get("q", "").strip()[:MOST_CHARS]
    asked = {name: args.get(name, "") for name in OF_LIMITS}
    if form is None:
        form = _form(site, args)
    elif form.message:  # what the part asks for next is the form that was refused
        asked = {"edit": form.was} if form.was else {"new": "1"}
    shown = [limit for limit in limits or () if _fits(limit, text) or (form is not None and limit.name == form.was)]
    changed = next((limit for limit in shown if form is not None and limit.name == form.was), None)
    return {
        "limits": shown,
        "limits_trouble": trouble,
        "budgets_in_all": len(site.hermes.directories.current().budgets),
        "text": text,
        "form": form,
        "fits": fits_text(form, changed.ahead) if form is not None and changed is not None else "",
        "part_query": urlencode({name: value for name, value in asked.items() if value}),
        "choices": {"actions": ACTIONS, "kinds": KINDS, "periods": PERIODS, "units": UNITS, "keys": _keys(site)},
    }


def _form(site: Site, args: Mapping[str, str]) -> Form | None:
    if args.get("new"):
        return Form()
    name = args.get("edit", "")
    budgets = site.hermes.directories.current().budgets
    return next((Form.of(budget) for budget in budgets if name and name_of(budget) == name), None)


def _keys(site: Site) -> Mapping[str, str]:
    """API keys' names by their ids, to choose from."""
    return {key.id: key.name for key in list(site.hermes.directories.current().keys.values())[:MOST_KEYS]}


def _around(**changes: str) -> str:
    """The address of the page around a part that was asked for, with some of it changed."""
    query = dict(parse_qsl(urlsplit(page_around()).query))
    known = {name: query.get(name, "") for name in ("range", "by", *OF_LIMITS)}
    query = {name: value for name, value in {**known, **changes}.items() if value}
    return f"{PAGE}?{urlencode(query)}" if query else PAGE


def _fits(limit: Limit, text: str) -> bool:
    wanted = text.lower()
    return not wanted or any(wanted in one.lower() for one in (limit.label, limit.kind, limit.budget.id))


def _csv(days: Iterable[Iterable[tuple[str, str, int, int, str]]], wanted: Wanted) -> Iterator[str]:
    """The file, a day at a time. Users write into it: what begins like a formula gets an apostrophe before it."""
    yield f"day,{wanted.by},requests,tokens,usd\r\n"
    for rows in days:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        for day, name, *numbers in rows:
            writer.writerow([day, f"'{name}" if name[:1] in FORMULA_STARTS else name, *numbers])
        yield out.getvalue()
