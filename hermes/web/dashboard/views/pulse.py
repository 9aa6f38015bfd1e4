"""The last hour of traffic in this process's memory, kept up to date from the usage log while somebody looks."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from hermes.storage.pulse import MINUTE_CHARS, STEPS_MS, Added, Group

MINUTES: Final = 60
FAILED: Final = ("error", "interrupted")

Read = Callable[[int, str], Added]
"""What was added to the log behind an id and since a moment, as the log writes moments."""


@dataclass(slots=True)
class Traffic:
    """Groups of requests, by minute."""

    minutes: Sequence[str]
    """The last ones, oldest first; the last one is not over yet."""

    by_minute: dict[str, list[Group]] = field(default_factory=dict)

    def within(self, minutes: int) -> Iterable[Group]:
        """The groups of the last minutes, the one that is not over included."""
        return (group for minute in self.minutes[-minutes:] for group in self.by_minute.get(minute, ()))

    def requests(self, minutes: int, wanted: Callable[[Group], bool] = lambda _: True) -> int:
        """How many requests of the last minutes are wanted."""
        return sum(group.requests for group in self.within(minutes) if wanted(group))

    def per_minute(self) -> list[int]:
        """Requests in each minute that is over, oldest first."""
        return [sum(group.requests for group in self.by_minute.get(minute, ())) for minute in self.minutes[:-1]]

    def failed_share(self, minutes: int) -> float | None:
        """Which share had no whole answer, refusals left out; None without requests."""
        asked = self.requests(minutes, lambda group: group.status != "refused")
        return self.requests(minutes, lambda group: group.status in FAILED) / asked if asked else None

    def fallback_share(self, minutes: int) -> float | None:
        """Which share of the answered ones a fallback has answered; None without any."""
        answered = self.requests(minutes, lambda group: group.endpoint is not None)
        return self.requests(minutes, lambda group: group.is_fallback) / answered if answered else None

    def percentile_ms(self, minutes: int, share: float) -> float | None:
        """The duration under which this share of the answered requests stayed, to a quarter; None without any."""
        counts = [0] * (len(STEPS_MS) + 1)
        for group in self.within(minutes):
            if group.status == "ok":
                counts[group.duration_class] += group.requests
        wanted = math.ceil(sum(counts) * share)
        seen = 0
        for place, count in enumerate(counts):
            seen += count
            if count and seen >= wanted:
                return float(STEPS_MS[min(place, len(STEPS_MS) - 1)])
        return None


class Pulse:
    """Reads what is new each time that it is asked."""

    def __init__(self, read: Read, clock: Callable[[], float] = time.time) -> None:
        self._read = read
        self._clock = clock
        self._last_id = 0
        self._sums: dict[str, dict[tuple[object, ...], list[float]]] = defaultdict(dict)
        self._cost_usd: dict[str, float] = defaultdict(float)
        """By minute, since midnight."""

    def traffic(self, midnight: datetime) -> tuple[Traffic, float]:
        """The last hour, and what was spent since midnight, in USD."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        minutes = [minute_of(now.timestamp() - 60 * back) for back in range(MINUTES, -1, -1)]
        first = min(minutes[0], minute_of(midnight.timestamp()))
        added = self._read(self._last_id, f"{first}:00.000Z")
        self._last_id = max(self._last_id, added.last_id)
        for group in added.groups:
            self._add(group)
        self._drop(minutes[0], minute_of(midnight.timestamp()))
        return Traffic(minutes, {minute: list(self._groups(minute)) for minute in minutes}), sum(
            self._cost_usd.values()
        )

    def _add(self, group: Group) -> None:
        self._cost_usd[group.minute] += group.cost_usd
        key = (group.tier, group.model, group.endpoint, group.status, group.is_fallback, group.duration_class)
        total = self._sums[group.minute].setdefault(key, [0, 0.0])
        total[0] += group.requests
        total[1] += group.cost_usd

    def _drop(self, first: str, first_today: str) -> None:
        for minute in [minute for minute in self._sums if minute < first]:
            del self._sums[minute]
        for minute in [minute for minute in self._cost_usd if minute < first_today]:
            del self._cost_usd[minute]

    def _groups(self, minute: str) -> Iterable[Group]:
        for key, (requests, cost_usd) in self._sums.get(minute, {}).items():
            yield Group(minute, *key, int(requests), cost_usd)  # type: ignore[arg-type, call-arg]


def minute_of(seconds: float) -> str:
    """A moment's minute, as the log writes it.

    >>> minute_of(1778419980.5)
    '2026-05-10T13:33'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:MINUTE_CHARS]
