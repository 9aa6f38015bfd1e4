"""Requests go on whatever becomes of the shared store, and it learns afterwards what they did meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count

import pytest

from hermes.admission.books import FILLED_NOUNS
from hermes.directory import Budget
from hermes.errors import BudgetExceeded
from hermes.state.resilient import KNOCK_EVERY_S, LONGEST_REST_S, STEADY_S, ResilientStore
from hermes.state.shared import StoreAway
from hermes.state.store import Claim, MemoryStore
from tests.unit.quota_bench import Bench, a_budget


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Shared(MemoryStore):
    """A shared store that can be away, and that remembers what it was asked."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.is_up = True
        self.asked: list[str] = []
        self.is_silent = False
        """It does the next reservation, but goes away before it says so."""

        self.goes_after: int | None = None
        """How many more verbs it answers."""

        self.life = "first"
        """Its name for this life; an empty one is not told."""

        self._born: str | None = None

    def flush(self) -> None:
        """Loses everything."""
        self._nouns.clear()
        self._born = None

    def _check(self, verb: str) -> None:
        self.asked.append(verb)
        if self.goes_after is not None:
            self.is_up = self.goes_after > 0
            self.goes_after -= 1
        if not self.is_up:
            raise StoreAway("refused")

    def look(self, key: str) -> tuple[str, float] | None:
        self._check("look")
        entry = self._alive(key)
        return (entry.value, entry.dies_at - self._clock()) if entry else None

    def get(self, key: str) -> str | None:
        self._check("get")
        return super().get(key)

    def put(self, key: str, value: str, ttl_s: float) -> None:
        self._check("put")
        super().put(key, value, ttl_s)

    def delete(self, key: str) -> bool:
        self._check("delete")
        return super().delete(key)

    def add(self, key: str, amount: int, ttl_s: float) -> int:
        self._check("add")
        entry = self._alive(key)
        total = amount + (int(entry.value) if entry else 0)
        MemoryStore.put(self, key, str(total), entry.dies_at - self._clock() if entry else ttl_s)
        return total

    def put_new(self, key: str, value: str, ttl_s: float) -> bool:
        self._check("put_new")
        if self._alive(key) is not None:
            return False
        super().put(key, value, ttl_s)
        return True

    def reserve(self, claims: Sequence[Claim]) -> int | None:
        self._check("reserve")
        plain = MemoryStore(self._clock)
        plain._nouns = self._nouns
        refused = plain.reserve(claims)
        if self.is_silent:
            self.is_silent = self.is_up = False
            raise StoreAway("no reply in time")
        return refused

    def items(self, noun: str) -> list[tuple[str, str]]:
        self._check("items")
        return super().items(noun)

    def count(self, noun: str, at_least_s: float = 0.0) -> int:
        self._check("count")
        return super().count(noun, at_least_s)

    def offer(self, entries: Sequence[tuple[str, str, float]]) -> None:
        self._check("offer")
        for key, value, left_s in entries:
            if self._alive(key) is None:
                MemoryStore.put(self, key, value, left_s)

    def generation(self, mine: str) -> tuple[str, str]:
        self._check("generation")
        self._born = self._born or mine
        return self._born, self.life


class World:
    """Two workers on one shared store."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.shared = Shared(self.clock)
        names = count(1)
        self.one, self.two = (
            ResilientStore(self.shared, 2, self.clock, lambda: f"generation-{next(names)}") for _ in range(2)
        )
        self.tend()

    def tend(self) -> None:
        """A turn of both workers' background loops."""
        self.one.tend()
        self.two.tend()

    def go(self, seconds: float) -> None:
        """Time passes, with the loops running."""
        self.clock.now += seconds
        self.tend()

    def come_back(self) -> None:
        """The store is reachable again, and the workers have found so."""
        self.shared.is_up = True
        self.go(KNOCK_EVERY_S)


@pytest.fixture
def world() -> World:
    return World()


def test_what_one_worker_does_the_other_sees(world: World) -> None:
    world.one.put("session:a", "x", 100)
    world.one.add("rate:a", 2, 100)

    assert world.two.get("session:a") == "x"
    assert world.two.add("rate:a", 1, 100) == 3
    assert world.two.items("session") == [("session:a", "x")]
    assert not world.two.put_new("session:a", "y", 100)


# -- away -------------------------------------------------------------------------------------------------


