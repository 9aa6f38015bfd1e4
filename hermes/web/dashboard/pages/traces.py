"""Traces: what the router has done, line by line, live; filters are in the address, the lines also a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from flask import Blueprint, Response, request

from hermes.observe.trace import utc_ms
from hermes.observe.tracewords import plain
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.tail import Tail
from hermes.web.dashboard.views.traces import EVENTS, ROWS, Wanted, lines_of

PAGE: Final = "/dashboard/traces"
BEAT_S: Final = 1.0
"""A stream without events says that it lives: so a reader who has left is noticed, and the end of the process."""

STREAM_S: Final = 300.0
"""After this the browser connects anew, and the session is looked at again."""

LINES_AT_ONCE: Final = 60
FILE_LINES: Final = 20_000


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/traces` and what belongs to it."""
    tail = Tail(Path(site.hermes.settings.trace_log_dir))

    def values(wanted: Wanted) -> dict[str, Any]:
        found = tail.last(ROWS, wanted.fits)
        return {
            "lines": lines_of(reversed(found)),
            "after": plain(found[-1].get("ts")) if found else utc_ms(time.time()),
            "wanted": wanted,
            "events": EVENTS,
            "address": address,
            "on": site.hermes.settings.trace_log_enabled,
        }

    @bp.get(PAGE)
    def traces() -> Response:
        return site.frame.page("traces.html", **values(Wanted.parse(request.args)))

    @bp.get("/dashboard/ui/traces")
    def traces_part() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.fragment("_traces.html", **values(wanted))
        response.headers["HX-Push-Url"] = address(wanted)
        return response

    @bp.get("/dashboard/ui/traces/stream")
    def stream() -> Response:
        wanted = Wanted.parse(request.args)
        after = request.headers.get("Last-Event-ID") or request.args.get("after", "")
        response = Response(_messages(site, tail, wanted, after), mimetype="text/event-stream")
        response.headers["X-Accel-Buffering"] = "no"
        return response

    @bp.get(f"{PAGE}/traces.jsonl")
    def file() -> Response:
        events = tail.last(FILE_LINES, Wanted.parse(request.args).fits)
        response = Response((orjson.dumps(event) + b"\n" for event in events), mimetype="application/x-ndjson")
        response.headers["Content-Disposition"] = 'attachment; filename="hermes-traces.jsonl"'
        return response


def address(wanted: Wanted, path: str = PAGE, **changes: Any) -> str:
    """An address of this page for what is wanted.

    >>> address(Wanted(event="route"), q="a b")
    '/dashboard/traces?event=route&q=a+b'
    """
    query = urlencode(wanted.query(**changes))
    return f"{path}?{query}" if query else path


def _messages(site: Site, tail: Tail, wanted: Wanted, after: str) -> Iterator[bytes]:
    """
    Args:
        after: the time of the last event that the page shows; also each message's name, for a stream that broke.
    """
    for events in tail.follow(after, BEAT_S, STREAM_S):
        if site.hermes.is_draining:
            return
        fitting = [event for event in events if wanted.fits(event)][-LINES_AT_ONCE:]
        if not fitting:
            yield b": still here\n\n"
            continue
        rows = site.frame.text("_trace_rows.html", lines=lines_of(reversed(fitting)), is_new=True)
        name = f"id: {plain(fitting[-1].get('ts'))}\n".encode()
        yield name + b"".join(b"data: " + line + b"\n" for line in rows.encode().splitlines() if line.strip()) + b"\n"
