"""Loops go on whatever happens in them, and end when they are told to."""

from __future__ import annotations

import logging

import gevent
import pytest

from hermes.background import Loops
from hermes.errors import DatabaseUnavailable


class Clockwork:
    """A function for a loop: does in turn what its script says, then nothing."""

    def __init__(self, *script: Exception | None) -> None:
        self.calls = 0
        self._script = list(script)

    def __call__(self) -> None:
        self.calls += 1
        step = self._script.pop(0) if self._script else None
        if step is not None:
            raise step


def until(clockwork: Clockwork, calls: int) -> None:
    with gevent.Timeout(5):
        while clockwork.calls < calls:
            gevent.sleep(0.001)


def test_a_loop_calls_again_and_again_until_it_is_stopped() -> None:
    loops, clockwork = Loops(), Clockwork()

    loops.every(0.001, clockwork, "test")
    until(clockwork, 5)
    assert loops.stop(1)
    calls = clockwork.calls
    gevent.sleep(0.01)

    assert clockwork.calls == calls


def test_a_fault_is_told_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    loops = Loops()
    clockwork = Clockwork(OSError("a"), OSError("a"), OSError("b"), None, None, OSError("b"))

    with caplog.at_level(logging.INFO, logger="hermes-router"):
        loops.every(0.001, clockwork, "drain")
        until(clockwork, 8)
        loops.stop(1)

    failed, again = "Background loop drain failed, and will be tried again", "Background loop drain works again"
    assert caplog.messages == [failed, failed, again, failed, again]


def test_what_holds_a_loop_up_is_a_sentence_and_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    loops, calls = Loops(), []

    def held_up() -> None:
        calls.append(1)
        raise DatabaseUnavailable(f"reason {len(calls)}")

    with caplog.at_level("INFO", "hermes-router"):
        loops.every(0.001, held_up, "directory")
        gevent.sleep(0.05)
        loops.stop(1.0)

    (record,) = caplog.records
    assert len(calls) > 1
    assert record.message.startswith("Background loop directory is held up: The database cannot be used")
    assert record.exc_info is None


def test_stopping_waits_for_the_call_that_runs_but_not_for_ever() -> None:
    loops, ended = Loops(), []
    quick = gevent.event.Event()

    def slow() -> None:
        quick.set()
        gevent.sleep(0.03)
        ended.append("slow")

    loops.every(0.001, slow, "slow")
    quick.wait()
    assert loops.stop(1)
    assert ended == ["slow"]

    endless = Loops()
    endless.every(0.001, gevent.event.Event().wait, "endless")
    gevent.sleep(0.01)
    assert not endless.stop(0.02)


def test_a_loop_that_is_stopped_before_its_first_call_makes_none() -> None:
    loops, clockwork = Loops(), Clockwork()
    loops.every(60, clockwork, "test")

    assert loops.stop(1)

    assert clockwork.calls == 0
