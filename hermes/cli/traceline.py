"""A trace event as one line for people: when, what, which conversation, which tier, and what matters of it.

Nothing of what strangers have written reaches the terminal that it would obey: see `observe.tracewords`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from hermes.observe.tracewords import plain, said_of

Event = Mapping[str, Any]

SESSION_CHARS: Final = 8
"""Of the session's key: enough to tell conversations apart, and `--session` takes a beginning."""

COLOURS: Final = {"stream_error": "red", "circuit": "red", "deviation": "yellow", "key_rotation": "yellow"}


def line_of(event: Event) -> str:
    """The line, with colours; `click.echo` takes them away where nobody sees them.

    >>> click.unstyle(line_of({"ts": "2026-05-10T13:33:00.123Z", "event": "cache_hit", "session_key": "a1b2c3d4e5",
    ...     "tier": "simple", "model": "m", "age_sec": 42.0, "request_id": "req_1"}))
    '2026-05-10 13:33:00.123Z  cache_hit     a1b2c3d4  simple   m, classified 42 s ago  req_1'
    """
    name = plain(event.get("event"))
    when = plain(event.get("ts")).replace("T", " ")
    session = plain(event.get("session_key"))[:SESSION_CHARS] or "-"
    tier = plain(event.get("tier") or event.get("new_tier")) or "-"
    ending = click.style(plain(event.get("request_id")), dim=True)
    styled = click.style(f"{name:<12}", fg=COLOURS.get(name, "cyan"))
    return f"{when}  {styled}  {session:<8}  {tier:<7}  {said_of(event)}  {ending}".rstrip()
