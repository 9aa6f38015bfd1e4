"""The end of the trace files, read once for everybody who follows it, and only while somebody does.

Files are read in a native thread. What one look brings beyond a bound is not shown: nobody reads a thousand lines a
second, and the page's own download has them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import gevent
from gevent.event import Event as Bell

from hermes.observe.tracefiles import Event, TraceFiles, Wanted

LOOK_EVERY_S: Final = 0.7
MOST_AT_ONCE: Final = 2000
MOST_MISSED: Final = 200
LOOK_AT: Final = 60_000
"""How far back a rare event is searched: half a second of a native thread."""


class Tail:
    """Follows the files of one folder."""

    def __init__(self, folder: Path, every_s: float = LOOK_EVERY_S) -> None:
        self._folder = folder
        self._every_s = every_s
        self._listeners: set[Listener] = set()
        self._is_running = False
        self._is_at_end = Bell()

    @property
    def followers(self) -> int:
        """How many follow now."""
        return len(self._listeners)

    def last(self, number: int, wanted: Wanted) -> list[Event]:
        """The last events that are wanted, the oldest first."""

        def read() -> list[Event]:
            with TraceFiles(self._folder) as files:
                return files.last(number, wanted, LOOK_AT)

        found: list[Event] = gevent.get_hub().threadpool.apply(read)
        return found

    def follow(
        self, after: str, wait_s: float, for_s: float, clock: Callable[[], float] = time.monotonic
    ) -> Iterator[list[Event]]:
        """What is added, as it comes; an empty list after `wait_s` without any. Ends after `for_s`.

        Args:
            after: the time of the last event that the follower knows, as events have it; what came since then is first.
                Empty: it knows none, and is only told of what comes from now on.
        """
        listener = Listener()
        self._listeners.add(listener)
        if not self._is_running:
            self._is_running = True
            self._is_at_end.clear()
            gevent.spawn(self._run)
        until = clock() + for_s
        try:
            self._is_at_end.wait()  # from here on nothing is missed; what is both old and new is told once
            missed = self.last(MOST_MISSED, lambda event: str(event.get("ts")) > after) if after else []
            told = {_identity(event) for event in missed}
            yield missed
            while clock() < until:
                yield [event for event in listener.take(wait_s) if _identity(event) not in told]
        finally:
            self._listeners.discard(listener)

    def _run(self) -> None:
        threads = gevent.get_hub().threadpool
        try:
            with TraceFiles(self._folder) as files:
                threads.apply(files.last, (0,))
                self._is_at_end.set()
                while self._listeners:
                    gevent.sleep(self._every_s)
                    events = threads.apply(_more, (files,))
                    for listener in list(self._listeners):
                        listener.give(events)
        finally:
            self._is_running = False
            self._is_at_end.set()


class Listener:
    """What one follower has not taken yet."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._bell = Bell()

    def give(self, events: list[Event]) -> None:
        """Further events; those that were not taken in time give way."""
        self._events = [*self._events, *events][-MOST_AT_ONCE:]
        if self._events:
            self._bell.set()

    def take(self, wait_s: float) -> list[Event]:
        """Waits for events; an empty list where none came."""
        self._bell.wait(wait_s)
        self._bell.clear()
        taken, self._events = self._events, []
        return taken


def _identity(event: Event) -> tuple[str, str, str]:
    return str(event.get("ts")), str(event.get("request_id")), str(event.get("event"))


def _more(files: TraceFiles) -> list[Event]:
    return list(islice(files.more(), MOST_AT_ONCE))