def test_every_verb_works_without_the_store(world: World) -> None:
    world.shared.is_up = False
    one = world.one

    one.put("session:a", "x", 100)

    assert one.get("session:a") == "x"
    assert one.get("session:none") is None
    assert (one.add("rate:a", 1, 100), one.add("rate:a", 1, 100)) == (1, 2)
    assert one.get("rate:a") == "2"
    assert (one.claim("probe:a", 100), one.claim("probe:a", 100)) == (True, False)
    assert (one.put_new("name:a", "x", 100), one.put_new("name:a", "y", 100)) == (True, False)
    assert one.items("session") == [("session:a", "x")]
    assert one.count("rate") == 1
    assert (one.delete("session:a"), one.delete("session:a")) == (True, False)
    assert (one.delete("rate:a"), one.get("rate:a")) == (True, None)


def test_only_the_first_request_pays_for_an_outage(world: World) -> None:
    world.shared.is_up = False
    world.one.get("session:a")
    world.shared.asked.clear()

    for _ in range(100):
        world.one.get("session:a")
        world.one.add("rate:a", 1, 100)

    assert world.shared.asked == []
    assert world.one.is_away


def test_knocking_is_once_a_second_and_no_request_does_it(world: World) -> None:
    world.shared.is_up = False
    world.one.get("session:a")
    world.shared.asked.clear()

    for _ in range(40):
        world.clock.now += 0.25
        world.one.tend()

    assert world.shared.asked == ["generation"] * 10


def test_a_worker_goes_on_with_what_it_last_read_or_wrote(world: World) -> None:
    world.one.put("session:a", "written", 100)
    world.one.put("session:b", "gone", 100)
    world.two.get("session:a")
    world.two.get("session:b")
    world.one.delete("session:b")
    world.two.get("session:b")
    world.shared.is_up = False

    assert world.one.get("session:a") == world.two.get("session:a") == "written"
    assert world.one.get("session:b") is world.two.get("session:b") is None
    world.clock.now += 100
    assert world.one.get("session:a") is world.two.get("session:a") is None


def test_counters_begin_at_zero_and_each_worker_has_its_share(world: World) -> None:
    world.one.reserve([Claim("rate:a", 6, 10, 100)])
    world.shared.is_up = False

    granted = [world.one.reserve([Claim("rate:a", 1, 10, 100)]) is None for _ in range(7)]

    assert granted == [True] * 5 + [False] * 2


@pytest.mark.parametrize(
    ("claims", "answers"),
    [
        pytest.param([Claim("slot:a", 1, 1, 100)] * 2, [None, 0], id="the share of one is one"),
        pytest.param(
            [Claim("rate:a", 9, 10, 100)] * 2, [None, 0], id="more than the share passes where nothing is used"
        ),
        pytest.param([Claim("spent:a", 99, 10, 100, True)] * 2, [None, 0], id="what may exceed its limit"),
    ],
)
def test_shares(world: World, claims: list[Claim], answers: list[int | None]) -> None:
    world.shared.is_up = False

    assert [world.one.reserve([claim]) for claim in claims] == answers
    assert world.one.get(claims[0].key) == str(claims[0].amount)


def test_one_warning_and_one_line_an_outage(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world.shared.is_up = False
    for _ in range(5):
        world.one.get("session:a")
        world.one.put("session:a", "x", 100)
        world.go(KNOCK_EVERY_S)
    world.shared.is_up = True
    world.two.tend()

    world.go(KNOCK_EVERY_S)
    world.go(KNOCK_EVERY_S)

    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lines] == ["WARNING", "WARNING", "INFO", "INFO"]
    assert lines[0][1] == "The shared state is away, this worker goes on with its own (refused)"
    assert "back after 6.0 s" in lines[2][1]


def test_a_store_that_comes_and_goes_is_left_alone_for_longer(world: World) -> None:
    rests = []
    for _ in range(4):
        world.shared.is_up = False
        world.one.get("session:a")
        world.shared.is_up, began = True, world.clock.now
        while world.one.is_away:
            world.clock.now += 0.125
            world.one.tend()
        rests.append(world.clock.now - began)

    assert rests == [KNOCK_EVERY_S, 2.0, LONGEST_REST_S, LONGEST_REST_S]

    world.clock.now += STEADY_S
    world.shared.is_up = False
    world.one.get("session:a")
    world.shared.is_up = True
    world.clock.now += KNOCK_EVERY_S
    world.one.tend()
    assert not world.one.is_away


