"""Residency and PII: where each kind of request may go, what was masked, and whether anything has left its bounds."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from flask import Blueprint, Response, request

from hermes.storage.export import FORMULA_STARTS
from hermes.storage.residency import Hit
from hermes.web.dashboard.attempted import attempted
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.residency import RANGES, USUAL, ResidencyView, residency_view

KEPT_S: Final = 1.0
HITS_SHOWN: Final = 20
HITS_IN_A_FILE: Final = 10_000
COLUMNS: Final = ("created_at", "request_id", "action", "found", "function_name", "text_as_sent")


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/residency` and what belongs to it."""
    views = {name: Kept(_reader(site, name), KEPT_S) for name in RANGES}

    def values(name: str) -> dict[str, Any]:
        view, trouble = attempted(views[name].get)
        return {"view": view, "trouble": trouble, "range": name}

    @bp.get("/dashboard/residency")
    def residency() -> Response:
        name = _range()
        views[name].forget()
        return site.frame.page("residency.html", ranges=tuple(RANGES), **values(name))

    @bp.get("/dashboard/ui/residency")
    def residency_part() -> Response:
        name = _range()
        return site.frame.shared("_residency.html", name, lambda: values(name))

    @bp.get("/dashboard/residency/hits.csv")
    def hits_csv() -> Response:
        name = _range()

        def pieces() -> list[str]:
            now = datetime.now(UTC)
            rows = [_row(hit) for hit in site.hermes.residency.hits(now - RANGES[name], now, HITS_IN_A_FILE)]
            return [_csv([COLUMNS, *rows])]

        return site.export(f"hermes-residency-{name}.csv", pieces)


def _range() -> str:
    name = request.args.get("range", "")
    return name if name in RANGES else USUAL


def _reader(site: Site, name: str) -> Any:
    def read() -> ResidencyView:
        hermes, now = site.hermes, datetime.now(UTC)
        hermes.drain.flush(1.0)
        start = now - RANGES[name]
        return residency_view(
            hermes.policies.current(),
            name,
            hermes.residency.sums(start, now),
            hermes.residency.hits(start, now, HITS_SHOWN),
            time.time(),
            lambda at: datetime.fromisoformat(at).timestamp(),
        )

    return read


def _csv(rows: Iterable[Sequence[str]]) -> str:
    """The file; a spreadsheet must take no caller's text for a formula."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerows([f"'{cell}" if cell[:1] in FORMULA_STARTS else cell for cell in row] for row in rows)
    return file.getvalue()


def _row(hit: Hit) -> list[str]:
    found = " ".join(f"{kind}:{number}" for kind, number in hit.found.items())
    return [hit.created_at, hit.request_id, hit.action, found, hit.function_name or "", hit.preview or ""]
