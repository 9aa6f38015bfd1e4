"""`GET /admin/traces`: the last events of the trace files, as `traces tail` shows them, for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
from flask import Blueprint, Response, request

from hermes.errors import InvalidRequest
from hermes.instance import Hermes
from hermes.observe.tracefiles import Wanted, wanted_by
from hermes.observe.tracewords import SAID
from hermes.web.dashboard.tail import Tail
from hermes.web.http import limit_of

FILTERS: Final = ("event", "session_key", "request_id")
LINES: Final = 100
LINES_MAX: Final = 1000
SHOWN_CHARS: Final = 100


def add_routes(bp: Blueprint, hermes: Hermes) -> None:
    """Adds the route to the operators' blueprint, which closes it."""
    tail = Tail(Path(hermes.settings.trace_log_dir))

    @bp.get("/admin/traces")
    def traces() -> Response:
        wanted, limit = wanted_of(request.args), limit_of(request.args, LINES, LINES_MAX)
        events = tail.last(limit, wanted)
        # Not by `jsonify`, to which a thousand events are 20 ms of the event loop's time: this takes 2.
        return Response(orjson.dumps({"events": events[::-1]}), content_type="application/json")


def wanted_of(args: Mapping[str, str]) -> Wanted:
    """A function that tells which events a query means: by `event`, by `session_key`, whose beginning will do, and by
    `request_id`. Empty is not given.

    Raises:
        InvalidRequest: a parameter is not known, or there is no such event.
    """
    for name in args:
        if name not in (*FILTERS, "limit"):
            known = ", ".join((*FILTERS, "limit"))
            raise InvalidRequest(
                f"There is no filter {name[:SHOWN_CHARS]!r}; those are {known}.", param=name[:SHOWN_CHARS]
            )
    event = args.get("event", "")
    if event and event not in SAID:
        raise InvalidRequest(f"event must be one of {', '.join(SAID)}.", param="event")
    return wanted_by([event] if event else [], args.get("session_key") or None, args.get("request_id") or None)
