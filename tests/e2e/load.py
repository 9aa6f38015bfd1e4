"""Callers who ask all the time, and what has come back."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

from .client import Answer
from .gateway import eventually, new_user

Ask = Callable[[str], Answer]
"""Sends one request of the user of this name."""


class Load:
    """A number of users, each of whom asks again as soon as the last answer has come."""

    def __init__(self, ask: Ask, callers: int = 6) -> None:
        self.answers: list[Answer] = []
        self.faults: list[str] = []
        """What became of requests that had no answer."""

        self._ask = ask
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(callers)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        eventually(lambda: self.answers, lambda answers: len(answers) > 10)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self, number: int = 30) -> None:
        """Waits for so many more answers."""
        wanted = len(self.answers) + number
        assert eventually(lambda: len(self.answers), lambda found: found >= wanted, 10) >= wanted

    def since(self, moment: float) -> list[Answer]:
        """The answers to requests that have begun after that."""
        return [answer for answer in self.answers if answer.started_at >= moment]

    def _run(self) -> None:
        user = new_user()
        while not self._ending.is_set():
            try:
                self.answers.append(self._ask(user))
            except OSError as fault:  # no answer in time, or none at all
                self.faults.append(f"{type(fault).__name__}: {fault}")


def percentile_s(answers: Sequence[Answer], share: float) -> float:
    """How long the slowest took but for this share's complement; 0 without answers."""
    took = sorted(answer.took_s for answer in answers)
    return took[max(0, math.ceil(share * len(took)) - 1)] if took else 0.0


def requests_by_worker(folder: Path) -> dict[str, float]:
    """How many completion requests each worker has taken on, by the files of its process in the metrics' folder."""
    found = {}
    for file in folder.glob("counter_*.db"):
        values = list(MmapedDict.read_all_values_from_file(str(file)))  # type: ignore[no-untyped-call]
        found[file.stem] = sum(value for key, value, *_ in values if '"hermes_router_requests_total"' in key)
    return found
