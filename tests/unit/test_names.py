"""Names of hosts are looked up once at a time, a silent name server costs one thread, and what was known goes on."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest

from hermes.errors import ClientGone
from hermes.upstream import names
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.names import Names

LONG_S = 20.0


class NameServer:
    """Answers with the address that a name has here; not at all while it is silent."""

    def __init__(self) -> None:
        self.addresses = {"fast": "192.0.2.1", "slow": "192.0.2.2"}
        self.asked: list[str] = []
        self.is_silent_for: set[str] = set()
        self.failure: Exception | None = None
        self.speaks = threading.Event()

    def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        self.asked.append(host)
        if host in self.is_silent_for:
            self.speaks.wait(LONG_S)
        if self.failure is not None:
            raise self.failure
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.addresses[host], port))]


class Clock:
    def __init__(self) -> None:
        self.more_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.more_s


@pytest.fixture
def server() -> Iterator[NameServer]:
    answering = NameServer()
    yield answering
    answering.speaks.set()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(server: NameServer, clock: Clock) -> Names:
    return Names(server, clock)


def where(known: Names, clock: Clock, host: str, within_s: float = LONG_S) -> str:
    ((_, _, _, (address, _)),) = known.addresses(host, 80, clock() + within_s, Lifeline())
    return str(address)


def test_a_name_is_looked_up_once_for_all_who_need_it(known: Names, server: NameServer, clock: Clock) -> None:
    asking = [gevent.spawn(where, known, clock, "fast") for _ in range(50)]

    assert {greenlet.get() for greenlet in asking} == {"192.0.2.1"}
    assert where(known, clock, "fast") == "192.0.2.1"
    assert server.asked == ["fast"]


def test_it_is_asked_again_a_little_later(known: Names, server: NameServer, clock: Clock) -> None:
    where(known, clock, "fast")
    server.addresses["fast"] = "192.0.2.9"
    clock.more_s += names.FRESH_S

    assert where(known, clock, "fast") == "192.0.2.9"


def test_a_name_that_hangs_takes_one_thread_and_holds_up_no_other(
    known: Names, server: NameServer, clock: Clock
) -> None:
    """Also when those who have asked for it are gone: they leave no thread behind."""
    server.is_silent_for = {"slow"}

    for _ in range(3):
        asking = [gevent.spawn(_failure, known, clock, "slow", 0.02) for _ in range(50)]
        assert {type(greenlet.get()) for greenlet in asking} == {TimeoutError}

    assert where(known, clock, "fast") == "192.0.2.1"
    assert sorted(server.asked) == ["fast", "slow"]
    assert known.under_way == 1
    server.speaks.set()
    assert where(known, clock, "slow") == "192.0.2.2"
    assert known.under_way == 0


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda server: server.is_silent_for.add("fast"), id="they say nothing"),
        pytest.param(
            lambda server: setattr(server, "failure", socket.gaierror(socket.EAI_AGAIN, "later")), id="they fail"
        ),
    ],
)
def test_the_last_addresses_are_used_while_the_name_servers_do_not_answer(
    known: Names,
    server: NameServer,
    clock: Clock,
    trouble: Callable[[NameServer], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    where(known, clock, "fast")
    clock.more_s += names.FRESH_S
    trouble(server)

    with caplog.at_level(logging.WARNING, logger="hermes-router"):
        for _ in range(3):
            assert where(known, clock, "fast") == "192.0.2.1"

    assert len(caplog.records) == 1
    clock.more_s += names.KEPT_S
    assert isinstance(_failure(known, clock, "fast", 0.02), OSError), "older ones are no longer believed"


def test_a_name_that_is_gone_is_an_error_at_once(known: Names, server: NameServer, clock: Clock) -> None:
    where(known, clock, "fast")
    clock.more_s += names.FRESH_S
    server.failure = socket.gaierror(socket.EAI_NONAME, "unknown")

    assert isinstance(_failure(known, clock, "fast", LONG_S), socket.gaierror)


def test_who_leaves_waits_for_no_name(known: Names, server: NameServer, clock: Clock) -> None:
    server.is_silent_for = {"slow"}
    line = Lifeline()
    waiting = gevent.spawn(known.addresses, "slow", 80, clock() + LONG_S, line)
    gevent.sleep(0.01)

    line.hang_up()

    with pytest.raises(ClientGone):
        waiting.get(timeout=5)


def _failure(known: Names, clock: Clock, host: str, within_s: float) -> Exception | None:
    try:
        where(known, clock, host, within_s)
    except OSError as error:
        return error
    return None
