"""`GET /classifier/report`: how the router decides, and how well, as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from flask import Blueprint, Response, jsonify, request

from hermes.errors import InvalidRequest
from hermes.instance import Hermes
from hermes.learning.live import REPORT_HOURS

PageFor = Callable[[], Response | None]
"""The page, for a browser that an operator has signed in with; None for anybody else."""

MOST_HOURS: Final = 24.0 * 366


def add_routes(bp: Blueprint, hermes: Hermes, page: PageFor) -> None:
    """Adds the route to the operators' blueprint, which closes it.

    Args:
        page: what browsers get, unless they ask for `?format=json`.
    """

    @bp.get("/classifier/report")
    def classifier_report() -> Response:
        shown = page() if wants_page(request.args.get("format", "")) else None
        if shown is not None:
            return shown
        return jsonify(hermes.classifier_report(hours_of(request.args.get("hours", ""))))


def wants_page(form: str) -> bool:
    """Whether somebody wants to read it: the format says so, or else what the browser takes."""
    best = request.accept_mimetypes.best_match(("application/json", "text/html"))
    return form == "html" or (form != "json" and best == "text/html")


def hours_of(text: str) -> float:
    """How far back a report shall look; a week where nothing is said.

    Raises:
        InvalidRequest: it is no number of hours.
    """
    try:
        hours = float(text) if text.strip() else REPORT_HOURS
    except ValueError:
        hours = math.nan
    if not 0 < hours <= MOST_HOURS:
        raise InvalidRequest(f"hours must be a number from 0 to {MOST_HOURS:.0f}", param="hours")
    return hours
