"""Which share of its decisions is audited at the moment: the operator's, and on quiet days more.

A share of little is next to nothing: from two audits a day nobody learns for months that traffic has changed. So there
are some fifty a day, as far as traffic goes, but never more than every second one, or a surrogate would spare nothing.
The share follows the traffic of the last hours alone, never what was asked or decided, so those who are drawn still
stand for all; each is kept with the share at which it was drawn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import exp
from typing import Final

LEAST_A_DAY: Final = 50
MOST: Final = 0.5
FORGETS_S: Final = 6 * 3600.0
DAY_S: Final = 86_400.0


class Sampling:
    """Draws who is audited. One process's; so each has its part of the least number."""

    def __init__(
        self,
        rng: random.Random,
        least_a_day: float = LEAST_A_DAY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rng = rng
        self._least_a_day = least_a_day
        self._clock = clock
        self._at_s = clock()
        self._count: float | None = None
        """Decisions, each counting less as time goes by: in the mean, those of `FORGETS_S`."""

    def draws(self, rate: float) -> float:
        """The share of the surrogate's decisions that is audited now, if the next one is among them; else 0.

        Args:
            rate: the operator's share; 0 means none, ever.
        """
        if rate <= 0:
            return 0.0
        share = self._share(rate)
        return share if self._rng.random() < share else 0.0

    def _share(self, rate: float) -> float:
        now = self._clock()
        # Of a process that has just begun nothing is known: it is taken for one where the operator's share is enough.
        known = self._least_a_day / rate * FORGETS_S / DAY_S if self._count is None else self._count
        self._count = known * exp((self._at_s - now) / FORGETS_S) + 1
        self._at_s = now
        a_day = self._count * DAY_S / FORGETS_S
        return max(rate, min(MOST, self._least_a_day / a_day))
