"""Sessions belong to one caller, count from their last classification and are kept a while longer."""

from __future__ import annotations

import itertools
import json

import pytest

from hermes.routing.sessions import BATCH, STRIKES_TTL_S, Sessions, kept_s, session_key
from hermes.state.store import MemoryStore
from hermes.types import Principal

ALICE = Principal(key_id="k1", user_id="alice", identity="k1")
TIMEOUT_S = 300.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def sessions(store: MemoryStore, clock: Clock) -> Sessions:
    return Sessions(store, clock)


def test_a_key_is_sixteen_hexadecimal_digits_and_stable() -> None:
    key = session_key(ALICE, "s-1", "hello")

    assert len(key) == 16
    assert int(key, 16) >= 0
    assert key == session_key(Principal(key_id="k1", user_id="alice", identity="k1"), "s-1", "hello")


def test_no_two_callers_and_no_two_conversations_share_a_key() -> None:
    """Pieces are moved from one field to the next, so that gluing them together would make them meet."""
    pieces = (None, "", "a", "ab", "b")
    keys = [
        session_key(Principal(key_id, user_id, identity), None, text)
        for key_id, user_id, identity, text in itertools.product(pieces, pieces, ("", "a", "ab", "b"), pieces)
    ]

    assert len(set(keys)) == len(keys)


def test_a_named_session_and_an_equal_first_text_never_meet() -> None:
    assert session_key(ALICE, "hello", None) != session_key(ALICE, None, "hello")


def test_a_named_session_does_not_depend_on_the_messages() -> None:
    assert session_key(ALICE, "s-1", "hello") == session_key(ALICE, "s-1", "something else")


def test_any_text_has_a_key() -> None:
    assert session_key(ALICE, None, "\ud800 lone") != session_key(ALICE, None, "\udfff lone")


def test_a_remembered_session_has_its_tier_and_age(sessions: Sessions, clock: Clock) -> None:
    assert sessions.get("a") is None

    sessions.remember("a", "complex", TIMEOUT_S, user_id="alice", model="big")
    clock.now_s += 12.5

    session = sessions.get("a")
    assert session is not None
    assert (session.tier, session.age_s, session.user_id, session.model) == ("complex", 12.5, "alice", "big")
    assert session.classified_at == clock.now_s - 12.5


def test_a_session_expires_after_its_timeout_but_is_known_for_an_hour_more(sessions: Sessions, clock: Clock) -> None:
    sessions.remember("a", "complex", TIMEOUT_S)

    clock.now_s += TIMEOUT_S - 0.1
    assert not sessions.get("a").expired(TIMEOUT_S)  # type: ignore[union-attr]

    clock.now_s += 0.1
    assert sessions.get("a").expired(TIMEOUT_S)  # type: ignore[union-attr]

    clock.now_s += kept_s(TIMEOUT_S) - TIMEOUT_S
    assert sessions.get("a") is None


def test_reading_does_not_prolong_a_session_and_remembering_does(sessions: Sessions, clock: Clock) -> None:
    sessions.remember("a", "simple", TIMEOUT_S)

    clock.now_s += 200
    sessions.get("a")
    assert sessions.all(TIMEOUT_S)["a"]["remaining_sec"] == 100

    sessions.remember("a", "complex", TIMEOUT_S)
    assert sessions.all(TIMEOUT_S)["a"]["remaining_sec"] == 300


def test_a_reload_of_the_timeout_counts_for_sessions_that_are_there(sessions: Sessions, clock: Clock) -> None:
    sessions.remember("a", "simple", TIMEOUT_S)
    clock.now_s += 100

    assert sessions.count(60) == 0
    assert sessions.count(TIMEOUT_S) == 1


def test_the_admin_sees_the_living_sessions_youngest_first(sessions: Sessions, clock: Clock) -> None:
    sessions.remember("gone", "simple", TIMEOUT_S)
    clock.now_s += 250
    sessions.remember("old", "simple", TIMEOUT_S)
    clock.now_s += 60.06
    sessions.remember("new", "complex", TIMEOUT_S, user_id="alice", model="big")

    shown = sessions.all(TIMEOUT_S)

    assert list(shown) == ["new", "old"]
    assert shown["new"] == {"tier": "complex", "age_sec": 0, "remaining_sec": 300, "user_id": "alice", "model": "big"}
    assert shown["old"] == {"tier": "simple", "age_sec": 60.1, "remaining_sec": 239.9, "user_id": None, "model": None}
    assert sessions.count(TIMEOUT_S) == 2


def test_many_sessions_are_counted_in_batches(sessions: Sessions) -> None:
    for number in range(BATCH + 5):
        sessions.remember(f"s{number}", "simple", TIMEOUT_S)

    assert sessions.count(TIMEOUT_S) == BATCH + 5


def test_an_evicted_session_is_gone_with_its_strikes(sessions: Sessions) -> None:
    sessions.remember("a", "simple", TIMEOUT_S)
    sessions.strike("a")

    assert sessions.evict("a")
    assert sessions.get("a") is None
    assert sessions.strikes("a") == 0
    assert not sessions.evict("a")


def test_strikes_count_breaks_in_a_row(sessions: Sessions) -> None:
    assert sessions.strikes("a") == 0
    assert [sessions.strike("a") for _ in range(3)] == [1, 2, 3]
    assert sessions.strikes("a") == 3
    assert sessions.strikes("b") == 0

    sessions.clean("a")

    assert sessions.strikes("a") == 0
    assert sessions.strike("a") == 1


def test_strikes_are_forgotten_after_an_hour(sessions: Sessions, clock: Clock) -> None:
    sessions.strike("a")

    clock.now_s += STRIKES_TTL_S

    assert sessions.strikes("a") == 0


def test_clocks_of_two_machines_may_differ(store: MemoryStore, clock: Clock) -> None:
    ahead = Sessions(store, lambda: clock.now_s + 5)
    ahead.remember("a", "simple", TIMEOUT_S)

    session = Sessions(store, clock).get("a")

    assert session is not None
    assert session.age_s == 0


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("not json", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="nothing in it"),
        pytest.param('{"tier": "simple", "at": "soon"}', id="no time"),
        pytest.param('{"tier": "medium", "at": 1}', id="an unknown tier"),
        pytest.param('{"tier": ["simple"], "at": 1}', id="a tier of another type"),
    ],
)
def test_a_value_of_another_version_is_a_new_session(store: MemoryStore, sessions: Sessions, value: str) -> None:
    store.put("session:a", value, 100)

    assert sessions.get("a") is None
    assert sessions.all(TIMEOUT_S) == {}


def test_values_in_the_store_are_json(store: MemoryStore, sessions: Sessions) -> None:
    sessions.remember("a", "simple", TIMEOUT_S, user_id="alice", model="small")

    assert json.loads(store.get("session:a") or "")["tier"] == "simple"
