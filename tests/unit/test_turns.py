"""Long computations take turns with each other and with everybody else."""

from __future__ import annotations

import gevent
import pytest

from hermes.turns import STINT_S, Turn


class Clock:
    """Moves on by a stint each time it is looked at: every pause is due."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += STINT_S
        return self.now


def compute(name: str, log: list[str], steps: int = 3) -> None:
    with Turn(Clock()) as turn:
        for _ in range(steps):
            log.append(name)
            turn.pause()


def test_two_computations_take_turns() -> None:
    log: list[str] = []

    gevent.joinall([gevent.spawn(compute, name, log) for name in "ab"], raise_error=True)

    assert log == ["a", "b"] * 3


def test_input_and_output_are_looked_for_in_every_pause() -> None:
    """Not only other greenlets that are ready: a caller's bytes must be noticed too."""
    log: list[str] = []
    loop = gevent.get_hub().loop
    watchers = [loop.timer(0) for _ in range(3)]

    def started() -> None:
        for watcher in watchers:
            watcher.start(log.append, "event")

    gevent.spawn(started)
    gevent.spawn(compute, "a", log, 10).join()

    assert log.index("event") <= 2


def test_a_pause_that_is_not_due_costs_nothing() -> None:
    log: list[str] = []
    other = gevent.spawn(log.append, "other")

    with Turn(lambda: 0.0) as turn:
        turn.pause()
        log.append("still alone")

    other.join()
    assert log == ["still alone", "other"]


def test_one_that_is_ended_while_it_waits_holds_up_nobody() -> None:
    log: list[str] = []
    first = gevent.spawn(compute, "first", log, 100)
    second = gevent.spawn(compute, "second", log, 100)
    gevent.sleep(0)

    first.kill()
    second.kill()
    compute("third", log, 1)

    assert log[-1] == "third"


def test_an_error_ends_the_turn() -> None:
    with pytest.raises(ValueError, match="x"), Turn():
        raise ValueError("x")

    with Turn():
        pass
