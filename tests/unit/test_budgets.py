"""A budget refuses once it is used up, counts what is under way, and survives the loss of its counters."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import gevent
import pytest

from hermes.admission import books
from hermes.admission.changes import BudgetChanges
from hermes.admission.claims import Patience
from hermes.directory import EACH, Action, Budget, BudgetScope, Directory, Period, Spent
from hermes.errors import BooksUnreadable, BudgetExceeded, ClientGone, DeadlineExceeded, RateLimited
from hermes.policy import BudgetsPolicy
from hermes.types import Usage
from hermes.upstream.lifeline import Lifeline
from tests.unit.quota_bench import NOON, USD, Bench, a_budget, closed, per_user

UNTIL_MIDNIGHT_S = 11 * 3600 + 59 * 60 + 45


def refusal(bench: Bench, *args: object, **ask: object) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as refused:
        bench.ask(*args, **ask)  # type: ignore[arg-type]
    return refused.value


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# -- counting ---------------------------------------------------------------------------------------------


def test_a_request_passes_while_less_than_the_limit_is_used() -> None:
    bench = Bench(a_budget(150))

    first, second = bench.ask(), bench.ask()
    refusal(bench)
    assert bench.counter("tokens", "user", "anna") == 200

    bench.finish(first, tokens=30)
    bench.finish(second, tokens=20)

    assert bench.counter("tokens", "user", "anna") == 50
    bench.ask()


def test_what_was_not_used_is_given_back() -> None:
    bench = Bench(a_budget(100))
    hold = bench.ask()

    hold.settle(None, None)
    hold.settle(None, None)

    assert bench.counter("tokens", "user", "anna") == 0


def test_money_is_set_aside_at_the_dearest_price_that_could_answer() -> None:
    bench = Bench(a_budget(USD, "usd"))

    hold = bench.ask(models=("cheap", "dear"))
    assert bench.counter("usd", "user", "anna") == 200_000
    bench.finish(hold, tokens=50, per_token=1000)

    assert bench.counter("usd", "user", "anna") == 50_000


def test_a_model_without_a_price_sets_the_floor_aside_and_costs_nothing_but_tokens() -> None:
    budgets = (a_budget(USD, "usd"), a_budget(1000, "tokens", period="week"))
    bench = Bench(*budgets, budgets=BudgetsPolicy(unpriced_reserve_nanousd=777))

    hold = bench.ask(models=("unknown",))
    assert bench.counter("usd", "user", "anna") == 777
    bench.finish(hold, tokens=40, per_token=None)

    assert bench.counter("usd", "user", "anna") == 0
    assert bench.counter("tokens", "user", "anna", "week") == 40


def test_requests_are_counted_when_they_used_something() -> None:
    bench = Bench(a_budget(2, "requests"))
    bench.ask().settle(None, None)
    bench.finish(bench.ask())
    bench.finish(bench.ask())

    refusal(bench)


def test_a_free_model_is_refused_too_and_the_error_says_why() -> None:
    bench = Bench(a_budget(USD, "usd"))
    bench.finish(bench.ask(), tokens=10**6)

    message = refusal(bench, models=("free",)).message

    assert "before a model is chosen" in message
    assert "a model that costs nothing does not help" in message


def test_a_budget_of_nothing_refuses_everything() -> None:
    refusal(Bench(a_budget(0, "usd")), models=("free",))


# -- whose budget -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "name", "who", "said"),
    [
        pytest.param("global", "", {"user": "zoe"}, "of this gateway", id="global"),
        pytest.param("key", "k1", {"key": "k1"}, "of this API key", id="key"),
        pytest.param("user", "anna", {"user": "anna"}, "of the user 'anna'", id="user"),
        pytest.param("function", "f", {"function": "f"}, "of the function 'f'", id="function"),
        pytest.param("user", EACH, {"user": "ben"}, "of the user 'ben'", id="each user"),
        pytest.param("key", EACH, {"key": "k2"}, "of this API key", id="each key"),
    ],
)
def test_whose_budget_it_is(scope: BudgetScope, name: str, who: dict[str, str], said: str) -> None:
    bench = Bench(a_budget(50, scope=scope, name=name))
    bench.ask(**who)  # type: ignore[arg-type]

    refused = refusal(bench, **who)

    assert (refused.status, refused.code, refused.should_retry) == (429, "budget_exceeded", False)
    assert said in refused.message
    assert "daily" in refused.message
    assert "50 tokens" in refused.message
    assert "2026-05-11T00:00:00Z" in refused.message
    assert refused.retry_after_s == UNTIL_MIDNIGHT_S
    if scope != "global":
        bench.ask("somebody else", key="another", function="another")
        bench.ask(None)


def test_each_has_a_budget_by_themselves() -> None:
    bench = Bench(a_budget(50, name=EACH))

    for user in ("anna", "ben", "*"):
        bench.ask(user)
        refusal(bench, user)


def test_the_budget_of_one_stands_in_the_place_of_that_of_each_one() -> None:
    bench = Bench(a_budget(50, name=EACH), a_budget(150), a_budget(10_000, name=EACH, period="month"))
    bench.ask("anna")
    bench.ask("anna")

    refusal(bench, "anna")
    assert bench.counter("tokens", "user", "anna", "month") == 200, "of another period both hold"


def test_every_budget_that_concerns_a_request_must_have_room_and_none_is_charged_if_one_has_not() -> None:
    bench = Bench(a_budget(1000, scope="global", name=""), a_budget(50), a_budget(1000, scope="key", name=EACH))
    bench.ask(key="k")

    assert "user" in refusal(bench, key="k").message

    assert bench.counter("tokens", "global", "") == 100
    assert bench.counter("tokens", "key", "k") == 100


UNTIL_JUNE_S = 21 * 86_400 + UNTIL_MIDNIGHT_S
EVERYBODY: dict[str, str] = {"user": "anna", "key": "k", "function": "f"}


def of_all(*limits: int | None, periods: tuple[Period, ...] = ("day",) * 4, **more: Any) -> tuple[Budget, ...]:
    """A budget of each scope with these limits in tokens, None for none."""
    scopes: tuple[tuple[BudgetScope, str], ...] = (("global", ""), ("key", "k"), ("user", "anna"), ("function", "f"))
    return tuple(
        a_budget(limit, scope=scope, name=name, period=period, **more)
        for limit, period, (scope, name) in zip(limits, periods, scopes, strict=True)
        if limit is not None
    )


@pytest.mark.parametrize(
    ("budgets", "said", "wait_s"),
    [
        pytest.param(of_all(100, 1000, 1000, 1000), "of this gateway (100 tokens)", UNTIL_MIDNIGHT_S, id="global"),
        pytest.param(of_all(1000, 100, 1000, 1000), "of this API key (100 tokens)", UNTIL_MIDNIGHT_S, id="key"),
        pytest.param(of_all(1000, 1000, 100, 1000), "of the user 'anna' (100 tokens)", UNTIL_MIDNIGHT_S, id="user"),
        pytest.param(
            of_all(1000, 1000, 1000, 100), "of the function 'f' (100 tokens)", UNTIL_MIDNIGHT_S, id="function"
        ),
        pytest.param(
            of_all(101, 105, 110, 100), "of the function 'f' (100 tokens)", UNTIL_MIDNIGHT_S, id="others near"
        ),
        pytest.param(of_all(100, 105, 110, 101), "of this gateway (100 tokens)", UNTIL_MIDNIGHT_S, id="others near it"),
        pytest.param(of_all(100, 90, 80, 70), "of this gateway (100 tokens)", UNTIL_MIDNIGHT_S, id="all: the widest"),
        pytest.param(
            of_all(100, 90, 80, 70, periods=("day", "day", "month", "week")),
            "The monthly budget of the user 'anna' (80 tokens)",
            UNTIL_JUNE_S,
            id="all: the longest",
        ),
        pytest.param(
            of_all(100, None, None, 70, periods=("week", "day", "day", "month")),
            "The monthly budget of the function 'f' (70 tokens)",
            UNTIL_JUNE_S,
            id="two: the longest, which is asked last",
        ),
        pytest.param(
            of_all(100, 1000, None, 70, periods=("month", "day", "day", "day")),
            "The monthly budget of this gateway (100 tokens)",
            UNTIL_JUNE_S,
            id="two: the longest, which is asked first",
        ),
        pytest.param(
            (*of_all(100, None, None, None, periods=("month",) * 4, action="warn"), *of_all(None, None, 90, None)),
            "The daily budget of the user 'anna' (90 tokens)",
            UNTIL_MIDNIGHT_S,
            id="one that only warns refuses nobody",
        ),
        pytest.param(
            (*of_all(None, None, 90, None, periods=("month",) * 4, action="downgrade"), *of_all(100, None, None, None)),
            "The daily budget of this gateway (100 tokens)",
            UNTIL_MIDNIGHT_S,
            id="nor one that downgrades",
        ),
        pytest.param(
            (a_budget(100), a_budget(1000, period="week"), a_budget(90, period="month")),
            "The monthly budget of the user 'anna' (90 tokens)",
            UNTIL_JUNE_S,
            id="of one user",
        ),
    ],
)
def test_a_refusal_names_the_budget_that_the_caller_must_wait_for(
    budgets: tuple[Budget, ...], said: str, wait_s: int
) -> None:
    bench = Bench(*budgets)
    bench.ask(**EVERYBODY)  # type: ignore[arg-type]
    before = {key: entry.value for key, entry in bench.store._nouns["budget"].items()}

    refused = refusal(bench, **EVERYBODY)

    assert said in refused.message
    assert refused.retry_after_s == wait_s
    assert {key: entry.value for key, entry in bench.store._nouns["budget"].items()} == before, "nothing is set aside"


def test_a_refusal_by_the_only_or_last_budget_takes_no_further_round_trip() -> None:
    bench = Bench(*of_all(1000, 1000, 1000, 100))
    bench.ask(**EVERYBODY)  # type: ignore[arg-type]
    refusal(bench, **EVERYBODY)  # which has warned
    before = bench.store.round_trips

    refusal(bench, **EVERYBODY)

    assert bench.store.round_trips == before + 1


def test_a_used_up_budget_refuses_though_another_ones_books_cannot_be_read() -> None:
    bench = Bench(*of_all(100, None, 1000, None), budgets=closed())
    bench.ask("ben")
    bench.log.is_down = True

    assert "of this gateway" in refusal(bench).message


def test_a_limit_that_refuses_charges_no_budget() -> None:
    bench = Bench(a_budget(1000), limits=per_user(requests=1))
    bench.ask()

    with pytest.raises(RateLimited):
        bench.ask()

    assert bench.counter("tokens", "user", "anna") == 100


def test_a_budget_that_refuses_takes_no_slot_and_no_part_of_a_rate() -> None:
    bench = Bench(a_budget(50), limits=per_user(requests=5, concurrent=5))
    bench.ask()

    refused = refusal(bench)

    assert bench.slots() == 1
    assert dict(refused.headers)["x-ratelimit-remaining-requests"] == "4"


# -- periods ----------------------------------------------------------------------------------------------


def test_a_new_period_begins_at_midnight_of_the_zone() -> None:
    bench = Bench(a_budget(50), budgets=BudgetsPolicy(timezone="Asia/Dubai"))
    bench.finish(bench.ask())
    until_midnight_s = refusal(bench).retry_after_s
    assert until_midnight_s == 7 * 3600 + 59 * 60 + 45

    bench.now += until_midnight_s

    bench.ask()


def test_what_began_before_midnight_is_settled_where_it_began() -> None:
    bench = Bench(a_budget(150))
    late = bench.ask()
    bench.now += UNTIL_MIDNIGHT_S
    early = bench.ask()

    late.settle(None, None)
    early.settle(None, None)

    assert [value for _, value in bench.store.items("budget")] == ["0", "0"]


def test_a_clock_that_is_set_back_returns_to_the_period_that_it_was() -> None:
    bench = Bench(a_budget(50))
    bench.now += UNTIL_MIDNIGHT_S + 60
    bench.ask()
    bench.now -= 120

    bench.ask()

    assert len(bench.store.items("budget")) == 2


# -- at the limit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "downgrades"), [pytest.param("downgrade", True), pytest.param("warn", False)])
def test_beyond_the_limit_it_may_pass(action: Action, downgrades: bool) -> None:
    bench = Bench(a_budget(150, action=action))

    holds = [bench.ask() for _ in range(4)]

    assert [hold.downgrade for hold in holds] == [False, False, downgrades, downgrades]
    assert bench.counter("tokens", "user", "anna") == 400


def test_one_budget_that_is_used_up_is_enough_for_the_simple_tier() -> None:
    bench = Bench(a_budget(1000, scope="global", name=""), a_budget(50, action="downgrade"))
    bench.ask()

    assert bench.ask().downgrade


@pytest.mark.parametrize("action", ["block", "downgrade", "warn"])
def test_a_line_in_the_log_at_the_warning_share_and_one_at_the_limit(
    action: Action, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(a_budget(1000, action=action))

    for number in range(14):
        if number < 10 or action != "block":
            bench.ask()
        else:
            refusal(bench)

    assert warnings(caplog) == [
        "The daily budget of the user 'anna' (1000 tokens) has reached 80%",
        "The daily budget of the user 'anna' (1000 tokens) is used up",
    ]
    caplog.clear()
    bench.now += UNTIL_MIDNIGHT_S
    for _ in range(9):
        bench.ask()
    assert len(warnings(caplog)) == 1


def test_only_one_of_several_processes_warns(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_budget(100, action="warn"))
    bench.ask()
    bench.ask()
    assert len(warnings(caplog)) == 2

    bench.restart()
    bench.ask()

    assert len(warnings(caplog)) == 2


@pytest.mark.parametrize(
    "share", [pytest.param(1.0, id="at the limit"), pytest.param(0.9999, id="rounds to the limit")]
)
def test_a_warning_at_the_limit_is_one_line(share: float, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_budget(100, action="warn", warn_share=share))
    bench.ask()
    bench.ask()

    assert len(warnings(caplog)) == 1


# -- counters that are missing ----------------------------------------------------------------------------


def test_a_counter_is_filled_from_the_usage_log_at_first_sight() -> None:
    bench = Bench(a_budget(300))
    bench.finish(bench.ask(), tokens=250)

    bench.restart()
    bench.lose_state()
    bench.ask()

    refusal(bench)
    assert bench.counter("tokens", "user", "anna") == 350
    assert bench.log.questions == [("user", "anna")] * 2


def test_what_is_under_way_when_the_store_loses_everything_stays_set_aside() -> None:
    bench = Bench(a_budget(1000))
    under_way, failing = bench.ask(), bench.ask()
    bench.finish(bench.ask(), tokens=40)
    bench.lose_state()

    bench.ask().settle(None, None)
    assert bench.counter("tokens", "user", "anna") == 40 + 2 * 100

    bench.finish(under_way, tokens=60)
    failing.settle(None, None)
    assert bench.counter("tokens", "user", "anna") == 100


def test_what_another_process_has_under_way_is_moved_to_a_counter_that_was_filled_anew() -> None:
    bench = Bench(a_budget(1000))
    other = Bench(a_budget(1000), store=bench.store)
    other.log = bench.log
    other.restart()
    under_way = other.ask()
    bench.lose_state()
    mine = bench.ask()
    assert bench.counter("tokens", "user", "anna") == 100

    other.budgets.books.renew()
    other.budgets.books.renew()

    assert bench.counter("tokens", "user", "anna") == 200
    other.finish(under_way, tokens=60)
    mine.settle(None, None)
    assert bench.counter("tokens", "user", "anna") == 60


def test_what_is_settled_while_its_counter_is_lost_is_in_the_usage_log() -> None:
    bench = Bench(a_budget(1000))
    under_way = bench.ask()
    bench.lose_state()

    bench.finish(under_way, tokens=60)
    assert bench.counter("tokens", "user", "anna") is None

    bench.ask()
    assert bench.counter("tokens", "user", "anna") == 160


def test_an_old_number_is_not_believed_without_its_seal() -> None:
    """A store that comes back empty may be given what a worker remembers of it."""
    bench = Bench(a_budget(1000))
    bench.finish(bench.ask(), tokens=40)
    remembered = [*bench.store.items("budget"), *bench.store.items("filled")]
    bench.finish(bench.ask(), tokens=50)
    bench.lose_state()
    for key, value in remembered:
        bench.store.put(key, value, 3600)

    bench.restart()
    bench.ask()

    assert bench.counter("tokens", "user", "anna") == 190


def test_what_a_killed_process_had_set_aside_is_given_back_by_the_next_one() -> None:
    bench = Bench(a_budget(240))
    bench.finish(bench.ask(), tokens=40)
    bench.ask()
    bench.ask()
    refusal(bench)

    bench.restart()
    refusal(bench)
    bench.budgets.books.distrust()

    bench.ask()
    assert bench.counter("tokens", "user", "anna") == 140


def test_a_process_that_remembers_too_many_counters_asks_for_their_names_again() -> None:
    bench = Bench(a_budget(1000, name=EACH))
    bench.finish(bench.ask(), tokens=40)
    hold = bench.ask()

    bench.budgets.books._fillings.clear()
    bench.finish(hold, tokens=10)
    bench.ask()

    assert bench.counter("tokens", "user", "anna") == 150
    assert len(bench.log.questions) == 1


def test_many_who_meet_a_missing_counter_ask_the_usage_log_once() -> None:
    bench = Bench(a_budget(10_000))

    gevent.joinall([gevent.spawn(bench.ask) for _ in range(50)], raise_error=True)

    assert bench.log.questions == [("user", "anna")]
    assert bench.counter("tokens", "user", "anna") == 5000


def test_two_processes_that_meet_a_missing_counter_fill_it_once() -> None:
    bench = Bench(a_budget(10_000))
    other = Bench(a_budget(10_000))
    other.store, other.log = bench.store, bench.log
    other.restart()
    bench.log.rows.append((NOON, {"user": "anna"}, Spent(0, 70, 1)))

    asking = [gevent.spawn(one.ask) for one in (bench, other) for _ in range(10)]
    gevent.joinall(asking, raise_error=True)

    assert bench.counter("tokens", "user", "anna") == 2070


def two_processes() -> tuple[Bench, Bench]:
    bench, other = Bench(a_budget(10_000)), Bench(a_budget(10_000))
    other.store, other.log = bench.store, bench.log
    other.restart()
    return bench, other


def test_what_another_process_has_just_used_counts_in_a_new_filling_though_its_row_is_on_its_way() -> None:
    """Once, however often the counter is lost: as soon as the usage log has the row, that is what counts."""
    bench, other = two_processes()
    other.budgets.books._was_counted = lambda _written_s, _asked_s: False
    other.finish(other.ask(), tokens=70)
    row = bench.log.rows.pop()

    bench.lose_state()
    bench.ask()
    for _ in range(2):
        other.budgets.books.renew()
    assert bench.counter("tokens", "user", "anna") == 70 + 100

    bench.log.rows.append(row)
    other.budgets.books._was_counted = lambda _written_s, _asked_s: True
    bench.lose_state()
    bench.ask()
    other.budgets.books.renew()
    assert bench.counter("tokens", "user", "anna") == 70 + 200


def test_nobody_passes_on_a_counter_that_was_lost_before_the_others_have_moved_what_they_know() -> None:
    bench, other = two_processes()
    bench.ask()
    holds = [other.ask(), other.ask()]
    bench.lose_state()
    bench.budgets.books._moving_s = 0.1

    asking = gevent.spawn(bench.ask)
    gevent.sleep(0.02)
    other.budgets.books.renew()
    other.finish(holds[0], tokens=70)
    assert not asking.ready()
    assert bench.counter("tokens", "user", "anna") == 100 + 70 + 100, "all but the one that waits"

    asking.get(timeout=2)
    other.finish(holds[1], tokens=30)
    assert bench.counter("tokens", "user", "anna") == 200 + 70 + 30
    assert len(bench.log.questions) == 2


def test_what_ended_is_forgotten_when_its_row_is_long_in_the_log() -> None:
    bench = Bench(a_budget(10_000))
    bench.finish(bench.ask())
    bench.now += books.ENDED_S + 1
    bench.budgets.books.renew()

    assert not bench.budgets.books._ended


def test_a_clock_that_is_set_back_keeps_no_more_of_what_ended() -> None:
    bench = Bench(a_budget(100_000))
    bench.finish(bench.ask())
    bench.ahead -= 3600

    for _ in range(50):
        bench.now += 1
        bench.finish(bench.ask())

    (ended,) = bench.budgets.books._ended.values()
    assert len(ended) <= 6


def test_a_process_that_dies_while_it_fills_a_counter_holds_nobody_up_for_long() -> None:
    bench = Bench(a_budget(1000))
    bench.ask()
    bench.lose_state()
    assert bench.store.claim("turn:tokens:day:1778371200:user:anna", 10)

    waiting = gevent.spawn(bench.ask)
    waiting.join(0.05)
    assert not waiting.ready()
    bench.now += 10

    waiting.get(timeout=1)


def test_a_killed_request_does_not_keep_others_from_filling_the_counter() -> None:
    bench = Bench(a_budget(1000))
    bench.log.takes_s = 0.02
    first, second = gevent.spawn(bench.ask), gevent.spawn(bench.ask)
    gevent.sleep(0.01)

    first.kill()

    second.get(timeout=1)
    assert bench.counter("tokens", "user", "anna") == 100


def test_who_waits_for_a_counter_waits_no_longer_than_the_requests_time() -> None:
    """Whoever fills it; and it is filled for the others all the same."""
    bench = Bench(a_budget(1000))
    bench.log.takes_s = 0.1
    short = Patience(until=bench.now + 0.02)

    for _ in range(2):
        with pytest.raises(DeadlineExceeded, match="was still being counted"):
            bench.ask(patience=short)
    with pytest.raises(DeadlineExceeded):
        bench.ask(patience=Patience(until=bench.now - 1))

    bench.ask()
    assert bench.log.questions == [("user", "anna")]


def test_who_waits_for_another_process_waits_no_longer_than_the_requests_time() -> None:
    bench = Bench(a_budget(1000))
    assert bench.store.claim("turn:tokens:day:1778371200:user:anna", 10)

    waiting = gevent.spawn(bench.ask, patience=Patience(until=bench.now + 1))
    waiting.join(0.01)
    bench.now += 2

    with pytest.raises(DeadlineExceeded):
        waiting.get(timeout=1)


def test_who_leaves_while_a_counter_is_filled_is_let_go() -> None:
    bench = Bench(a_budget(1000))
    bench.log.takes_s = 0.1
    line = Lifeline()
    waiting = gevent.spawn(bench.ask, patience=Patience(caller=line))
    gevent.sleep(0.01)

    line.hang_up()

    with pytest.raises(ClientGone):
        waiting.get(timeout=0.05)


def test_a_turn_lasts_as_long_as_it_takes_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, other = two_processes()
    monkeypatch.setattr(books, "RENEW_TURN_S", 0.01)
    bench.log.takes_s = 0.3

    asking = [gevent.spawn(one.ask) for one in (bench, other)]
    for _ in range(4):  # together longer than a turn that is not renewed
        gevent.sleep(0.05)
        bench.now += 0.7 * books.TURN_S
    gevent.joinall(asking, raise_error=True, timeout=2)

    assert bench.log.questions == [("user", "anna")]
    assert bench.store.get("turn:tokens:day:1778371200:user:anna") is None


def test_who_has_lost_the_turn_puts_no_second_counter_beside_that_of_the_next() -> None:
    bench, other = two_processes()
    bench.log.takes_s = 0.1
    slow = gevent.spawn(bench.ask)
    gevent.sleep(0.01)
    bench.now += books.TURN_S + 1
    bench.log.takes_s = 0.0
    other.ask()
    filled = bench.store.items("filled")

    slow.get(timeout=2)

    assert bench.store.items("filled") == filled
    assert bench.counter("tokens", "user", "anna") == 200


def test_a_log_that_takes_too_long_is_one_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "READ_S", 0.02)
    bench = Bench(a_budget(1000), budgets=closed())
    bench.log.takes_s = 60

    for _ in range(2):
        with pytest.raises(BooksUnreadable):
            bench.ask()


def test_a_changed_limit_goes_on_from_what_was_used() -> None:
    bench = Bench(a_budget(50))
    bench.finish(bench.ask(), tokens=100)
    refusal(bench)

    bench.directory = Bench(a_budget(101)).directory
    bench.ask()
    bench.directory = Bench(a_budget(5, "requests")).directory
    bench.ask()

    assert bench.counter("requests", "user", "anna") == 2


# -- a usage log that cannot be read ----------------------------------------------------------------------


def test_open_lets_pass_and_counts_from_nothing_until_the_log_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_budget(250))
    bench.finish(bench.ask(), tokens=200)
    bench.lose_state()
    bench.log.is_down = True

    under_way = [bench.ask() for _ in range(3)]
    refusal(bench)
    assert warnings(caplog).count("Budgets cannot be read from the usage log: down") == 1

    bench.log.is_down = False
    refusal(bench)
    bench.now += 30
    refusal(bench)
    for hold in under_way:
        hold.settle(None, None)
    bench.ask()
    refusal(bench)
    assert bench.counter("tokens", "user", "anna") == 300, "what was spent before, and what is under way now"


def test_closed_refuses_and_says_when_to_come_back() -> None:
    bench = Bench(a_budget(1000), budgets=closed())
    bench.log.is_down = True

    for _ in range(3):
        with pytest.raises(BooksUnreadable) as refused:
            bench.ask()
        assert (refused.value.status, refused.value.retry_after_s) == (503, 5)
    assert len(bench.log.questions) == 1, "a database that is away is left alone for a while"

    bench.log.is_down = False
    bench.now += 5
    bench.ask()


def test_closed_lets_those_pass_whom_no_budget_concerns() -> None:
    bench = Bench(a_budget(1000), budgets=closed())
    bench.log.is_down = bench.store_is_away = True

    bench.ask("ben")


def test_closed_refuses_while_the_shared_state_is_away() -> None:
    bench = Bench(a_budget(1000), budgets=closed())
    bench.store_is_away = True

    with pytest.raises(BooksUnreadable):
        bench.ask()


def test_a_counter_that_is_there_needs_no_usage_log() -> None:
    bench = Bench(a_budget(1000), budgets=closed())
    bench.ask()
    bench.log.is_down = True

    bench.ask()


# -- what it costs ----------------------------------------------------------------------------------------


def test_the_common_case_is_one_round_trip_however_many_budgets_and_limits_there_are() -> None:
    bench = Bench(a_budget(10**6), a_budget(10**6, scope="global", name=""), limits=per_user(9, 9999, 9))
    bench.ask()
    bench.store.round_trips = 0

    bench.ask()

    assert bench.store.round_trips == 1


def test_between_the_warning_and_the_limit_it_is_one_too() -> None:
    bench = Bench(a_budget(1000))
    for _ in range(9):
        bench.ask()
    bench.store.round_trips = 0

    bench.ask()

    assert bench.store.round_trips == 1


def test_without_a_budget_that_concerns_the_caller_nobody_is_asked() -> None:
    bench = Bench(a_budget(50, name="ben"))

    assert bench.ask("anna").headers == ()

    assert (bench.log.questions, bench.store.round_trips) == ([], 0)


# -- what operators see -----------------------------------------------------------------------------------


def test_figures_are_what_was_spent_without_what_is_under_way() -> None:
    bench = Bench()
    budget = a_budget(USD, "usd", period="month")
    bench.finish(bench.ask(), tokens=30)
    bench.finish(bench.ask(), tokens=12, user="ben")
    bench.ask()

    assert bench.budgets.figures(budget, "Asia/Dubai") == {
        "spent_usd": 0.00003,
        "spent_tokens": 30,
        "spent_requests": 1,
        "period_start": "2026-04-30T20:00:00Z",
        "resets_at": "2026-05-31T20:00:00Z",
    }


def test_figures_of_each_one_are_those_of_whoever_has_used_most() -> None:
    bench = Bench()
    bench.finish(bench.ask(), tokens=30)
    for _ in range(3):
        bench.finish(bench.ask("ben"), tokens=5, user="ben")

    by_tokens = bench.budgets.figures(a_budget(1000, "tokens", name=EACH), "UTC")
    by_requests = bench.budgets.figures(a_budget(1000, "requests", name=EACH), "UTC")
    nobody = bench.budgets.figures(a_budget(1000, scope="function", name=EACH), "UTC")

    assert (by_tokens["most_used_by"], by_tokens["spent_tokens"]) == ("anna", 30)
    assert (by_requests["most_used_by"], by_requests["spent_requests"]) == ("ben", 3)
    assert (nobody["most_used_by"], nobody["spent_tokens"]) == (None, 0)


def test_figures_of_the_global_budget_are_of_all() -> None:
    bench = Bench()
    bench.finish(bench.ask(), tokens=30)
    bench.finish(bench.ask("ben"), tokens=12, user="ben")

    assert bench.budgets.figures(Budget("global", "", "day", "tokens", 1), "UTC")["spent_tokens"] == 42


# -- budgets that change while requests run ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((), a_budget(150), id="the first budget"),
        pytest.param((a_budget(150, "requests"),), a_budget(150), id="another unit"),
        pytest.param((a_budget(150, name="bert"),), a_budget(150, name=EACH), id="another name"),
        pytest.param((a_budget(150, scope="global", name=""),), a_budget(150), id="another scope"),
    ],
)
def test_a_budget_that_comes_hears_of_requests_under_way(before: tuple[Budget, ...], after: Budget) -> None:
    bench = Bench(*before)
    first = bench.ask()
    bench.directory = Directory(budgets=(after,))
    bench.ask(max_tokens=10)
    assert bench.counter("tokens", "user", "anna") == 20

    bench.now += 1
    bench.finish(first, tokens=130)

    assert bench.counter("tokens", "user", "anna") == 150
    refusal(bench)


def test_a_budget_of_another_timezone_hears_of_requests_under_way() -> None:
    bench = Bench(a_budget(150))
    first = bench.ask()
    bench.policy = replace(bench.policy, budgets=BudgetsPolicy(timezone="Asia/Tokyo"))
    bench.ask(max_tokens=10)

    bench.now += 1
    bench.finish(first, tokens=130)

    refusal(bench)


def test_what_is_in_the_usage_log_by_then_is_not_counted_again() -> None:
    bench = Bench()
    first, second = bench.ask(), bench.ask()
    bench.directory = Directory(budgets=(a_budget(1000),))

    bench.finish(first, tokens=30)
    bench.now += 1
    bench.ask()  # fills the counter
    bench.now += 1
    bench.finish(second, tokens=40)
    bench.finish(second, tokens=0)

    assert bench.counter("tokens", "user", "anna") == 30 + 100 + 40


def test_a_row_that_the_filling_has_missed_is_added_to_it() -> None:
    bench = Bench()
    first = bench.ask()
    bench.directory = Directory(budgets=(a_budget(1000),))
    bench.budgets.books._was_counted = lambda _written_s, _asked_s: False
    first.settle(Usage(10, 20, 30), 30_000)  # its row is in the spool yet

    bench.ask()

    assert bench.counter("tokens", "user", "anna") == 30 + 100


def test_a_budget_whose_limit_changes_counts_once() -> None:
    bench = Bench(a_budget(1000))
    first = bench.ask()
    bench.directory = Directory(budgets=(a_budget(2000),))

    bench.finish(first, tokens=30)

    assert bench.counter("tokens", "user", "anna") == 30


def test_a_new_budget_hears_nothing_of_yesterday() -> None:
    bench = Bench()
    first = bench.ask()
    bench.directory = Directory(budgets=(a_budget(1000),))
    began, bench.now = bench.now, bench.now + UNTIL_MIDNIGHT_S + 1
    bench.ask()

    bench.finish(first, tokens=30, began=began)

    assert bench.counter("tokens", "user", "anna") == 100


@pytest.mark.parametrize("name", ["anna", EACH])
def test_a_budget_that_comes_back_is_filled_from_the_usage_log(name: str) -> None:
    bench = Bench(a_budget(1000, name=name), a_budget(1000, scope="global", name=""))
    flushed: list[bool] = []

    def flush() -> bool:
        flushed.append(bool(flushed))
        return flushed[-1]

    changes = BudgetChanges(bench.budgets.books, flush, lambda: bench.now, late_s=0)

    def put(*budgets: Budget) -> None:
        bench.directory = Directory(budgets=budgets)
        changes.directory_is(bench.directory)

    put(*bench.directory.budgets)
    bench.finish(bench.ask(), tokens=30)
    put(a_budget(1000, scope="global", name=""))
    bench.finish(bench.ask(), tokens=500)
    questions = len(bench.log.questions)
    bench.now += 1
    put(a_budget(1000, name=name), a_budget(1000, scope="global", name=""))
    assert not flushed, "nothing waits for it"
    changes._filling.join(5)  # type: ignore[union-attr]

    bench.ask()

    assert flushed == [False, True], "until the rows are there"
    assert bench.counter("tokens", "user", "anna") == 30 + 500 + 100
    assert len(bench.log.questions) == questions + 1, "the other budget is as it was"


def test_another_timezone_fills_every_counter_anew() -> None:
    bench = Bench(a_budget(1000))
    changes = BudgetChanges(bench.budgets.books, lambda: True, lambda: bench.now, late_s=0)
    changes.timezone_is("UTC")
    bench.finish(bench.ask(), tokens=30)
    bench.log.rows.append((NOON, {"user": "anna", "key": None, "function": None}, Spent(0, 500, 1)))

    bench.now += 1
    changes.timezone_is("UTC")
    assert changes._filling is None
    changes.timezone_is("Asia/Tokyo")
    assert changes._filling is not None
    changes._filling.join(5)
    bench.ask()

    assert bench.counter("tokens", "user", "anna") == 30 + 500 + 100


def test_a_counter_that_was_being_filled_when_a_budget_came_is_filled_again() -> None:
    bench = Bench()
    changes = BudgetChanges(bench.budgets.books, lambda: True, lambda: bench.now + 1, late_s=0.05)
    changes.directory_is(bench.directory)
    bench.directory = Directory(budgets=(a_budget(1000),))
    bench.log.takes_s = 0.02
    asking = gevent.spawn(bench.ask)
    gevent.sleep(0)

    changes.directory_is(bench.directory)  # while the usage log is asked
    asking.get(timeout=5)
    bench.log.rows.append((NOON, {"user": "anna", "key": None, "function": None}, Spent(0, 500, 1)))
    with gevent.Timeout(5):
        while bench.store.items("seal"):
            gevent.sleep(0.01)
    bench.ask()

    assert bench.counter("tokens", "user", "anna") == 500 + 200
