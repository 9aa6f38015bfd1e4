"""Whatever is asked for, finished, broken off and lost in whatever order: the counters say what the rows say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gevent
import pytest
from gevent.event import Event
from hypothesis import given
from hypothesis import strategies as st

from hermes.accounting.exchange import Exchange
from hermes.admission.quota import Hold
from hermes.directory import EACH, Spent
from hermes.errors import BudgetExceeded, ClientGone, InvalidRequest, RateLimited, UpstreamFailed
from hermes.types import Principal, Usage, UsageRecord
from tests.unit.quota_bench import NOON, USD, Bench, DistantStore, FixedPrices, a_budget, endpoint, per_user

LIMIT = 1000
DAY_S = 86_400


# -- parallel requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(lambda: None, id="a store in memory"),
        pytest.param(lambda: DistantStore(random.Random(1)), id="a store far away"),
        pytest.param(lambda: DistantStore(random.Random(2)), id="the same at another pace"),
    ],
)
def test_two_hundred_at_once_overspend_the_last_cent_by_one_estimate_at_most(store: Callable[[], Any]) -> None:
    """Two processes; each request may use 100 tokens of 1,000 nano-USD and uses some; a quarter of the cent is left."""
    cent, estimate = USD // 100, 100 * 1000
    bench = Bench(a_budget(cent, "usd", name=EACH), store=store(), limits=per_user(concurrent=300))
    other = Bench(a_budget(cent, "usd", name=EACH), store=bench.store, limits=per_user(concurrent=300))
    other.log = bench.log
    other.restart()
    bench.log.rows.append((NOON, {"user": "anna"}, Spent(cent - 2_500_000, 0, 1)))
    rng = random.Random(7)

    def request(process: Bench) -> int:
        try:
            hold = process.ask()
        except BudgetExceeded:
            return 0
        gevent.sleep(rng.random() / 100)
        tokens = rng.randrange(50, 101)
        process.finish(hold, tokens)
        return tokens * 1000

    asking = [gevent.spawn(request, process) for process in (bench, other) for _ in range(100)]
    used = [greenlet.value for greenlet in gevent.joinall(asking, raise_error=True)]
    spent = cent - 2_500_000 + sum(used)

    # How many more than those find room that others have given back depends on who is quicker.
    assert sum(amount > 0 for amount in used) >= 2_500_000 // estimate
    assert spent < cent + estimate
    assert bench.counter("usd", "user", "anna") == spent
    assert sum(row.nanousd for _, _, row in bench.log.rows) == spent
    assert bench.log.questions == [("user", "anna")]
    assert bench.slots() == 0


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(lambda: None, id="a store in memory"),
        pytest.param(lambda: DistantStore(random.Random(1)), id="a store far away"),
    ],
)
def test_no_more_than_so_many_at_once(store: Callable[[], Any]) -> None:
    bench = Bench(store=store(), limits=per_user(concurrent=7))
    under_way = 0
    most = 0
    full = Event()

    def request() -> bool:
        nonlocal under_way, most
        try:
            hold = bench.ask()
        except RateLimited:
            return False
        under_way += 1
        most = max(most, under_way)
        if most == 7:
            full.set()
        full.wait(5)  # the first seven, for each other: none of them may be over before the last one comes
        gevent.sleep(0.001)
        under_way -= 1
        hold.settle(None, None)
        return True

    asking = gevent.joinall([gevent.spawn(request) for _ in range(100)], raise_error=True)

    assert 7 <= sum(greenlet.value for greenlet in asking) < 100
    assert (most, bench.slots()) == (7, 0)


# -- every order of events --------------------------------------------------------------------------------

USERS = ("anna", "ben")
EVENTS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(USERS), st.integers(1, 300)),
    st.tuples(st.just("finish"), st.integers(0, 9), st.integers(1, 400)),
    st.tuples(st.just("fail"), st.integers(0, 9), st.just(0)),
    st.tuples(st.sampled_from(["lose", "distrust", "forget"]), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, DAY_S), st.just(0)),
)


@dataclass(slots=True)
class UnderWay:
    """A request that has not ended."""

    hold: Hold
    user: str
    began: float
    set_aside: int
    process: Bench


class Ledger:
    """The same accounts kept in the plainest way, by two processes with one store."""

    def __init__(self) -> None:
        self.bench = Bench(a_budget(LIMIT, name=EACH))
        self.other = Bench(a_budget(LIMIT, name=EACH), store=self.bench.store)
        self.other.log = self.bench.log
        self.other.restart()
        self.under_way: list[UnderWay] = []
        self.rows: list[tuple[str, int, float]] = []

    def used(self, user: str, process: Bench | None = None) -> int:
        """What was spent and set aside today; of the requests under way those of one process, if one is named."""
        today = self.bench.now // DAY_S
        spent = sum(tokens for who, tokens, at in self.rows if (who, at // DAY_S) == (user, today))
        mine = [r for r in self.under_way if process in (None, r.process)]
        return spent + sum(r.set_aside for r in mine if (r.user, r.began // DAY_S) == (user, today))

    def happen(self, event: str, first: Any, second: int) -> None:
        if event == "ask":
            self.ask(first, second)
        elif event == "wait":
            self.bench.now += first
            self.other.now += first
        elif event == "forget":
            self.other.budgets.books._fillings.clear()
        elif event in ("lose", "distrust"):
            self.bench.lose_state() if event == "lose" else self.other.budgets.books.distrust()
        elif self.under_way:
            request = self.under_way.pop(first % len(self.under_way))
            if event == "fail":
                request.hold.settle(None, None)
            else:
                self.rows.append((request.user, second, request.began))
                self.bench.finish(request.hold, second, request.user, began=request.began)

    def ask(self, user: str, tokens: int) -> None:
        process = (self.bench, self.other)[tokens % 2]
        # A counter that is filled anew holds what this process has set aside; the others move theirs there next.
        has_room = self.used(user, process if self.counter(user) is None else None) < LIMIT
        try:
            hold = process.ask(user, prompt=0, max_tokens=tokens)
        except BudgetExceeded:
            assert not has_room
            for each in (self.bench, self.other):
                each.budgets.books.renew()
            return
        assert has_room
        self.under_way.append(UnderWay(hold, user, self.bench.now, tokens, process))
        for each in (self.bench, self.other):
            each.budgets.books.renew()
        assert self.counter(user) == self.used(user)

    def counter(self, user: str) -> int | None:
        key = f"tokens:day:{int(self.bench.now // DAY_S) * DAY_S}:user:{user}"
        filling = self.bench.store.get(f"filled:{key}")
        if filling is None or self.bench.store.get(f"seal:{filling}:{key}") is None:
            return None
        return int(self.bench.store.get(f"budget:{filling}:{key}") or 0)


@given(st.lists(EVENTS, max_size=60))
def test_a_counter_is_always_what_was_spent_and_what_is_under_way(events: list[tuple[str, Any, int]]) -> None:
    ledger = Ledger()

    for event in events:
        ledger.happen(*event)
    while ledger.under_way:
        ledger.happen("finish", 0, 10)

    for user in USERS:
        assert ledger.counter(user) in (None, ledger.used(user))


# -- every kind of end ------------------------------------------------------------------------------------


class Served:
    """A request with a hold and an account, as the gateway joins them."""

    def __init__(self) -> None:
        self.bench = Bench(
            a_budget(USD, "usd"), a_budget(10**6, period="week"), a_budget(9, "requests", period="month"),
            limits=per_user(concurrent=1, tokens=10_000),
        )  # fmt: skip
        self.written: list[UsageRecord] = []
        self.exchange = Exchange(
            UsageRecord("req_1", "2026-05-10T12:00:15.000Z", "/v1/chat/completions"),
            write=self.write,
            prices=FixedPrices(),
            began=0.0,
            clock=lambda: 1.0,
        )
        self.exchange.asked([{"role": "user", "content": "x" * 120}], Principal(), stream=False, preview=None)

    def write(self, record: UsageRecord) -> None:
        self.written.append(record)

    def hold(self, model: str = "cheap") -> None:
        self.exchange.holds(self.bench.ask(models=(model,)).settle)
        self.exchange.turned_to(endpoint(model), 0)

    def counted(self) -> tuple[int | None, ...]:
        return tuple(
            self.bench.counter(unit, "user", "anna", period)
            for unit, period in (("usd", "day"), ("tokens", "week"), ("requests", "month"))  # type: ignore[arg-type]
        )


NOTHING = (0, 0, 0)


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        pytest.param(
            {"status": "ok", "usage": {"prompt_tokens": 10, "completion_tokens": 30}}, (40_000, 40, 1), id="ok"
        ),
        pytest.param({"status": "ok", "content_bytes": lambda: 40}, (44_000, 44, 1), id="an answer without usage"),
        pytest.param(
            {"status": "interrupted", "content_bytes": lambda: 40}, (44_000, 44, 1), id="a stream that broke off"
        ),
        pytest.param(
            {"status": "client_disconnected", "content_bytes": lambda: 8}, (36_000, 36, 1), id="a stream left alone"
        ),
        pytest.param({"status": "error"}, NOTHING, id="the provider refused it"),
    ],
)
def test_an_end_is_counted_as_its_row_says(end: dict[str, Any], counted: tuple[int, ...]) -> None:
    served = Served()
    served.hold()

    with served.exchange as exchange:
        exchange.settle(**end)

    (row,) = served.written
    assert served.counted() == counted
    assert (row.total_tokens or 0) == counted[1]
    assert served.bench.slots() == 0


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        pytest.param(InvalidRequest("no"), NOTHING, id="a refusal of ours"),
        pytest.param(UpstreamFailed("none", [], retry_after_s=1), NOTHING, id="nobody answered"),
        pytest.param(ZeroDivisionError(), NOTHING, id="a fault of ours"),
        pytest.param(gevent.GreenletExit(), NOTHING, id="the process is ending"),
        pytest.param(ClientGone(), (34_000, 34, 1), id="the caller left while the provider was at it"),
    ],
)
def test_an_error_gives_back_what_it_did_not_use(error: BaseException, counted: tuple[int, ...]) -> None:
    served = Served()
    served.hold()

    with pytest.raises(type(error)), served.exchange:
        raise error

    assert served.counted() == counted
    assert served.bench.slots() == 0


def test_a_row_that_cannot_be_written_still_gives_back_the_slot() -> None:
    served = Served()
    served.hold()

    def full(record: UsageRecord) -> None:
        raise OSError("full")

    served.exchange._write = full
    with pytest.raises(OSError, match="full"):
        served.exchange.settle("ok", usage={"prompt_tokens": 10, "completion_tokens": 30})

    assert served.bench.slots() == 0
    assert served.counted() == (40_000, 40, 1)


def test_an_unknown_price_costs_no_money_but_tokens() -> None:
    served = Served()
    served.hold("unknown")

    served.exchange.settle("ok", usage={"prompt_tokens": 10, "completion_tokens": 30})

    assert served.counted() == (0, 40, 1)


def test_only_the_first_end_counts() -> None:
    served = Served()
    served.hold()

    with served.exchange as exchange:
        exchange.settle("ok", usage={"prompt_tokens": 10, "completion_tokens": 30})
        exchange.settle("interrupted", content_bytes=lambda: 9999)

    assert served.counted() == (40_000, 40, 1)


def test_an_exchange_without_a_hold_is_settled_as_ever() -> None:
    served = Served()

    served.exchange.settle("ok", usage={"prompt_tokens": 1, "completion_tokens": 1})

    assert len(served.written) == 1


def test_a_hold_may_be_settled_more_than_once() -> None:
    bench = Bench(a_budget(1000))
    hold = bench.ask()

    for _ in range(3):
        hold.settle(Usage(10, 20, 30), 0)

    assert bench.counter("tokens", "user", "anna") == 30
