"""Loops that run beside the requests: each in a greenlet, each going on whatever happens in it.

A loop's pause varies by a tenth, so that many workers and machines do not fall into step.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import gevent
from gevent.event import Event

from hermes.errors import HermesError

log = logging.getLogger("hermes-router")

JITTER = 0.1


class Loops:
    """The loops of one process."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311  (jitter, no secret)
        self._ending = Event()
        self._greenlets: list[gevent.Greenlet] = []

    def every(self, seconds: float, fn: Callable[[], object], name: str) -> None:
        """Calls `fn` again and again, with about `seconds` between the end of a call and the next.

        An exception is logged, but once: the same one is silent until something else happens. A `HermesError` is no
        fault of the loop's, so it is a sentence without a traceback.
        """
        self._greenlets.append(gevent.spawn(self._run, seconds, fn, name))

    def stop(self, timeout_s: float) -> bool:
        """Lets the running calls end, for `timeout_s` at most, and starts none; whether all ended by themselves."""
        self._ending.set()
        gevent.joinall(self._greenlets, timeout=timeout_s)
        late = [greenlet for greenlet in self._greenlets if not greenlet.ready()]
        gevent.killall(late)
        return not late

    def _run(self, seconds: float, fn: Callable[[], object], name: str) -> None:
        last_fault: str | None = None
        while not self._ending.wait(seconds * self._rng.uniform(1 - JITTER, 1 + JITTER)):
            try:
                fn()
            except HermesError as error:
                fault = error.message
                if fault != last_fault:
                    log.warning("Background loop %s is held up: %s", name, error)
                last_fault = fault
            except Exception as error:  # an edge: a loop that has ended would be missed by nobody
                fault = f"{type(error).__name__}: {error}"
                if fault != last_fault:
                    log.error("Background loop %s failed, and will be tried again", name, exc_info=error)
                last_fault = fault
            else:
                if last_fault is not None:
                    log.info("Background loop %s works again", name)
                last_fault = None
