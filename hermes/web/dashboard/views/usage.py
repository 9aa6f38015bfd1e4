"""The usage log's page: what its address asks for, the filters as chips, a row of the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

from hermes.errors import InvalidRequest
from hermes.observe.tracewords import plain
from hermes.storage.browse import SORTS, Mark, Sort
from hermes.storage.usage_filter import CHOICES, FAILED, FAILURES, UsageFilter, utc_text
from hermes.types import TIERS, Source

RANGES: Final[Mapping[str, tuple[str, timedelta | None]]] = {
    "1h": ("1 h", timedelta(hours=1)),
    "6h": ("6 h", timedelta(hours=6)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 d", timedelta(days=7)),
    "30d": ("30 d", timedelta(days=30)),
    "all": ("All", None),
}
USUAL_RANGE: Final = "24h"
SLOW_MS: Final = 5000

LABELS: Final[Mapping[str, str]] = {
    "function_name": "Function",
    "user_id": "User",
    "model": "Model",
    "tier": "Tier",
    "decision": "Decided by",
    "status": "Status",
    "key_id": "Key",
    "session_key": "Session",
    "fallback": "Fallback",
    "min_duration_ms": "Slower than",
}
"""The filters that stand in the address under their own names."""

OFFERED: Final = ("function_name", "user_id", "model", "key_id", "tier", "decision", "status")
FIXED: Final[Mapping[str, tuple[str, ...]]] = {
    "tier": TIERS,
    "decision": get_args(Source),
    "status": ("ok", FAILED, *(status for status in CHOICES["status"] if status not in ("ok", FAILED))),
}
SAVED: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("All", {"status": "", "fallback": "", "min_duration_ms": ""}),
    ("Failed", {"status": FAILED, "fallback": "", "min_duration_ms": ""}),
    ("Fallback", {"status": "", "fallback": "1", "min_duration_ms": ""}),
    ("Slow", {"status": "", "fallback": "", "min_duration_ms": str(SLOW_MS)}),
)
STATES: Final[Mapping[str, tuple[str, str]]] = {
    "ok": ("ok", "Answered"),
    "error": ("bad", "Failed"),
    "interrupted": ("bad", "Broken off"),
    "refused": ("warn", "Refused"),
    "client_disconnected": ("idle", "Caller left"),
}
"""The mark and the word of each status."""

STAGES: Final[Mapping[str, int]] = {"session": 0, "override": 1, "surrogate": 2, "teacher": 3}
FULL_METER_MS: Final = 9500.0
MARK: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)~(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    text: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    range: str = USUAL_RANGE
    since: str = ""
    until: str = ""
    """A range of one's own, as the log writes times; it counts instead of `range`."""

    sort: Sort | None = None
    before: Mark | None = None

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """Reads a query; what makes no sense in it is as if it were not there."""
        given = {name: args.get(name, "").strip()[:512] for name in LABELS}
        times = {name: args.get(name, "").strip()[:40] for name in ("from", "to")}
        span = UsageFilter.parse({name: value for name, value in times.items() if _is_possible(name, value)})
        sort = args.get("sort", "")
        return cls(
            args.get("q", "").strip()[:200],
            {name: value for name, value in given.items() if value and _is_possible(name, value)},
            args["range"] if args.get("range") in RANGES else USUAL_RANGE,
            span.since or "",
            span.until or "",
            next((known for known in SORTS if known == sort), None),
            mark_of(args.get("before", "")),
        )

    def query(self, **changes: Any) -> dict[str, Any]:
        """The query that asks for this, with some of it changed; what is as usual is left out."""
        values = {"q": self.text, **self.filters, "range": self.range, "from": self.since, "to": self.until}
        values |= {"sort": self.sort or "", **changes}
        if values["from"] or values["to"] or values["range"] == USUAL_RANGE:
            values["range"] = ""
        return {name: value for name, value in values.items() if value != ""}

    def filter(self, now: datetime) -> UsageFilter:
        """What is asked of the log; the text is not in it yet."""
        wanted = UsageFilter.parse({**self.filters})
        length = None if self.since or self.until else RANGES[self.range][1]
        since = self.since or (utc_text(now - length) if length else None)
        return replace(wanted, since=since or None, until=self.until or None)

    def range_name(self) -> str:
        """The range in words, behind "requests"."""
        if self.since or self.until:
            parts = [f"since {shown_time(self.since)}" if self.since else ""]
            parts.append(f"until {shown_time(self.until)}" if self.until else "")
            return " ".join(part for part in parts if part)
        return {
            "1h": "in 1 hour",
            "6h": "in 6 hours",
            "24h": "in 24 hours",
            "7d": "in 7 days",
            "30d": "in 30 days",
        }.get(self.range, "in all")

    @property
    def is_filtered(self) -> bool:
        """Whether anything but the range narrows it."""
        return bool(self.text or self.filters)


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is on."""

    label: str
    value: str
    without: Mapping[str, str]
    """The changes of the query that take it away."""

    left: str = ""
    """How many requests there are without it, where that is said."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A filter that may be put on."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    """Values, and how they are shown."""

    is_free: bool
    """Whether other values may be typed."""


