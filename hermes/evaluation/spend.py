"""What shadow work may cost a day: set aside before a call, settled after it, counted for all workers together.

The day is the budgets'. A model without a known price costs what is set aside for one, since nobody can know better.
A counter that is gone (a restart, a state store that was emptied) begins with what the rows of the day say.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from hermes.errors import DatabaseUnavailable
from hermes.state.store import Claim, StateStore
from hermes.types import Endpoint, Usage

DAY_TTL_S: Final = 2 * 24 * 3600.0


class Prices(Protocol):
    """`hermes.accounting.prices.PriceBook`."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None: ...


class DailySpend:
    """The day's account of shadow calls and judges."""

    def __init__(
        self, store: StateStore, spent_since: Callable[[str], int], clock: Callable[[], float] = time.time
    ) -> None:
        """
        Args:
            spent_since: what rows say was spent since a time, in nano-USD; may raise `DatabaseUnavailable`.
        """
        self._store = store
        self._spent_since = spent_since
        self._clock = clock
        self._known_day = ""

    def reserve(self, nanousd: int, limit: int, timezone: str) -> str | None:
        """Sets an amount aside; the account's name for `settle`, or None where the day's limit does not allow it."""
        key = self._account(timezone)
        claim = Claim(key, nanousd, limit, DAY_TTL_S)
        return key if self._store.reserve([claim]) is None else None

    def settle(self, account: str, reserved: int, spent: int) -> None:
        """What was really spent of what was set aside."""
        if spent != reserved:
            self._store.add(account, spent - reserved, DAY_TTL_S)

    def spent(self, timezone: str) -> int:
        """Of the current day, what is set aside included; in nano-USD."""
        return max(0, int(self._store.get(self._account(timezone)) or 0))

    def _account(self, timezone: str) -> str:
        now = datetime.fromtimestamp(self._clock(), ZoneInfo(timezone))
        key = f"shadow:spent:{now:%Y-%m-%d}"
        if key != self._known_day and self._store.get(key) is None:
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
            with suppress(DatabaseUnavailable):
                spent = self._spent_since(midnight.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
                self._store.put_new(key, str(spent), DAY_TTL_S)
                self._known_day = key
        return key
