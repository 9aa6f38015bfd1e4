"""More requests than the process can do: some are turned away at once, so that those that are let in are answered.

Everything runs on one event loop. Requests that come while it is busy are found when it comes round, all of them at
once; the more of them it begins, the later it comes round again, and finds still more. So only so many are begun each
time it comes round, which it always has the time for; as many again may be let in, and the others are told to come
again, at the cost of reading their heads. Nothing is measured that another process on the machine could disturb:
whatever a request costs, as many are begun as there are rounds for. What was not used before is saved up, so that a
burst out of nothing is no crowd: it waits for its turns. Neither are a few hundred callers who wait for their answers
before they ask again: they are always the same number, however fast their providers answer, and wait a fraction of a
second for each other.

What nobody waits for is put off while anybody is turned away: exports, and what pages ask for by themselves. What tells
operators how it is, and lets them do something about it, is never refused.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import gevent
from gevent.event import Event

from hermes.errors import Overloaded

log = logging.getLogger("hermes-router")

ROUND_S = 0.005
"""The shortest round. A loop that has nothing to do comes round far more often."""

A_ROUND = 25.0
"""Requests begun in a round. An ordinary one costs less than a millisecond, so that a round of a loop that is overrun
takes a fiftieth of a second; and in the shortest rounds it is more than any machine can do."""

BURST = 1000.0
"""What can be saved up: that many begin in about a second."""

FEW = 250
"""Requests under way that are no crowd, in a loop that is not late by more than `FEW_LATE_S`."""

FEW_LATE_S = 1.0

LATE_S = 0.5
"""A loop that is later than this is not late with ordinary requests, but with streams or large bodies: fewer are begun.
"""

TURN_WAIT_S = 5.0
"""Who has waited so long for a turn is told to come again."""

LEAST = 4.0
MOST_AT_ONCE = 3000
"""Requests of one process, also where they only wait for their providers. It has 4,000 places for callers."""

PUT_OFF_S = 1.0
RETRY_AFTER_S = 1.0
RETRY_SPREAD_S = 3.0
TELLS_EVERY_S = 10.0


class Crowd:
    """Whether one more request is let in."""

    def __init__(
        self,
        in_flight: Callable[[], int],
        on_turned_away: Callable[[int], None] = lambda _: None,
        *,
        most: int = MOST_AT_ONCE,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._in_flight = in_flight
        self._on_turned_away = on_turned_away
        self._most = most
        self._rng = rng or random.Random()  # noqa: S311  (no secret)
        self._clock = clock
        self._room = BURST
        self._turns = A_ROUND
        self._waiting: deque[Event] = deque()
        """For a turn; who came first has it first."""

        self._late_s = 0.0
        self._last_turned_away = self._told_at = float("-inf")
        self._uncounted = self._untold = 0

    def let_in(self) -> None:
        """Lets a request pass.

        Raises:
            Overloaded: it would make the others wait.
        """
        if self.is_full():
            raise Overloaded(retry_after_s=self.turn_away())
        self._room = max(0.0, self._room - 1)

    def is_full(self) -> bool:
        """Whether one more request would make the others wait."""
        in_flight = self._in_flight() + len(self._waiting)
        is_few = in_flight < FEW and self._late_s <= FEW_LATE_S
        return in_flight >= self._most or (self._room < 1 and not is_few)

    def wait_for_turn(self) -> None:
        """Waits until a round has the time to begin one more, so that the next comes round soon.

        Raises:
            Overloaded: that takes too long.
        """
        if self._turns >= 1 and not self._waiting:
            self._turns -= 1
            return
        turn = Event()
        self._waiting.append(turn)
        try:
            if not turn.wait(TURN_WAIT_S):
                raise Overloaded(retry_after_s=self.turn_away())
        finally:
            with suppress(ValueError):  # it has come
                self._waiting.remove(turn)

    def turn_away(self) -> float:
        """Counts a request that came when it was full; after so many seconds it may come again."""
        self._last_turned_away = self._clock()
        return self._come_again()

    def let_in_later(self) -> None:
        """Lets something pass that nobody waits for.

        Raises:
            Overloaded: requests were turned away a moment ago, so it shall come again in a while.
        """
        if self.is_crowded():
            raise Overloaded(retry_after_s=self._come_again())

    def is_crowded(self) -> bool:
        """Whether requests are turned away."""
        return self._clock() - self._last_turned_away < PUT_OFF_S

    def come_round(self, late_s: float) -> None:
        """The event loop has come round, so much later than it should have."""
        self._late_s = late_s
        more = max(LEAST, A_ROUND * min(1.0, LATE_S / late_s)) if late_s else A_ROUND
        if len(self._waiting) < FEW:  # else a burst would be a queue that never gets shorter
            self._room = min(BURST, self._room + more)
        self._turns = more
        while self._turns >= 1 and self._waiting:
            self._waiting.popleft().set()
            self._turns -= 1
        if self._uncounted:
            self._on_turned_away(self._uncounted)
            self._untold, self._uncounted = self._untold + self._uncounted, 0

    def watch(self) -> None:
        """Looks at the event loop for ever; for a greenlet of its own."""
        while True:
            due = self._clock() + ROUND_S
            gevent.sleep(ROUND_S)
            self.come_round(max(0.0, self._clock() - due))
            self._tell()

    def _come_again(self) -> float:
        self._uncounted += 1
        return RETRY_AFTER_S + self._rng.random() * RETRY_SPREAD_S

    def _tell(self) -> None:
        if self._untold and self._clock() - self._told_at >= TELLS_EVERY_S:
            log.warning(
                "More requests come than this worker can do (%d are under way): %d were told to come again",
                self._in_flight(),
                self._untold,
            )
            self._told_at, self._untold = self._clock(), 0
