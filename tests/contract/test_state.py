"""Every state store keeps these promises: the one in memory, the one in Redis, and the one that survives Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes.state.redis_store import PAGE, RedisStore
from hermes.state.resilient import ResilientStore
from hermes.state.store import Claim, MemoryStore, StateStore
from tests.redis_server import RedisServer

GROW_OLD = """
for _, key in ipairs(redis.call('KEYS', '*')) do
    if redis.call('TYPE', key).ok == 'zset' then
        for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
            redis.call('ZINCRBY', key, -1000 * ARGV[1], member)
        end
    end
    redis.call('PEXPIRE', key, redis.call('PTTL', key) - ARGV[1])
end
"""
"""Takes milliseconds off every life, instead of waiting for them."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def go(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds


class RedisClock(Clock):
    """The same for a Redis, whose clock is its own."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self._server = server

    def go(self, seconds: float) -> None:
        super().go(seconds)
        self._server.ask("EVAL", GROW_OLD, 0, int(seconds * 1000))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["memory", "redis", "resilient"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(request: pytest.FixtureRequest, kind: str) -> Clock:
    if kind == "memory":
        return Clock()
    server: RedisServer = request.getfixturevalue("server")
    server.ask("FLUSHALL")
    return RedisClock(server)


@pytest.fixture
def store(request: pytest.FixtureRequest, kind: str, clock: Clock) -> Iterator[StateStore]:
    if kind == "memory":
        yield MemoryStore(clock)
        return
    redis_store = RedisStore(request.getfixturevalue("server").url)
    yield redis_store if kind == "redis" else ResilientStore(redis_store, clock=clock)
    redis_store.close()


def test_a_value_lives_as_long_as_it_was_given(store: StateStore, clock: Clock) -> None:
    store.put("session:a", "x", 100)
    clock.go(90)
    assert store.get("session:a") == "x"

    clock.go(10)

    assert store.get("session:a") is None
    assert store.count("session") == 0
    assert store.items("session") == []


def test_putting_again_begins_a_new_life(store: StateStore, clock: Clock) -> None:
    store.put("session:a", "x", 100)
    clock.go(90)

    store.put("session:a", "y", 100)
    clock.go(90)

    assert store.items("session") == [("session:a", "y")]


def test_a_life_can_be_very_long(store: StateStore, clock: Clock) -> None:
    store.put("session:a", "x", 1e15)
    store.put("session:b", "x", float("inf"))

    clock.go(86_400)

    assert store.count("session") == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("a\r\n$3\r\nb\0", id="what means something to Redis"),
        pytest.param("سلام ✓ \U0001f600", id="beyond ASCII"),
        pytest.param("half \ud83d", id="half a surrogate pair"),
        pytest.param("x" * 1_000_000, id="a megabyte"),
    ],
)
def test_any_text_is_kept_as_it_is(store: StateStore, text: str) -> None:
    store.put("session:a", text, 100)
    store.put(f"name:{text[:1000]}", "x", 100)

    assert store.get("session:a") == text
    assert store.items("session") == [("session:a", text)]
    assert store.items("name") == [(f"name:{text[:1000]}", "x")]


def test_deleting_says_whether_there_was_something(store: StateStore) -> None:
    store.put("session:a", "x", 100)

    assert store.delete("session:a")
    assert not store.delete("session:a")
    assert store.count("session") == 0


def test_a_counter_dies_with_the_window_of_its_first_addition(store: StateStore, clock: Clock) -> None:
    assert store.add("failures:a", 1, 100) == 1
    clock.go(90)
    assert store.add("failures:a", 2, 100) == 3

    clock.go(10)

    assert store.get("failures:a") is None
    assert store.add("failures:a", 1, 100) == 1


def test_counters_count_down_and_very_far(store: StateStore) -> None:
    store.add("spent:a", 9_000_000_000_000_000, 100)

    assert store.add("spent:a", 7, 100) == 9_000_000_000_000_007
    assert store.add("spent:a", -9_000_000_000_000_000, 100) == 7
    assert store.get("spent:a") == "7"


def test_exactly_one_claims(store: StateStore, clock: Clock) -> None:
    assert [store.claim("probe:a", 100) for _ in range(3)] == [True, False, False]

    clock.go(100)

    assert store.claim("probe:a", 100)


def test_a_new_value_never_takes_the_place_of_another(store: StateStore) -> None:
    assert store.put_new("session:a", "x", 100)
    assert not store.put_new("session:a", "y", 100)
    store.delete("session:a")

    assert store.put_new("session:a", "z", 100)
    assert store.get("session:a") == "z"


@pytest.mark.parametrize(
    ("used", "claim", "granted"),
    [
        pytest.param(0, Claim("c:a", 10, 10, 100), True, id="all of it"),
        pytest.param(0, Claim("c:a", 11, 10, 100), False, id="more than all"),
        pytest.param(7, Claim("c:a", 3, 10, 100), True, id="just the rest"),
        pytest.param(7, Claim("c:a", 4, 10, 100), False, id="more than the rest"),
        pytest.param(9, Claim("c:a", 50, 10, 100, may_exceed=True), True, id="over the limit from below"),
        pytest.param(10, Claim("c:a", 1, 10, 100, may_exceed=True), False, id="over the limit from the limit"),
        pytest.param(0, Claim("c:a", 0, 0, 100, may_exceed=True), False, id="a limit of nothing"),
    ],
)
def test_a_claim_is_granted_below_its_limit(store: StateStore, used: int, claim: Claim, granted: bool) -> None:
    if used:
        store.add("c:a", used, 100)

    refused = store.reserve([claim])

    assert refused == (None if granted else 0)
    assert int(store.get("c:a") or 0) == used + (claim.amount if granted else 0)


def test_claims_are_granted_all_together_or_not_at_all(store: StateStore) -> None:
    store.add("rate:b", 10, 100)
    first, full, last = Claim("rate:a", 1, 10, 100), Claim("rate:b", 1, 10, 100), Claim("rate:c", 1, 10, 100)

    assert store.reserve([first, full, last]) == 1
    assert (store.get("rate:a"), store.get("rate:c")) == (None, None)
    assert store.reserve([first, last]) is None
    assert (store.get("rate:a"), store.get("rate:c")) == ("1", "1")
    assert store.reserve([]) is None


def test_what_is_reserved_dies_with_its_window(store: StateStore, clock: Clock) -> None:
    store.reserve([Claim("rate:a", 10, 10, 100)])
    clock.go(100)

    assert store.reserve([Claim("rate:a", 10, 10, 100)]) is None


def test_nouns_do_not_mix(store: StateStore) -> None:
    store.put("session:a", "1", 100)
    store.put("sessions:b", "2", 100)
    store.put("session:sessions:c", "3", 100)

    assert sorted(store.items("session")) == [("session:a", "1"), ("session:sessions:c", "3")]
    assert (store.count("session"), store.count("sessions"), store.count("sess")) == (2, 1, 0)


def test_a_long_list_is_whole(store: StateStore) -> None:
    wanted = {f"session:{number}": str(number) for number in range(2 * PAGE + 3)}
    for key, value in wanted.items():
        store.put(key, value, 100)

    assert dict(store.items("session")) == wanted
    assert store.count("session") == len(wanted)


def test_memory_is_bounded_and_the_longest_untouched_goes_first() -> None:
    store = MemoryStore(Clock(), limit=2)
    for key in ("session:a", "session:b", "session:c"):
        store.put(key, "x", 10)

    assert [key for key, _ in store.items("session")] == ["session:b", "session:c"]


def test_the_dead_are_swept_without_being_asked_for() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    store.put("session:dead", "x", 1)
    clock.go(2)

    for number in range(MemoryStore.SWEEP_EVERY):
        store.put(f"other:{number % 10}", "x", 100)

    assert "session:dead" not in store._nouns["session"]
