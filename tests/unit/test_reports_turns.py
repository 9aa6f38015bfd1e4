"""Turns of reports at a database: a few at once, the others in order, and nobody for ever."""

from __future__ import annotations

import gevent
import pytest

from hermes.errors import Overloaded
from hermes.storage.behind import RETRY_AFTER_S, Turns


def test_so_many_are_read_at_once_and_the_others_in_their_order() -> None:
    turns, at_once, order = Turns(2), [], []
    reading = 0

    def read(number: int) -> None:
        nonlocal reading
        with turns.taken():
            reading += 1
            at_once.append(reading)
            order.append(number)
            gevent.sleep(0.001)
            reading -= 1

    gevent.joinall([gevent.spawn(read, number) for number in range(9)], raise_error=True)

    assert max(at_once) == 2
    assert order == list(range(9))


def test_who_waits_too_long_is_told_to_come_again_and_takes_no_turn() -> None:
    turns = Turns(1, wait_s=0.01)

    def read() -> float | None:
        with turns.taken():
            return None

    with turns.taken(), pytest.raises(Overloaded) as refused:
        gevent.spawn(read).get()

    assert refused.value.retry_after_s == RETRY_AFTER_S
    assert gevent.spawn(read).get() is None


def test_a_turn_comes_back_whatever_becomes_of_the_reading() -> None:
    turns = Turns(1, wait_s=0.01)

    with pytest.raises(ZeroDivisionError), turns.taken():
        _ = 1 // 0

    with turns.taken():
        pass
