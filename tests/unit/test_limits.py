"""A caller gets so many requests and tokens a minute and so many requests at once, and is told how many are left."""

from __future__ import annotations

import pytest

from hermes.admission.limits import Limits
from hermes.errors import RateLimited
from hermes.policy import LimitsPolicy
from hermes.state.store import MemoryStore
from hermes.types import Principal, RateLimits, Usage
from tests.unit.quota_bench import NOON, Bench, per_user

UNTIL_NEXT_MINUTE_S = 45


def refusal(bench: Bench, **ask: object) -> RateLimited:
    with pytest.raises(RateLimited) as refused:
        bench.ask(**ask)  # type: ignore[arg-type]
    return refused.value


def test_without_limits_there_is_nothing_to_count() -> None:
    bench = Bench()

    hold = bench.ask()

    assert (hold.headers, hold.downgrade, bench.store.round_trips) == ((), False, 0)


def test_requests_are_counted_by_the_minute() -> None:
    bench = Bench(limits=per_user(requests=2))
    bench.ask()
    bench.ask()

    refused = refusal(bench)

    assert (refused.status, refused.code, refused.retry_after_s) == (429, "rate_limit_exceeded", UNTIL_NEXT_MINUTE_S)
    assert "2 requests per minute" in refused.message
    assert refused.should_retry is None, "repeating cures it"

    bench.now += UNTIL_NEXT_MINUTE_S
    bench.ask()


def test_a_refused_request_is_not_counted() -> None:
    bench = Bench(limits=per_user(requests=2, concurrent=1))
    hold = bench.ask()
    for _ in range(5):
        refusal(bench)
    hold.settle(None, None)

    assert dict(bench.ask().headers)["x-ratelimit-remaining-requests"] == "0"


def test_a_request_that_failed_stays_counted() -> None:
    bench = Bench(limits=per_user(requests=1))
    bench.ask().settle(None, None)

    refusal(bench)


def test_tokens_are_set_aside_by_estimate_and_corrected_at_the_end() -> None:
    bench = Bench(limits=per_user(tokens=250))
    first, _second = bench.ask(), bench.ask()
    assert "250 tokens per minute" in refusal(bench).message

    first.settle(Usage(10, 5, 15), 0)

    assert dict(bench.ask().headers)["x-ratelimit-remaining-tokens"] == "35"


@pytest.mark.parametrize(
    "usage", [pytest.param(None, id="less than thought"), pytest.param(Usage(10, 990, 1000), id="more")]
)
def test_a_correction_does_not_reach_into_the_next_minute(usage: Usage | None) -> None:
    bench = Bench(limits=per_user(tokens=250))
    hold = bench.ask()
    bench.now += 60
    bench.ask()

    hold.settle(usage, 0)

    assert dict(bench.ask().headers)["x-ratelimit-remaining-tokens"] == "50"


def test_a_request_over_the_whole_limit_passes_in_a_fresh_minute() -> None:
    """Otherwise it could never pass, however long its caller waits."""
    bench = Bench(limits=per_user(tokens=50))

    assert dict(bench.ask().headers)["x-ratelimit-remaining-tokens"] == "0"
    refusal(bench)


def test_slots_are_given_back_however_a_request_ends() -> None:
    bench = Bench(limits=per_user(concurrent=2))
    first, second = bench.ask(), bench.ask()

    refused = refusal(bench)
    assert (refused.retry_after_s, "2 requests at once" in refused.message) == (1, True)

    first.settle(None, None)
    third = bench.ask()
    refusal(bench)
    for hold in (second, third):
        hold.settle(Usage(1, 1, 2), None)
    assert bench.slots() == 0


def test_a_hold_is_settled_once() -> None:
    bench = Bench(limits=per_user(concurrent=1, tokens=1000))
    first = bench.ask()
    first.settle(None, None)
    second = bench.ask()

    first.settle(None, None)

    refusal(bench)
    second.settle(None, None)
    assert dict(bench.ask().headers)["x-ratelimit-remaining-tokens"] == "900"


def test_slots_of_a_killed_process_free_themselves() -> None:
    bench = Bench(limits=per_user(concurrent=2))
    bench.ask()
    bench.ask()

    bench.restart()
    refusal(bench)
    bench.now += 300 + 60

    bench.ask()


def test_a_process_finds_the_slots_that_another_one_leaves() -> None:
    bench = Bench(limits=per_user(concurrent=8))
    for _ in range(5):
        bench.ask()
    bench.restart()

    for _ in range(3):
        bench.ask()

    refusal(bench)
    assert bench.slots() == 8


def test_a_slot_that_outlived_its_time_does_not_free_the_next_ones() -> None:
    bench = Bench(limits=per_user(concurrent=1))
    late = bench.ask()
    bench.now += 3600
    bench.restart()
    bench.ask()

    late.settle(None, None)

    bench.restart()
    refusal(bench)


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_a_slot_is_given_back_whatever_the_wall_clock_does_meanwhile(step_s: int) -> None:
    store, wall = MemoryStore(), [1_000_000.0]
    limits = Limits(lambda: wall[0])
    (slot,) = limits.slots(Principal(user_id="anna"), per_user(concurrent=1), 60.0)
    assert store.reserve(slot.claims) is None
    slot.granted()

    wall[0] += step_s
    slot.settle(store, None, None)

    assert store.count("slot") == 0


