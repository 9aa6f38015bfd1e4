"""The strip that stands on every page: whether it serves, what is broken, how much runs, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.web.dashboard.views.pulse import Traffic

SHOWN_MINUTES = 24
LATENCY_MINUTES = 15
SHARE_95 = 0.95
PERCENT_OF_NANO = 1e-7


@dataclass(frozen=True, slots=True)
class Count:
    """What stands beside an entry of the navigation."""

    text: str
    kind: str = ""
    """`bad` or `warn`, where it says so."""


@dataclass(frozen=True, slots=True)
class Strip:
    """The figures. None is unknown, and not shown."""

    is_on: bool
    circuits_open: int
    circuits_probing: int
    per_minute: int | None
    spark: tuple[int, ...]
    failed_share: float | None
    p95_ms: float | None
    spent_usd: float | None
    limit_usd: float | None
    counts: Mapping[str, Count] = field(default_factory=dict)

    @property
    def used_percent(self) -> float | None:
        """How much of today's budget is spent; None without one."""
        if self.spent_usd is None or not self.limit_usd:
            return None
        return self.spent_usd / self.limit_usd * 100


def strip_of(
    *,
    is_on: bool,
    states: list[str],
    sessions: int,
    traffic: tuple[Traffic, float] | None,
    limit_usd: float | None,
    more_counts: Mapping[str, Count] | None = None,
) -> Strip:
    """
    Args:
        states: of every circuit.
        traffic: the last hour and what was spent today; None where the log cannot be read.
        more_counts: of the entries of further pages, by their names.
    """
    opened = states.count("open")
    probing = states.count("half_open")
    counts = {"sessions": Count(f"{sessions:,}")} if sessions else {}
    if opened:
        counts["circuits"] = Count(f"{opened} open", "bad")
    elif probing:
        counts["circuits"] = Count(f"{probing} half open", "warn")
    counts |= more_counts or {}
    if traffic is None:
        return Strip(is_on, opened, probing, None, (), None, None, None, limit_usd, counts)
    hour, spent_usd = traffic
    per_minute = hour.per_minute()
    return Strip(
        is_on,
        opened,
        probing,
        (per_minute[-1] if per_minute else 0) or hour.requests(1),  # before the first minute is over, what it has
        tuple(per_minute[-SHOWN_MINUTES:]),
        hour.failed_share(len(hour.minutes)),
        hour.percentile_ms(LATENCY_MINUTES, SHARE_95),
        spent_usd,
        limit_usd,
        counts,
    )
