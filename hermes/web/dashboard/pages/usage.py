"""The usage log: finding a request, seeing why it went where it did, taking what was found along as a file.

The address is the whole state. Rows come in pieces, each from where the last one ended; what is new is counted above
them and waits, so that nothing moves under a reader's eyes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from flask import Blueprint, Response, request

from hermes.errors import DatabaseUnavailable, NotFound
from hermes.instance import FLUSH_WAIT_S
from hermes.storage import browse, export
from hermes.storage.browse import Beside, Counted, Mark
from hermes.storage.db import Database
from hermes.storage.meaning import meaning
from hermes.storage.usage_filter import UsageFilter
from hermes.web.dashboard.frame import htmx
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views import bars
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.usage import (
    RANGES,
    SAVED,
    Wanted,
    chips_of,
    line_of,
    mark_of,
    mark_text,
    picks_of,
    saved_view,
    shown_time,
)  # fmt: skip
from hermes.web.dashboard.views.usage_request import request_view
from hermes.web.usage_api import file_name

PAGE: Final = "/dashboard/usage"
PART: Final = "/dashboard/ui/usage"
DRAWER: Final = "/dashboard/ui/request"
ROWS: Final = 50
SORTED_ROWS: Final = 100
MOST_COUNTED: Final = 10_000
MOST_NEW: Final = 99
MOST_OFFERED: Final = 8
NAMES_S: Final = 30.0
"""For so long the names that filters offer are kept."""


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/usage` and what belongs to it."""
    log = _Log(site)

    @bp.get(PAGE)
    def usage() -> Response:
        return site.frame.page("usage.html", **log.values(Wanted.parse(request.args)), drawer=None)

    @bp.get(f"{PAGE}.csv")
    def usage_csv() -> Response:
        wanted = Wanted.parse(request.args)
        named = wanted.query() if wanted.since or wanted.until else {"range": wanted.range, **wanted.query()}
        name = file_name({k: v for k, v in named.items() if k != "sort"})
        return site.export(name, lambda: _csv(site.hermes.database, log, wanted))

    @bp.get(f"{PAGE}/<path:request_id>")
    def usage_request(request_id: str) -> Response:
        wanted = Wanted.parse(request.args)
        try:
            drawer = log.request(request_id, wanted)
        except NotFound:
            return site.frame.page(
                "usage_missing.html", status=404, request_id=request_id[:200], list_href=address(wanted)
            )
        return site.frame.page("usage.html", **log.values(wanted), drawer=drawer)

    @bp.get(PART)
    def usage_part() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.fragment("_usage.html", **log.values(wanted), drawer=None)
        response.headers["HX-Push-Url"] = address(wanted, open_id=_open_id())
        return response

    @bp.get(f"{PART}/rows")
    def usage_rows() -> Response:
        return site.frame.fragment("_usage_rows.html", **log.rows(Wanted.parse(request.args)))

    @bp.get(f"{PART}/new")
    def usage_new() -> Response:
        wanted, above = Wanted.parse(request.args), mark_of(request.args.get("above", ""))
        return site.frame.fragment("_usage_new.html", **log.new(wanted, above))

    @bp.get(DRAWER)
    def drawer_closed() -> Response:
        return site.frame.fragment("_usage_drawer.html", drawer=None)

    @bp.get(f"{DRAWER}/<path:request_id>")
    def drawer_open(request_id: str) -> Response:
        return site.frame.fragment("_usage_drawer.html", drawer=log.request(request_id, Wanted.parse(request.args)))


def address(wanted: Wanted, path: str = PAGE, open_id: str = "", **changes: Any) -> str:
    """An address of this page, or of a part of it, for what is wanted.

    >>> address(Wanted(text="a b"), status="error"), address(Wanted(), open_id="req/1")
    ('/dashboard/usage?q=a+b&status=error', '/dashboard/usage/req%2F1')
    """
    query = urlencode(wanted.query(**changes))
    place = f"{path}/{quote(open_id, safe='')}" if open_id else path
    return f"{place}?{query}" if query else place


def _open_id() -> str:
    """The request whose drawer is open on the page that asks."""
    path = urlsplit(htmx.current_url or "").path
    return path.removeprefix(f"{PAGE}/") if path.startswith(f"{PAGE}/") else ""


