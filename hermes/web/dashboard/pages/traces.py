"""Traces: what the router has done, line by line, live; filters are in the address, the lines also a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from flask import Blueprint, Response, request

from hermes.errors import Overloaded
from hermes.observe.trace import utc_ms
from hermes.observe.tracefiles import Event
from hermes.observe.tracewords import plain
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.tail import Tail
from hermes.web.dashboard.views.traces import EVENTS, ROWS, Wanted, line_of, lines_of
from hermes.web.lasting import lasting

PAGE: Final = "/dashboard/traces"
BEAT_S: Final = 0.5
"""A stream without events says that it lives: so a reader who has left is noticed, the end of the process, and that of
the session.
"""

STREAM_S: Final = 300.0
"""After this the browser connects anew."""

MOST_FOLLOWERS: Final = 100
"""Streams of one worker. Each is looked through for every event, which completions must not wait for."""

RETRY_AFTER_S: Final = 30.0
LINES_AT_ONCE: Final = 60
ROWS_KEPT: Final = 2048
FILE_LINES: Final = 20_000
LINES_IN_A_PIECE: Final = 200


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/traces` and what belongs to it."""
    tail = Tail(Path(site.hermes.settings.trace_log_dir))
    rows = Rows(lambda event: site.frame.text("_trace_rows.html", lines=[line_of(event)], is_new=True))

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
        if tail.followers >= MOST_FOLLOWERS:
            raise Overloaded(
                f"{MOST_FOLLOWERS} pages follow the traces already; this one shows what is new when one is closed.",
                retry_after_s=RETRY_AFTER_S,
            )
        wanted = Wanted.parse(request.args)
        after = request.headers.get("Last-Event-ID") or request.args.get("after", "")
        messages = _messages(site, tail, rows, wanted, after, site.door.watch())
        response = Response(lasting(messages), mimetype="text/event-stream")
        response.headers["X-Accel-Buffering"] = "no"
        return response

    @bp.get(f"{PAGE}/traces.jsonl")
    def file() -> Response:
        wanted = Wanted.parse(request.args)

        def pieces() -> Iterator[bytes]:
            events = tail.last(FILE_LINES, wanted.fits)
            for first in range(0, len(events), LINES_IN_A_PIECE):
                part = events[first : first + LINES_IN_A_PIECE]
                yield b"".join(orjson.dumps(event) + b"\n" for event in part)

        return site.export("hermes-traces.jsonl", pieces, "application/x-ndjson")


def address(wanted: Wanted, path: str = PAGE, **changes: Any) -> str:
    """An address of this page for what is wanted.

    >>> address(Wanted(event="route"), q="a b")
    '/dashboard/traces?event=route&q=a+b'
    """
    query = urlencode(wanted.query(**changes))
    return f"{path}?{query}" if query else path


class Rows:
    """The rows of events as a stream has them, each rendered once for all who follow."""

    def __init__(self, render: Callable[[Event], str]) -> None:
        @lru_cache(maxsize=ROWS_KEPT)
        def row(event: bytes) -> bytes:
            lines = render(orjson.loads(event)).encode().splitlines()
            return b"".join(b"data: " + line + b"\n" for line in lines if line.strip())

        self._row = row

    def message(self, events: Sequence[Event]) -> bytes:
        """One message with all of them, the newest on top, named by its time.

        Args:
            events: the oldest first; at least one.
        """
        name = f"id: {plain(events[-1].get('ts'))}\n".encode()
        return name + b"".join(self._row(orjson.dumps(event)) for event in reversed(events)) + b"\n"


def _messages(
    site: Site, tail: Tail, rows: Rows, wanted: Wanted, after: str, is_admitted: Callable[[], bool]
) -> Iterator[bytes]:
    """
    Args:
        after: the time of the last event that the page shows; also each message's name, for a stream that broke.
        is_admitted: whether the operator may still be told.
    """
    for events in tail.follow(after, BEAT_S, STREAM_S):
        if site.hermes.is_draining or not is_admitted():
            return
        fitting = [event for event in events if wanted.fits(event)][-LINES_AT_ONCE:]
        yield rows.message(fitting) if fitting else b": still here\n\n"