def test_a_large_limit_may_be_used_to_the_last() -> None:
    bench = Bench(limits=per_user(concurrent=1000))

    for _ in range(1000):
        bench.ask()

    refusal(bench)


def test_lowering_the_limit_counts_the_requests_that_are_under_way() -> None:
    bench = Bench(limits=per_user(concurrent=5))
    holds = [bench.ask() for _ in range(4)]
    bench.policy = Bench(limits=per_user(concurrent=2)).policy

    for hold in holds[:2]:
        hold.settle(None, None)
        refusal(bench)
    holds[2].settle(None, None)

    bench.ask()


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        pytest.param({"user": "anna"}, {"user": "ben"}, False, id="two users"),
        pytest.param({"user": "anna", "identity": "x"}, {"user": "anna", "identity": "y"}, True, id="a user anywhere"),
        pytest.param({"user": None, "identity": "x"}, {"user": None, "identity": "y"}, False, id="two unnamed callers"),
        pytest.param({"user": None, "identity": "x"}, {"user": None, "identity": "x"}, True, id="one unnamed caller"),
        pytest.param({"user": "x"}, {"user": None, "identity": "x"}, False, id="a name and an identity alike"),
        pytest.param({"user": "a:1"}, {"user": "a"}, False, id="a name with a colon"),
    ],
)
def test_who_counts_as_one_user(one: dict[str, str], other: dict[str, str], is_one: bool) -> None:
    bench = Bench(limits=per_user(requests=1))
    bench.ask(**one)  # type: ignore[arg-type]

    if is_one:
        refusal(bench, **other)
    else:
        bench.ask(**other)  # type: ignore[arg-type]


def test_half_a_surrogate_pair_in_a_name_is_no_fault() -> None:
    bench = Bench(limits=per_user(requests=1))

    bench.ask("\ud800")

    assert all(key.encode() for key, _ in bench.store.items("rate"))


def test_a_key_has_its_own_limits_or_the_configured_ones() -> None:
    bench = Bench(limits=LimitsPolicy(per_key=RateLimits(requests_per_minute=1)))

    bench.ask(key="plain")
    assert "this key" in refusal(bench, key="plain").message
    generous = RateLimits(requests_per_minute=2)
    bench.ask(key="generous", limits=generous)
    bench.ask(key="generous", limits=generous)
    refusal(bench, key="generous", limits=generous)
    for _ in range(3):
        bench.ask(key="free", limits=RateLimits())
        bench.ask(key=None)


def test_a_users_limits_hold_beside_a_keys() -> None:
    bench = Bench(limits=per_user(requests=1))
    bench.ask("anna", key="k", limits=RateLimits(requests_per_minute=9))

    refused = refusal(bench, user="anna", key="k", limits=RateLimits(requests_per_minute=9))

    assert "this user" in refused.message
    bench.ask("ben", key="k", limits=RateLimits(requests_per_minute=9))


@pytest.mark.parametrize(
    ("now", "reset"),
    [
        pytest.param(NOON, "45s", id="seconds"),
        pytest.param(NOON + 0.2, "45s", id="begun seconds"),
        pytest.param(NOON + 44.65, "350ms", id="milliseconds"),
        pytest.param(NOON + 45, "60s", id="a fresh minute"),
    ],
)
def test_the_headers_are_openais(now: float, reset: str) -> None:
    bench = Bench(limits=per_user(requests=5, tokens=1000))
    bench.now = now

    assert dict(bench.ask().headers) == {
        "x-ratelimit-limit-requests": "5",
        "x-ratelimit-remaining-requests": "4",
        "x-ratelimit-reset-requests": reset,
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "900",
        "x-ratelimit-reset-tokens": reset,
    }


def test_the_tightest_limit_is_shown() -> None:
    bench = Bench(limits=per_user(requests=3))
    key = RateLimits(requests_per_minute=4)

    bench.ask("anna", key="k", limits=key)
    bench.ask("ben", key="k", limits=key)
    shown = dict(bench.ask("cleo", key="k", limits=key).headers)

    assert (shown["x-ratelimit-limit-requests"], shown["x-ratelimit-remaining-requests"]) == ("4", "1")


def test_a_refusal_carries_the_headers_too() -> None:
    bench = Bench(limits=per_user(requests=1))
    bench.ask()

    shown = dict(refusal(bench).headers)

    assert (shown["x-ratelimit-remaining-requests"], shown["x-ratelimit-reset-requests"]) == ("0", "45s")


def test_whatever_is_asked_for_takes_one_round_trip() -> None:
    bench = Bench(limits=LimitsPolicy(RateLimits(9, 9000, 9), RateLimits(9, 9000, 9)))

    bench.ask(key="k")

    assert bench.store.round_trips == 1
