"""A database that says nothing is waited for once; who is slow while others are answered is left in peace."""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
import peewee
import psycopg
import pytest
from gevent.event import Event

from hermes.errors import DatabaseUnavailable
from hermes.storage import patience
from hermes.storage.engine import is_connection_lost
from hermes.storage.patience import Patience

SILENCE_S = 0.2
KNOCK_EVERY_S = 0.02
SOON_S = 2.0
"""On a busy machine; without an end to the wait it would never be."""


class Server:
    """A database that may hang or be gone."""

    def __init__(self) -> None:
        self.knocks = 0
        self.works = Event()
        self.works.set()
        self.patience = Patience(
            self.knock, lambda error: str(error) if isinstance(error, OSError) else None, time.monotonic,
            SILENCE_S, KNOCK_EVERY_S,
        )  # fmt: skip

    def knock(self) -> None:
        """The smallest question."""
        self.knocks += 1
        self.works.wait()

    def ask(self, takes_s: float = 0.0) -> str:
        """A question that takes a while."""

        def question() -> str:
            self.works.wait()
            gevent.sleep(takes_s)
            return "answer"

        return self.patience.ask(question)


def refused_after_s(ask: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        ask()
    return time.monotonic() - began


def test_a_silent_database_is_waited_for_once_and_then_not_at_all() -> None:
    server = Server()
    server.works.clear()

    first_s, second_s = refused_after_s(server.ask), refused_after_s(server.ask)

    assert SILENCE_S <= first_s < SOON_S
    assert second_s < SILENCE_S
    with pytest.raises(DatabaseUnavailable, match=r"not answered for 0\.\d s"):
        server.patience.check()
    server.patience.stop()


def test_all_who_wait_are_let_go() -> None:
    server = Server()
    server.works.clear()

    waiting = [gevent.spawn(refused_after_s, server.ask) for _ in range(20)]
    gevent.joinall(waiting, raise_error=True)

    assert max(greenlet.value for greenlet in waiting) < SOON_S
    server.patience.stop()


def test_the_first_answer_ends_the_outage(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    with caplog.at_level("INFO", "hermes-router.storage"):
        server.works.clear()
        for _ in range(5):
            refused_after_s(server.ask)
        server.works.set()
        while not caplog.records[-1].message.startswith("The database answers again"):
            gevent.sleep(KNOCK_EVERY_S)

        assert server.ask() == "answer"

    said = [record.message.partition(":")[0].partition(" after ")[0] for record in caplog.records]
    assert said == [
        "The database is away, completions go on and their rows wait in the spool",
        "The database answers again",
    ]
    knocks = server.knocks
    gevent.sleep(3 * KNOCK_EVERY_S)
    assert server.knocks == knocks, "nobody knocks where the door is open"


def test_a_slow_answer_is_no_outage_while_others_are_answered() -> None:
    server = Server()
    slow = gevent.spawn(server.ask, 2 * SILENCE_S)

    while not slow.ready():
        server.ask(SILENCE_S / 20)

    assert slow.get() == "answer"


def test_one_that_takes_for_ever_is_given_up_and_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LONGEST_S", 1.5 * SILENCE_S)
    server = Server()
    slow = gevent.spawn(refused_after_s, lambda: server.ask(2 * SOON_S))

    while not slow.ready():
        server.ask(SILENCE_S / 20)

    assert 1.5 * SILENCE_S <= slow.get() < SOON_S
    server.patience.check()


def test_an_event_loop_that_has_stood_still_looks_once_more_before_it_blames_the_database() -> None:
    server = Server()
    server.works.clear()
    asking = gevent.spawn(server.ask)
    gevent.sleep(0)

    time.sleep(SILENCE_S + patience.STALL_S + 0.05)  # the whole loop: nobody is served
    gevent.spawn_later(0.01, server.works.set)

    assert asking.get() == "answer"


def test_an_event_loop_that_stands_still_again_and_again_blames_it_all_the_same() -> None:
    """A caller waited for 6 s on a machine where every look was late."""
    server = Server()
    server.works.clear()
    asked = gevent.spawn(refused_after_s, server.ask)

    for _ in range(20):
        gevent.sleep(0.001)
        if asked.dead:
            break
        time.sleep(patience.STALL_S * 2 + 0.05)

    assert asked.dead
    server.patience.stop()


def test_a_lost_connection_is_an_outage_and_any_other_error_is_an_answer() -> None:
    server = Server()

    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(KeyError):
        server.patience.ask(lambda: fail(KeyError("x")))
    server.patience.check()
    server.works.clear()
    with pytest.raises(DatabaseUnavailable) as lost:
        server.patience.ask(lambda: fail(ConnectionError("server at 10.0.0.7 closed the connection")))
    with pytest.raises(DatabaseUnavailable):
        server.patience.check()
    assert "10.0.0.7" in str(lost.value), "for the log"
    assert "10.0.0.7" not in lost.value.message, "and for nobody else"
    server.patience.stop()


def test_a_caller_who_stops_waiting_says_nothing_of_the_database() -> None:
    server = Server()
    server.works.clear()

    with gevent.Timeout(SILENCE_S / 4, False):
        server.ask()

    server.works.set()
    assert server.ask() == "answer"


@pytest.mark.parametrize(
    ("cause", "is_lost"),
    [
        pytest.param(psycopg.OperationalError("connection refused"), True, id="refused"),
        pytest.param(psycopg.errors.AdminShutdown("ending"), True, id="it is being ended"),
        pytest.param(psycopg.errors.CannotConnectNow("starting"), True, id="it is starting"),
        pytest.param(psycopg.errors.TooManyConnections("too many"), True, id="too many connections"),
        pytest.param(psycopg.errors.DiskFull("no room"), False, id="its disk is full"),
        pytest.param(psycopg.errors.DeadlockDetected("deadlock"), False, id="a deadlock"),
    ],
)
def test_what_counts_as_lost(cause: Exception, is_lost: bool) -> None:
    assert is_connection_lost(peewee.OperationalError(cause, *cause.args)) is is_lost
    assert not is_connection_lost(peewee.ProgrammingError(cause))
