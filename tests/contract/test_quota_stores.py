"""Limits and budgets hold on every state store, for several processes that share it, and when it loses everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hermes.admission.books import FILLED_NOUNS
from hermes.directory import EACH
from hermes.errors import BooksUnreadable, BudgetExceeded, RateLimited
from hermes.state.redis_store import RedisStore
from hermes.state.resilient import ResilientStore
from hermes.state.store import MemoryStore, StateStore
from tests.redis_server import RedisServer
from tests.unit.quota_bench import USD, Bench, a_budget, closed, per_user


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


NewStore = Callable[[], StateStore]
"""The store of one more process, which shares its content with the others'."""


@pytest.fixture(params=["memory", "redis", "resilient"])
def new_store(request: pytest.FixtureRequest) -> Iterator[NewStore]:
    if request.param == "memory":
        memory = MemoryStore()
        yield lambda: memory
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    server.ask("FLUSHALL")
    opened: list[RedisStore] = []

    def make() -> StateStore:
        opened.append(RedisStore(server.url))
        return opened[-1] if request.param == "redis" else ResilientStore(opened[-1], rebuilt=FILLED_NOUNS)

    yield make
    for store in opened:
        store.close()


def two_processes(new_store: NewStore, *budgets: object, **policy: object) -> tuple[Bench, Bench]:
    one, other = (Bench(*budgets, store=new_store(), **policy) for _ in range(2))  # type: ignore[arg-type]
    other.log = one.log
    other.restart()
    return one, other


def test_two_processes_spend_one_budget(new_store: NewStore) -> None:
    one, other = two_processes(new_store, a_budget(500_000, "usd", name=EACH))

    holds = [process.ask() for _ in range(2) for process in (one, other)]
    one.finish(holds[0], tokens=10)
    other.finish(holds[1], tokens=20)
    holds += [process.ask() for process in (one, other, one)]

    for process in (one, other):
        with pytest.raises(BudgetExceeded):
            process.ask()
        assert process.counter("usd", "user", "anna") == 530_000
    for hold in holds:
        hold.settle(None, None)
    assert one.counter("usd", "user", "anna") == 30_000
    assert one.log.questions == [("user", "anna")]


def test_a_counter_of_millions_is_exact_to_the_nano_dollar(new_store: NewStore) -> None:
    one, other = two_processes(new_store, a_budget(8_000_000 * USD, "usd"))
    first = one.ask()

    one.finish(first, tokens=7_000_000_000_000_001, per_token=1)
    other.finish(other.ask(), tokens=2, per_token=1)

    assert other.counter("usd", "user", "anna") == 7_000_000_000_000_003


def test_processes_share_slots_and_rates(new_store: NewStore) -> None:
    one, other = two_processes(new_store, limits=per_user(requests=7, tokens=10_000, concurrent=4))

    holds = [process.ask() for _ in range(2) for process in (one, other)]
    for process in (one, other):
        with pytest.raises(RateLimited, match="4 requests at once"):
            process.ask()
    for hold in holds:
        hold.settle(None, None)

    for process in (one, other, one):
        shown = dict(process.ask().headers)
    assert shown["x-ratelimit-remaining-requests"] == "0"
    assert shown["x-ratelimit-remaining-tokens"] == "9700"
    with pytest.raises(RateLimited, match="7 requests per minute"):
        other.ask()


def test_a_redis_that_lost_everything_is_filled_from_the_usage_log(redis_server: RedisServer) -> None:
    """Also where a worker gives it back what it remembers of it: an old number must not be believed."""
    redis_server.ask("FLUSHALL")
    shared = RedisStore(redis_server.url)
    store = ResilientStore(shared)
    store.tend()
    bench = Bench(a_budget(1000), store=store)
    for tokens in (300, 400):
        bench.finish(bench.ask(), tokens)

    redis_server.ask("FLUSHALL")
    store.tend()
    bench.ask()

    assert bench.counter("tokens", "user", "anna") == 800
    shared.close()


def test_requests_go_on_while_redis_is_away_and_are_counted_when_it_is_back() -> None:
    with RedisServer() as server:
        shared = RedisStore(server.url)
        store = ResilientStore(shared, clock=Clock(), rebuilt=FILLED_NOUNS)
        store.tend()
        bench = Bench(a_budget(1000), store=store, limits=per_user(concurrent=3, requests=50))
        bench.finish(bench.ask(), 300)
        under_way = bench.ask()
        server.kill()

        for _ in range(4):
            bench.finish(bench.ask(), 50)
        bench.finish(under_way, 60)
        server.start()
        Clock.now += 10
        store.tend()
        last = bench.ask()

        assert bench.counter("tokens", "user", "anna") == 300 + 4 * 50 + 60 + 100
        last.settle(None, None)
        assert bench.slots() == 0
        shared.close()


def test_who_lets_nobody_pass_without_the_books_lets_nobody_pass_while_redis_is_away() -> None:
    with RedisServer() as server:
        shared = RedisStore(server.url)
        store = ResilientStore(shared, clock=Clock(), rebuilt=FILLED_NOUNS)
        bench = Bench(a_budget(1000), store=store, budgets=closed())
        bench.ask().settle(None, None)
        server.kill()
        bench.ask()  # finds it away
        bench.store_is_away = store.is_away

        with pytest.raises(BooksUnreadable):
            bench.ask()
        shared.close()


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now
