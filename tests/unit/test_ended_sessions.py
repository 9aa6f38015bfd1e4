"""Who signs out is signed out, whatever the database does."""

from __future__ import annotations

import gevent
import pytest
from gevent.event import Event

from hermes.errors import DatabaseUnavailable
from hermes.storage.ended import EndedSessions


class Kept:
    """A database that can be away."""

    def __init__(self) -> None:
        self.is_away = False
        self.names: list[str] = []

    def store(self, name: str, actor: str) -> None:
        if self.is_away:
            raise DatabaseUnavailable("gone")
        self.names.append(name)


def test_an_end_that_is_stored_and_in_force_need_not_be_remembered() -> None:
    kept, refreshed = Kept(), Event()
    ended = EndedSessions(kept.store, refreshed.set)

    ended.end("one", "admin")

    assert (kept.names, refreshed.is_set(), ended.has("one")) == (["one"], True, False)


def test_an_end_that_cannot_be_stored_is_remembered_until_it_can(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    ended = EndedSessions(kept.store, lambda: None)
    kept.is_away = True

    ended.end("one", "admin")
    with pytest.raises(DatabaseUnavailable):
        ended.store_missing()

    assert (ended.has("one"), ended.has("two")) == (True, False)
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    kept.is_away = False
    ended.store_missing()
    assert (kept.names, ended.has("one")) == (["one"], False)


def test_an_end_is_remembered_as_long_as_it_is_not_in_force() -> None:
    def fails() -> None:
        raise DatabaseUnavailable("gone")

    kept = Kept()
    ended = EndedSessions(kept.store, fails)

    ended.end("one", "admin")

    assert (kept.names, ended.has("one")) == (["one"], True)


def test_a_database_that_does_not_answer_keeps_nobody_waiting() -> None:
    answers, names = Event(), []

    def store(name: str, actor: str) -> None:
        answers.wait()
        names.append(name)

    ended = EndedSessions(store, lambda: None, wait_s=0.01)
    ended.end("one", "admin")
    assert ended.has("one")

    answers.set()
    gevent.sleep(0.01)
    assert (names, ended.has("one")) == (["one"], False)
