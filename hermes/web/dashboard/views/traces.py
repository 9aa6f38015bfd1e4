"""The traces page: what the router has done, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes.observe.tracefiles import Event
from hermes.observe.tracewords import plain, said_of

EVENTS: Final = ("classify", "cache_hit", "deviation", "route", "circuit", "key_rotation", "stream_error")
ROWS: Final = 200
MOST_CHARS: Final = 400
SESSION_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One event as a row."""

    at: str
    """The whole time, UTC."""

    time: str
    """Its time of day."""

    name: str
    kind: str
    """`bad` or `warn`, where somebody may have to act."""

    session: str
    request_id: str
    said: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    event: str = ""
    text: str = ""
    follows: bool = True

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """Reads a query; what makes no sense in it is as if it were not there."""
        event = args.get("event", "")
        text = args.get("q", "").strip()[:200]
        return cls(event if event in EVENTS else "", text, args.get("follow", "1") != "0")

    def query(self, **changes: Any) -> dict[str, Any]:
        """The query that asks for this, with some of it changed; what is as usual is left out."""
        values = {"event": self.event, "q": self.text, "follow": "" if self.follows else "0", **changes}
        return {name: value for name, value in values.items() if value != ""}

    def fits(self, event: Event) -> bool:
        """Whether an event is meant: by its name, and by any text that stands in it."""
        if self.event and event.get("event") != self.event:
            return False
        text = self.text.lower()
        return not text or any(text in str(value).lower() for value in event.values())


def lines_of(events: Iterable[Event]) -> list[Line]:
    """The rows of events, in their order."""
    return [line_of(event) for event in events]


def line_of(event: Event) -> Line:
    """One row."""
    at, name = plain(event.get("ts")), plain(event.get("event"))
    tier = plain(event.get("tier") or event.get("new_tier"))
    said = said_of(event)
    return Line(
        at,
        at.partition("T")[2].rstrip("Z") or at,
        name[:40],
        _kind(name, event),
        plain(event.get("session_key")),
        plain(event.get("request_id")),
        (f"{tier}: {said}" if tier else said)[:MOST_CHARS],
    )


def _kind(name: str, event: Event) -> str:
    if name == "stream_error" or (name == "circuit" and event.get("new_state") == "open"):
        return "bad"
    status = event.get("upstream_status")
    failed = name == "route" and isinstance(status, int) and status >= 400
    return "warn" if name in ("key_rotation", "deviation", "circuit") or failed else ""
