"""Who watches a server while it is asked something: a process that asks for `/health` all the time, and light traffic.

What the process waits for longest says how long the event loop stood still.
"""

from __future__ import annotations

import http.client
import multiprocessing
import threading
import time
from contextlib import suppress
from typing import Any

from lab.client import LOST, Caller

PROBE_EVERY_S = 0.005


def _probe(port: int, longest: Any, ending: Any) -> None:
    """Asks for `/health` all the time, on one connection; writes down the longest that it took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while not ending.is_set():
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        took_ms = (time.perf_counter() - began) * 1000
        with longest.get_lock():
            longest.value = max(longest.value, took_ms)
        time.sleep(PROBE_EVERY_S)


class Watch:
    """What the probe and the light traffic see."""

    def __init__(self, port: int) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._longest: Any = spawning.Value("d", 0.0)
        self._ending = spawning.Event()
        self._probe = spawning.Process(target=_probe, args=(port, self._longest, self._ending), daemon=True)
        self._traffic = threading.Thread(target=self._ask, args=(port,), daemon=True)

    def __enter__(self) -> Watch:
        self._probe.start()
        self._traffic.start()
        time.sleep(1.0)
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._probe.join(5)
        self._traffic.join(5)

    def take(self) -> float:
        """The longest wait since the last call."""
        with self._longest.get_lock():
            found, self._longest.value = float(self._longest.value), 0.0
        return found

    def _ask(self, port: int) -> None:
        caller, number = Caller(port, "light"), 0
        while not self._ending.is_set():
            number += 1
            with suppress(*LOST):
                caller.ask(f"stub:bytes=300 Good day, number {number}.")
            time.sleep(0.05)
