"""Every state store keeps these promises."""

from __future__ import annotations

import pytest

from hermes.state.store import MemoryStore, StateStore


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory"])
def store(request: pytest.FixtureRequest, clock: Clock) -> StateStore:
    return MemoryStore(clock)


def test_a_value_lives_as_long_as_it_was_given(store: StateStore, clock: Clock) -> None:
    store.put("session:a", "x", 10)
    assert store.get("session:a") == "x"

    clock.now += 10

    assert store.get("session:a") is None
    assert store.count("session") == 0
    assert store.items("session") == []


def test_deleting_says_whether_there_was_something(store: StateStore) -> None:
    store.put("session:a", "x", 10)

    assert store.delete("session:a")
    assert not store.delete("session:a")


def test_a_counter_dies_with_the_window_of_its_first_addition(store: StateStore, clock: Clock) -> None:
    assert store.add("failures:a", 1, 10) == 1
    clock.now += 9
    assert store.add("failures:a", 2, 10) == 3

    clock.now += 1

    assert store.add("failures:a", 1, 10) == 1


def test_exactly_one_claims(store: StateStore, clock: Clock) -> None:
    assert [store.claim("probe:a", 5) for _ in range(3)] == [True, False, False]

    clock.now += 5

    assert store.claim("probe:a", 5)


def test_nouns_do_not_mix(store: StateStore) -> None:
    store.put("session:a", "1", 10)
    store.put("sessions:b", "2", 10)

    assert store.items("session") == [("session:a", "1")]


def test_memory_is_bounded_and_the_longest_untouched_goes_first(clock: Clock) -> None:
    store = MemoryStore(clock, limit=2)
    for key in ("session:a", "session:b", "session:c"):
        store.put(key, "x", 10)

    assert [key for key, _ in store.items("session")] == ["session:b", "session:c"]


def test_the_dead_are_swept_without_being_asked_for(clock: Clock) -> None:
    store = MemoryStore(clock)
    store.put("session:dead", "x", 1)
    clock.now += 2

    for number in range(MemoryStore.SWEEP_EVERY):
        store.put(f"other:{number % 10}", "x", 100)

    assert "session:dead" not in store._nouns["session"]
