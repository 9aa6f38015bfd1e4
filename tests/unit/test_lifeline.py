"""A caller who hangs up ends the wait on their behalf, and nothing but a wait."""

from __future__ import annotations

import socket
import time

import gevent
import pytest

from hermes.errors import ClientGone
from hermes.upstream.lifeline import HangupWatch, Lifeline


def waits(line: Lifeline, log: list[str]) -> None:
    try:
        line.sleep(5)
        log.append("slept")
    except ClientGone:
        log.append("gone")


def test_a_hang_up_ends_a_wait_at_once() -> None:
    line, log = Lifeline(), []
    waiting = gevent.spawn(waits, line, log)
    gevent.sleep(0)

    line.hang_up()
    waiting.join(1)

    assert log == ["gone"]


def test_outside_a_wait_nothing_is_thrown_but_the_next_wait_does_not_begin() -> None:
    line = Lifeline()
    with line:
        pass

    line.hang_up()
    gevent.sleep(0)

    assert line.gone
    with pytest.raises(ClientGone):
        line.sleep(0)


def test_a_hang_up_that_comes_as_the_wait_ends_is_not_delivered_late() -> None:
    line, log = Lifeline(), []

    def quick() -> None:
        with line:
            line.hang_up()  # the throw is queued for the hub, but the wait is over before
        gevent.sleep(0)
        log.append("went on")

    gevent.spawn(quick).join(1)

    assert log == ["went on"]


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_the_watch_notices_a_closed_socket_within_its_beat(how: str) -> None:
    watch, (ours, theirs) = HangupWatch(poll_every_s=0.02), socket.socketpair()
    line, log = watch.lifeline(ours), []
    waiting = gevent.spawn(waits, line, log)
    gevent.sleep(0.01)
    began = time.monotonic()

    theirs.close() if how == "close" else theirs.shutdown(socket.SHUT_WR)
    waiting.join(1)

    assert log == ["gone"]
    assert time.monotonic() - began < 0.2
    ours.close()
    theirs.close()


def test_a_released_line_is_watched_no_more() -> None:
    watch, (ours, theirs) = HangupWatch(poll_every_s=0.01), socket.socketpair()
    line = watch.lifeline(ours)

    line.release()
    line.release()
    theirs.close()
    gevent.sleep(0.05)

    assert not line.gone
    ours.close()


def test_a_number_that_is_used_again_belongs_to_its_new_caller() -> None:
    watch, (ours, theirs) = HangupWatch(poll_every_s=0.01), socket.socketpair()
    watch.lifeline(ours).release()

    line = watch.lifeline(ours)
    theirs.close()
    gevent.sleep(0.05)

    assert line.gone
    ours.close()


def test_without_a_socket_nobody_ever_hangs_up() -> None:
    line = HangupWatch().lifeline(None)

    line.sleep(0)

    assert not line.gone


def test_a_caller_who_takes_nothing_is_cut_off_at_the_requests_deadline() -> None:
    now = [100.0]
    watch, (ours, theirs) = HangupWatch(poll_every_s=0.01, clock=lambda: now[0]), socket.socketpair()
    line = watch.lifeline(ours)
    line.deadline = 110.0

    line.hands_over(now[0])
    gevent.sleep(0.05)
    assert not line.is_stalled(now[0])

    now[0] = 111.0
    gevent.sleep(0.05)

    assert theirs.recv(1) == b""  # the end of the connection
    ours.close()
    theirs.close()


def test_who_takes_what_is_given_is_never_stalled() -> None:
    line = Lifeline()
    line.hands_over(100.0)
    assert line.is_stalled(131.0)

    line.has_taken()

    assert not line.is_stalled(131.0)