@dataclass(frozen=True, slots=True)
class Line:
    """A request as a row."""

    request_id: str
    at: str
    ago_s: float
    function_name: str
    user_id: str
    tier: str
    decision: str
    stage: int | None
    """The station of the glyph; None: it was not decided at one."""

    model: str
    tries: str
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    duration_ms: float | None
    mark: str
    status: str
    is_bad: bool

    @property
    def share(self) -> float:
        """Of the latency's meter, in percent."""
        return 0.0 if self.duration_ms is None else self.duration_ms / FULL_METER_MS * 100


def line_of(row: Mapping[str, Any], now: datetime) -> Line:
    """A row of the log as it is shown."""
    mark, word = STATES.get(row["status"], ("idle", plain(row["status"])))
    decision = plain(row["decision"])
    attempts = min(int(row["attempts"] or 0), 12)
    is_answered = row["status"] in ("ok", "interrupted", "client_disconnected")
    tries = "f" * max(0, attempts - 1) + ("o" if is_answered else "f") if attempts else ""
    return Line(
        row["request_id"],
        row["created_at"],
        (now - datetime.fromisoformat(row["created_at"])).total_seconds(),
        plain(row["function_name"]),
        plain(row["user_id"]),
        plain(row["tier"]),
        decision,
        STAGES.get(decision),
        plain(row["model"]) if is_answered else "",
        tries if len(tries) > 1 or "f" in tries else "",
        row["prompt_tokens"],
        row["completion_tokens"],
        row["estimated_cost_usd"],
        row["duration_ms"],
        mark,
        word,
        row["status"] in FAILURES,
    )


def chips_of(wanted: Wanted, count: Callable[[Wanted], str] | None = None) -> list[Chip]:
    """The filters that are on.

    Args:
        count: says how many requests there are for what is wanted; for who has found none.
    """
    chips = [(LABELS[name], _value_name(name, value), {name: ""}) for name, value in wanted.filters.items()]
    if wanted.text:
        chips.append(("Text", wanted.text, {"q": ""}))
    if wanted.since or wanted.until:
        chips.append(("Time", wanted.range_name(), {"from": "", "to": ""}))
    made = [Chip(label, plain(value), without) for label, value, without in chips]
    if count is None:
        return made
    return [replace(chip, left=count(Wanted.parse(wanted.query(**chip.without)))) for chip in made]


def picks_of(wanted: Wanted, names: Mapping[str, Collection[str]]) -> list[Pick]:
    """The filters that may be put on.

    Args:
        names: what is offered of users, functions, models and keys.
    """
    return [
        Pick(
            name,
            LABELS[name],
            [(value, _value_name(name, value)) for value in FIXED.get(name, names.get(name, ())) if value],
            name not in FIXED,
        )
        for name in OFFERED
        if name not in wanted.filters
    ]


def saved_view(wanted: Wanted) -> str:
    """Which of the saved views is open; empty: none."""
    return next(
        (label for label, changes in SAVED if all(wanted.filters.get(n, "") == v for n, v in changes.items())), ""
    )


def mark_of(text: str) -> Mark | None:
    """A place as the address has it.

    >>> mark_of("2026-05-10T13:33:00.123Z~42")
    Mark(at='2026-05-10T13:33:00.123Z', number=42)
    """
    found = MARK.fullmatch(text)
    return Mark(found[1], int(found[2])) if found else None


def mark_text(mark: Mark) -> str:
    """The same back."""
    return f"{mark.at}~{mark.number}"


def shown_time(at: str) -> str:
    """A time of the log, to the minute.

    >>> shown_time("2026-05-10T13:33:00.123Z")
    '10 May 13:33'
    """
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%-d %b %H:%M")


def _value_name(name: str, value: str) -> str:
    if name == "status":
        return "Failed or broken off" if value == FAILED else STATES.get(value, ("", value))[1]
    if name == "min_duration_ms":
        return f"{int(value) / 1000:g} s"
    return "yes" if name == "fallback" else plain(value)


def _is_possible(name: str, value: str) -> bool:
    if name == "fallback" and value != "1":
        return False
    try:
        UsageFilter.parse({name: value})
    except InvalidRequest:
        return False
    return True