# -- back -------------------------------------------------------------------------------------------------


def test_what_was_done_meanwhile_is_told(world: World) -> None:
    world.one.put("session:old", "x", 100)
    world.one.put("session:evicted", "x", 100)
    world.shared.is_up = False
    world.one.put("session:old", "newer", 100)
    world.one.put("session:new", "y", 50)
    world.one.put("session:short", "z", 0.5)
    world.one.delete("session:evicted")
    world.one.claim("probe:a", 100)

    world.come_back()

    assert sorted(world.two.items("session")) == [("session:new", "y"), ("session:old", "newer")]
    assert not world.two.claim("probe:a", 100)
    world.clock.now += 50
    assert world.two.get("session:new") is None


def test_counts_of_all_workers_add_up(world: World) -> None:
    world.one.add("failures:a", 10, 100)
    world.shared.is_up = False
    world.one.add("failures:a", 1, 100)
    world.one.reserve([Claim("failures:a", 3, 100, 100)])
    world.two.add("failures:a", 5, 100)

    world.come_back()

    assert world.one.get("failures:a") == world.two.get("failures:a") == "19"


def test_what_was_taken_before_may_be_given_back_meanwhile(world: World) -> None:
    world.one.reserve([Claim("rate:a", 7, 10, 100)])
    world.shared.is_up = False
    world.one.add("rate:a", -5, 100)

    world.come_back()

    assert world.one.get("rate:a") == "2"


def test_nothing_is_given_back_to_a_counter_that_is_gone(world: World) -> None:
    world.one.reserve([Claim("rate:a", 7, 10, 100)])
    world.shared.is_up = False
    world.one.add("rate:a", -5, 100)
    world.shared.flush()

    world.come_back()

    assert world.one.get("rate:a") is None


def test_a_counter_deleted_meanwhile_begins_anew(world: World) -> None:
    world.one.add("strikes:a", 2, 100)
    world.shared.is_up = False
    world.one.delete("strikes:a")
    world.one.add("strikes:a", 1, 100)

    world.come_back()

    assert world.two.get("strikes:a") == "1"


def test_the_counts_of_one_outage_are_no_part_of_the_next(world: World) -> None:
    world.shared.is_up = False
    world.one.add("rate:a", 5, 1000)
    world.come_back()
    world.shared.is_up = False

    assert world.one.add("rate:a", 1, 1000) == 1


@pytest.mark.parametrize("answered", range(6))
def test_a_store_that_leaves_while_it_is_told_is_told_the_rest_later(world: World, answered: int) -> None:
    world.shared.is_up = False
    world.one.add("rate:a", 1, 1000)
    world.one.put("session:a", "x", 1000)
    world.one.add("rate:b", 2, 1000)
    world.shared.goes_after = answered
    world.clock.now += KNOCK_EVERY_S
    world.one.tend()
    was_away = world.one.is_away
    world.one.add("rate:a", 10, 1000)
    world.shared.goes_after = None

    world.come_back()
    world.go(LONGEST_REST_S)

    assert was_away == (answered < 4)
    assert (world.shared.get("rate:a"), world.shared.get("session:a"), world.shared.get("rate:b")) == ("11", "x", "2")


@pytest.mark.parametrize("how", ["restarted", "flushed"])
def test_an_empty_store_is_given_what_the_workers_know(world: World, how: str) -> None:
    world.one.put("session:a", "x", 100)
    world.one.put("session:b", "y", 100)
    world.two.get("session:a")
    if how == "restarted":
        world.shared.is_up = False
        world.one.get("session:a")
        world.one.put("session:b", "newer", 100)
    world.shared.flush()

    world.come_back()

    found = dict(world.two.items("session"))
    assert found == {"session:a": "x", "session:b": "newer" if how == "restarted" else "y"}