class _Log:
    """What the page asks of the database."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._hermes = site.hermes
        self._names = Kept(self._read_names, NAMES_S)

    def values(self, wanted: Wanted) -> dict[str, Any]:
        """Of the page's part."""
        shown: dict[str, Any] = {
            **_common(wanted),
            "trouble": "",
            "ranges": [(name, label) for name, (label, _) in RANGES.items()],
            "saved": SAVED,
            "view_name": saved_view(wanted),
            "chips": chips_of(wanted),
            "base_url": f"{request.url_root}v1",
        }
        try:
            self._hermes.drain.flush(FLUSH_WAIT_S)
            return shown | self._found(wanted)
        except DatabaseUnavailable as error:
            empty = {"lines": [], "more": None, "found": "", "figure": None, "picks": picks_of(wanted, {}), "new": None}
            empty["best"] = None
            return shown | empty | {"trouble": error.message, "is_first_use": False, "ways_out": []}

    def rows(self, wanted: Wanted) -> dict[str, Any]:
        """The next rows behind `before`."""
        now = _now()
        page = browse.page(self._hermes.database, self.filter(wanted, now), wanted.before, ROWS)
        more = None if page.behind is None else {"mark": mark_text(page.behind), "looked_at": page.looked_at}
        if more and page.behind:
            more["until"] = shown_time(page.behind.at)
        return {**_common(wanted), "lines": [line_of(row, now) for row in page.rows], "more": more, "raw": page.rows}

    def new(self, wanted: Wanted, above: Mark | None) -> dict[str, Any]:
        """How much is new above a row; nothing without one."""
        number = 0
        if above is not None:
            number = browse.count_some(self._hermes.database, self.filter(wanted, _now()), MOST_NEW + 1, above)
        return {**_common(wanted), "new": {"above": mark_text(above or Mark("0", 0)), "number": number}}

    def request(self, request_id: str, wanted: Wanted) -> dict[str, Any]:
        """Of the drawer.

        Raises:
            NotFound: there is no such request.
        """
        view = request_view(self._hermes.receipt(request_id))
        try:
            near = browse.beside(self._hermes.database, self.filter(wanted, _now()), Mark.of(view.row))
        except DatabaseUnavailable:
            near = Beside(None, None)
        ago_s = time.time() - datetime.fromisoformat(view.row["created_at"]).timestamp()
        return {"view": view, "near": near, "ago_s": ago_s, "wanted": wanted, "address": address, "part": DRAWER}

    def filter(self, wanted: Wanted, now: datetime) -> UsageFilter:
        """What is asked of the log, what the text may mean included."""
        narrow = wanted.filter(now)
        return meaning(self._hermes.database, narrow, wanted.text) if wanted.text else narrow

    def _found(self, wanted: Wanted) -> dict[str, Any]:
        now = _now()
        narrow = self.filter(wanted, now)
        if wanted.sort:
            best = browse.greatest(self._hermes.database, narrow, wanted.sort, SORTED_ROWS)
            lines = [line_of(row, now) for row in best.rows]
            piece: dict[str, Any] = {"lines": lines, "more": None, "raw": best.rows, "best": best}
        else:
            piece = self.rows(wanted)
        if not wanted.sort and wanted.before is None and len(piece["raw"]) < ROWS:
            counted = Counted(len(piece["raw"]), is_all=piece["more"] is None)  # all that were found are here
        else:
            counted = browse.count(self._hermes.database, narrow, MOST_COUNTED + 1)
        figure = self._bars(narrow, now)
        is_empty = not piece["raw"] and wanted.before is None
        is_live = not wanted.sort and wanted.before is None and not wanted.until
        above = Mark.of(piece["raw"][0]) if piece["raw"] else Mark("0001-01-01T00:00:00.000Z", 0)
        return {
            **piece,
            "found": _number(counted, figure if figure.plan.is_exact else None),
            "figure": figure,
            "picks": picks_of(wanted, self._offered()),
            "new": {"above": mark_text(above), "number": 0} if is_live else None,
            "is_first_use": is_empty and not browse.count_some(self._hermes.database, UsageFilter(), 1),
            "ways_out": chips_of(wanted, self._count) if is_empty else [],
        }

    def _count(self, wanted: Wanted) -> str:
        return _number(browse.count(self._hermes.database, self.filter(wanted, _now()), MOST_COUNTED + 1), None)

    def _bars(self, narrow: UsageFilter, now: datetime) -> bars.Bars:
        asked, reports = bars.plan(narrow, now), self._hermes.reports
        if asked.named:
            step: Any = "day" if asked.chars == 10 else "hour"
            points = reports.series(asked.start, asked.end, step, asked.named, [asked.name])
            return bars.bars_of(bars.of_points(points), asked)
        found = reports.bars(asked.start, asked.end, asked.chars, asked.model, asked.decision)
        return bars.bars_of(found, asked)

    def _offered(self) -> dict[str, list[str]]:
        endpoints = self._hermes.policies.current().endpoints().values()
        return {**self._names.get(), "model": sorted({endpoint.model for endpoint in endpoints})}

    def _read_names(self) -> dict[str, list[str]]:
        now = _now()
        return {
            column: [
                name
                for name, _ in self._hermes.reports.top(
                    now - timedelta(days=1), now, dimension, MOST_OFFERED, "requests"
                )
            ]
            for column, dimension in bars.NAMED.items()
        }


def _csv(database: Database, log: _Log, wanted: Wanted) -> Iterator[str]:
    """The file, page by page; it begins before the database is asked."""
    yield from export.csv_lines(())
    narrow = log.filter(replace(wanted, before=None), _now())
    for page in export.pages(database, narrow):
        yield "".join(export.csv_lines(page, header=False))


def _common(wanted: Wanted) -> dict[str, Any]:
    return {"wanted": wanted, "address": address, "page": PAGE, "part": PART, "drawer_part": DRAWER}


def _number(counted: Counted, figure: bars.Bars | None) -> str:
    """How many there are, as far as they were counted."""
    if counted.number <= MOST_COUNTED and (counted.is_all or (figure is not None and not figure.requests)):
        return f"{counted.number:,}"
    if figure is not None:
        return f"about {figure.requests:,}"
    return f"more than {MOST_COUNTED:,}" if counted.number > MOST_COUNTED else f"at least {counted.number:,}"


def _now() -> datetime:
    return datetime.now(UTC)
