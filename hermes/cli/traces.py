"""`traces tail`: the last events of the trace files, and those that come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click
import orjson

from hermes.cli.traceline import line_of
from hermes.errors import StartRefused
from hermes.observe.tracefiles import Event, TraceFiles, Wanted, wanted_by
from hermes.observe.tracewords import SAID
from hermes.settings import Settings

POLL_S: Final = 0.25


@click.group()
def traces() -> None:
    """Look at what was decided and done, request by request."""


@traces.command()
@click.option("-n", "number", type=click.IntRange(0), default=20, show_default=True, help="How many events.")
@click.option("-f", "--follow", is_flag=True, help="Go on with those that come, until Ctrl-C.")
@click.option("--event", "events", multiple=True, type=click.Choice(tuple(SAID)), help="Only these; may be repeated.")
@click.option("--session", help="Only this conversation; the beginning of its key will do.")
@click.option("--request", "request_id", help="Only this request.")
@click.option("--json", "json_wanted", is_flag=True, help="Print the events as they are, one JSON object a line.")
def tail(
    number: int, follow: bool, events: tuple[str, ...], session: str | None, request_id: str | None, json_wanted: bool
) -> int:
    """Show the last events, the newest at the end.

    They come from the trace files in TRACE_LOG_DIR.

    Each line has time (UTC), event, conversation, tier, what matters, and the request's id.
    """
    settings = Settings.from_env()
    folder = Path(settings.trace_log_dir)
    if not follow and not folder.is_dir():
        why = "" if settings.trace_log_enabled else " TRACE_LOG_ENABLED switches traces off."
        raise StartRefused(f"There is no folder {folder}; TRACE_LOG_DIR names another one.{why}")
    wanted = wanted_by(events, session, request_id)
    show = _show_json if json_wanted else _show_line
    with TraceFiles(folder) as files:
        shown = _show_all(files.last(number, wanted), show)
        if not follow:
            if not shown:
                click.echo(f"No event in {folder} matches.", err=True)
        else:
            _follow(files, wanted, show)
        if files.unreadable:
            click.echo(f"Lines passed over, as they are no events: {files.unreadable}.", err=True)
    return 0


def _follow(files: TraceFiles, wanted: Wanted, show: Callable[[Event], None]) -> None:
    try:
        while True:
            _show_all(filter(wanted, files.more()), show)
            time.sleep(POLL_S)
    except KeyboardInterrupt:  # how one stops looking; no failure
        click.echo(err=True)


def _show_all(events: Iterable[Event], show: Callable[[Event], None]) -> int:
    count = 0
    for event in events:
        show(event)
        count += 1
    return count


def _show_line(event: Event) -> None:
    click.echo(line_of(event))


def _show_json(event: Event) -> None:
    click.echo(orjson.dumps(event))