@pytest.mark.parametrize(
    ("life", "noticed", "believed"),
    [
        pytest.param("second", True, False, id="started again while a request asked"),
        pytest.param("second", False, False, id="started again, or replaced, unseen"),
        pytest.param("first", True, True, id="was only out of reach"),
        pytest.param("first", False, True, id="was there"),
        pytest.param("", True, False, id="was out of reach, and does not tell"),
        pytest.param("", False, True, id="was there, and does not tell"),
    ],
)
def test_counters_of_a_store_that_may_have_come_back_older_are_not_believed(
    life: str, noticed: bool, believed: bool
) -> None:
    shared = Shared(Clock())
    shared.life = life and "first"
    one = ResilientStore(shared, 2, shared._clock, rebuilt=("seal", "budget"), seals="seal")
    one.tend()
    one.add("seal:a:x", -1, 100)
    one.add("budget:a:x", 7, 100)
    if noticed:
        shared.is_up = False
        one.get("session:a")

    shared.is_up, shared.life = True, life
    shared._clock.now += KNOCK_EVERY_S  # type: ignore[attr-defined]
    one.tend()

    assert not one.is_away
    assert one.get("seal:a:x") == ("-1" if believed else None)
    one.tend()
    assert one.add("seal:b:x", -1, 100) == -1, "what is filled anew is believed again"
    one.tend()
    assert one.get("seal:b:x") == "-1"


def test_a_worker_that_starts_has_nothing_to_offer(world: World) -> None:
    world.shared.asked.clear()
    ResilientStore(world.shared, clock=world.clock).tend()

    assert world.shared.asked == ["generation"]


def test_a_worker_may_start_while_the_store_is_away(world: World) -> None:
    world.shared.is_up = False
    three = ResilientStore(world.shared, clock=world.clock)
    three.put("session:a", "x", 100)

    world.shared.is_up = True
    world.clock.now += KNOCK_EVERY_S
    three.tend()

    assert world.two.get("session:a") == "x"


# -- what can be rebuilt ----------------------------------------------------------------------------------


class Budgeted:
    """A quota on a shared store that may be away, of one of two workers."""

    def __init__(self, *budgets: Budget) -> None:
        self.shared = Shared(clock := Clock())
        self.clock = clock
        self.store = ResilientStore(self.shared, 2, clock, rebuilt=FILLED_NOUNS)
        self.store.tend()
        self.bench = Bench(*budgets, store=self.store)

    def passes(self) -> bool:
        """Whether a request does, which is over at once and has used 100 tokens."""
        try:
            hold = self.bench.ask()
        except BudgetExceeded:
            return False
        self.bench.finish(hold)
        return True

    def come_back(self) -> None:
        """The store is reachable again, and the worker has found so."""
        self.shared.is_up = True
        self.clock.now += LONGEST_REST_S
        self.store.tend()


@pytest.mark.parametrize(
    ("limit", "before", "meanwhile", "after"),
    [
        pytest.param(3, 3, 0, 0, id="nothing is left"),
        pytest.param(0, 0, 0, 0, id="there was never any"),
        pytest.param(11, 1, 5, 5, id="half of what is left, for one worker of two"),
        pytest.param(4, 3, 1, 0, id="less than one for each"),
    ],
)
def test_an_outage_gives_a_budget_nothing_that_is_spent(limit: int, before: int, meanwhile: int, after: int) -> None:
    world = Budgeted(a_budget(limit, "requests"))
    assert [world.passes() for _ in range(before)] == [True] * before
    world.shared.is_up = False

    assert sum(world.passes() for _ in range(20)) == meanwhile
    world.come_back()

    assert sum(world.passes() for _ in range(20)) == after
    assert world.bench.counter("requests", "user", "anna") == limit


@pytest.mark.parametrize("when", ["asking", "settling"])
def test_what_the_store_has_done_without_saying_so_in_time_is_not_counted_twice(when: str) -> None:
    world = Budgeted(a_budget(1000))
    world.passes()
    if when == "asking":
        world.shared.is_silent = True
    hold = world.bench.ask()
    world.shared.is_silent = True

    world.bench.finish(hold, tokens=30)
    world.come_back()
    world.passes()

    assert world.bench.counter("tokens", "user", "anna") == 100 + 30 + 100


def test_a_request_that_was_under_way_in_an_outage_holds_nothing_afterwards() -> None:
    world = Budgeted(a_budget(1000))
    world.passes()
    before = world.bench.ask()
    world.shared.is_up = False
    meanwhile = world.bench.ask()
    world.bench.finish(before, tokens=10)
    world.come_back()
    world.bench.finish(meanwhile, tokens=20)
    world.passes()

    assert world.bench.counter("tokens", "user", "anna") == 100 + 10 + 20 + 100
