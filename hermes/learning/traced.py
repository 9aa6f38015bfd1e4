"""Requests as trace files tell of them: the same that the database records, without tokens and cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hermes.observe.tracefiles import Event, TraceFiles
from hermes.storage.recorded import Recorded
from hermes.types import TIERS

MOST_EVENTS: Final = 1_000_000
TOLD_BY: Final = ("classify", "cache_hit", "deviation", "route")


def recorded_in(folder: Path, since: str) -> list[Recorded]:
    """The requests of a folder of traces from a moment on, the oldest first.

    A request whose end is not told is none yet.

    Blocks: about a second for 100 MB.
    """
    requests: dict[str, dict[str, Event]] = {}
    with TraceFiles(folder) as files:
        for event in files.last(MOST_EVENTS, lambda event: _is_told(event, since)):
            requests.setdefault(event["request_id"], {})[event["event"]] = event
    return [_recorded(events) for events in requests.values() if _is_whole(events)]


def _is_told(event: Event, since: str) -> bool:
    at = event.get("ts")
    is_named = isinstance(event.get("request_id"), str) and event["request_id"] != ""
    return is_named and event.get("event") in TOLD_BY and isinstance(at, str) and at >= since


def _is_whole(events: Mapping[str, Event]) -> bool:
    return "route" in events and events["route"].get("tier") in TIERS


def _recorded(events: Mapping[str, Event]) -> Recorded:
    route, classified = events["route"], events.get("classify")
    if classified is not None:
        decision = _text(classified, "source") or "default"
    else:  # whoever forces a tier is not classified, and nothing else is told of it
        decision = "session" if "cache_hit" in events else "header"
    return Recorded(
        created_at=str((classified or events.get("cache_hit") or route)["ts"]),
        session_key=_text(route, "session_key"),
        key_id=None,
        decision=decision,
        tier=str(route["tier"]),
        model=_text(route, "fallback_model") or _text(route, "model"),
        text=_text(classified or {}, "user_message_preview"),
        prompt_tokens=None,
        completion_tokens=None,
        cached_tokens=None,
        cost_usd=None,
        deviated="deviation" in events,
    )


def _text(event: Mapping[str, Any], name: str) -> str | None:
    value = event.get(name)
    return value if isinstance(value, str) and value else None
