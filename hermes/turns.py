"""Long computations on the event loop, a few milliseconds at a time: in between everybody else has a turn.

A native thread would be no help for what parses: parsers hold the interpreter's lock while they work, so the event loop
would stand still all the same. Only one computation is under way at a time, and those that wait take turns with it; ten
of them would otherwise hold the loop ten times as long between two others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from gevent import sleep
from gevent.lock import BoundedSemaphore

STINT_S = 0.004
"""How long one may compute before the others have a turn."""

MOMENT_S = 1e-9
"""Too short to be waited for, but a timer all the same: the event loop looks for input and output before it fires.
After `sleep(0)` it would not; gevent runs up to fifty such sleepers before it does.
"""

_floor = BoundedSemaphore(1)


class Turn:
    """The right to compute on the event loop, given back for a moment at every pause that is due.

    Whoever has it must not ask for it again, and must wait for nobody else.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, check: Callable[[], None] = lambda: None) -> None:
        """
        Args:
            check: is called whenever the turn begins anew; what it raises ends the computation.
        """
        self._clock = clock
        self._check = check
        self._until = 0.0
        self._has_floor = False

    def __enter__(self) -> Turn:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def pause(self) -> None:
        """Lets the others have their turn, if this one has computed for long enough. Call it every millisecond or so:
        it costs a tenth of a microsecond.

        Raises:
            Exception: what `check` raises.
        """
        if self._clock() >= self._until:
            self._end()
            sleep(MOMENT_S)
            self._begin()
            self._check()

    def _begin(self) -> None:
        _floor.acquire()
        self._has_floor = True
        self._until = self._clock() + STINT_S

    def _end(self) -> None:
        # A greenlet that is ended while it waits for its turn has nothing to give back.
        if self._has_floor:
            self._has_floor = False
            _floor.release()
