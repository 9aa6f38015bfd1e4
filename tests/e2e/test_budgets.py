"""Budgets and limits of a running server: nobody spends what is not there, and what was set aside always comes back."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.redis_server import RedisServer

from . import replies
from .client import Answer
from .gateway import eventually, new_user
from .replies import Reply
from .world import FILLING_S, PRICE, World

COST_NANOUSD = 11 * 1000 + 7 * 2000
"""Of an answer with the usual usage."""

HELD_S = 0.5
"""What the provider takes where all shall have asked before the first answer, on a busy machine too; an attempt may
take a little more."""


def put_budget(world: World, **budget: Any) -> dict[str, Any]:
    answer = world.gateway.admin("PUT", "/admin/budgets", {"scope": "user", "period": "month", **budget})
    assert answer.status == 200, answer.body
    return dict(answer.json)


def figures(world: World, scope: str, name: str) -> dict[str, Any]:
    budgets = world.gateway.admin("GET", "/admin/budgets").json["budgets"]
    (found,) = [budget for budget in budgets if (budget["scope"], budget["id"]) == (scope, name)]
    return dict(found)


def at_once(number: int, request: Callable[[], Answer]) -> list[Answer]:
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(lambda _: request(), range(number)))


def nanousd(rows: list[dict[str, Any]]) -> int:
    return sum(round(Decimal(str(row["estimated_cost_usd"] or 0)) * 10**9) for row in rows)


def test_parallel_requests_do_not_spend_more_than_there_is(world: World) -> None:
    user = new_user()
    put_budget(world, id=user, limit_usd=0.0025)
    world.primary.script(replies.chat(after_s=HELD_S))

    answers = at_once(30, lambda: world.gateway.chat(user=user, max_tokens=500))

    assert Counter(answer.status for answer in answers) == {200: 3, 429: 27}
    rows = world.gateway.usage(30, user_id=user)
    assert Counter(row["status"] for row in rows) == {"ok": 3, "refused": 27}
    assert nanousd(rows) == 3 * COST_NANOUSD
    shown = figures(world, "user", user)
    assert (shown["spent_usd"], shown["spent_tokens"], shown["spent_requests"]) == (3 * COST_NANOUSD / 1e9, 54, 3)
    assert world.gateway.chat(user=user, max_tokens=500).status == 200, "what they did not use is there again"


def test_a_refusal_says_what_it_is_about(world: World) -> None:
    user = new_user()
    put_budget(world, id=user, limit_requests=1, period="day")
    assert world.gateway.chat(user=user).status == 200

    refused = world.gateway.chat(user=user)

    assert (refused.status, refused.error["type"], refused.error["code"]) == (429, "budget_exceeded", "budget_exceeded")
    assert f"The daily budget of the user '{user}' (1 requests) is used up" in refused.error["message"]
    assert refused.request_id in refused.error["message"]
    assert refused.headers["x-should-retry"] == "false"
    until_midnight_s = 86_400 - time.time() % 86_400
    assert int(refused.headers["retry-after"]) == pytest.approx(until_midnight_s, abs=3)
    row = world.gateway.row(refused)
    assert (row["status"], row["attempts"], row["total_tokens"], row["user_id"]) == ("refused", 0, None, user)
    assert len(world.primary.calls) == 1


def test_a_budget_is_counted_from_the_log_when_the_process_was_killed(world: World) -> None:
    user = new_user()
    put_budget(world, id=user, limit_requests=3)
    for _ in range(2):
        world.gateway.chat(user=user)

    world.gateway.kill()
    world.gateway.spawn()

    assert [world.gateway.chat(user=user).status for _ in range(3)] == [200, 429, 429]


def test_a_budget_that_is_used_up_may_downgrade(world: World) -> None:
    user = new_user()
    put_budget(world, id=user, limit_requests=1, action="downgrade")

    answers = [world.gateway.chat(user=user, tier="complex") for _ in range(2)]

    assert [answer.headers["x-hermes-tier"] for answer in answers] == ["complex", "simple"]
    assert world.calls() == ["lone", "primary"]


def test_a_budget_for_each_key_and_one_for_a_function(world: World) -> None:
    keys = [
        world.gateway.admin("POST", "/admin/keys", {"name": name, "scopes": ["gateway"]}).json for name in ("a", "b")
    ]
    put_budget(world, scope="key", id="*", limit_requests=2)
    put_budget(world, scope="function", id="f", limit_requests=3)

    def complete(number: int, function: str) -> int:
        body = {"messages": [{"role": "user", "content": "x"}], "metadata": {"function_name": function}}
        headers = {"Authorization": f"Bearer {keys[number]['key']}"}
        return world.gateway.request("POST", "/v1/completions", headers, body).status

    assert [complete(0, "g") for _ in range(3)] == [200, 200, 429]
    assert complete(1, "f") == 200
    assert figures(world, "key", "*")["most_used_by"] == keys[0]["id"]
    put_budget(world, scope="key", id="*", limit_requests=100)
    assert [complete(1, "f") for _ in range(3)] == [200, 200, 429]
    assert complete(1, "g") == 200


def test_of_two_budgets_that_are_used_up_the_one_that_is_so_for_longer_is_told(world: World) -> None:
    key = world.gateway.admin("POST", "/admin/keys", {"name": "two", "scopes": ["gateway"]}).json
    put_budget(world, scope="key", id=key["id"], period="day", limit_requests=1)
    put_budget(world, scope="function", id="two", period="month", limit_requests=1)
    day, month = figures(world, "key", key["id"]), figures(world, "function", "two")
    is_last_day = day["resets_at"] == month["resets_at"]
    body = {"messages": [{"role": "user", "content": "x"}], "metadata": {"function_name": "two"}}

    answers = [
        world.gateway.request("POST", "/v1/completions", {"Authorization": f"Bearer {key['key']}"}, body)
        for _ in range(2)
    ]

    assert [answer.status for answer in answers] == [200, 429]
    told = answers[1].error["message"]
    assert ("this API key" if is_last_day else "the function 'two'") in told
    assert (day if is_last_day else month)["resets_at"] in told
    resets_at = datetime.fromisoformat(month["resets_at"]).timestamp()
    assert int(answers[1].headers["retry-after"]) == pytest.approx(resets_at - time.time(), abs=60)
    assert eventually(lambda: told.partition(";")[0] in world.gateway.logs(), lambda has_it: has_it, 5)


# -- limits -----------------------------------------------------------------------------------------------


def limit(world: World, **limits: int) -> None:
    slow = world.endpoint(world.primary)
    world.configure(simple=[slow], limits={"per_user": limits})


def test_failures_tell_what_is_left_too(world: World) -> None:
    limit(world, requests_per_minute=100)
    world.primary.script(replies.error(500))

    failed = world.gateway.chat()

    assert (failed.status, failed.headers["x-ratelimit-remaining-requests"]) == (502, "99")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_answers_and_refusals_tell_what_is_left(world: World, stream: bool) -> None:
    limit(world, requests_per_minute=2, tokens_per_minute=100_000)
    user = new_user()
    eventually(lambda: time.time() % 60, lambda second: second < 57, 5)  # not across the turn of a minute
    world.primary.script((replies.stream if stream else replies.chat)("ok"))

    first, _, refused = (world.gateway.chat(user=user, stream=stream, max_tokens=100) for _ in range(3))

    shown = {name: value for name, value in first.headers.items() if name.startswith("x-ratelimit-")}
    left_s = math.ceil(60 - time.time() % 60)
    assert first.status == 200
    assert shown.pop("x-ratelimit-reset-requests") == shown.pop("x-ratelimit-reset-tokens")
    tokens_left = int(shown.pop("x-ratelimit-remaining-tokens"))
    assert 99_800 < tokens_left < 99_900
    assert shown == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-limit-tokens": "100000",
    }
    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert int(refused.headers["retry-after"]) == pytest.approx(left_s, abs=2)
    assert "x-should-retry" not in refused.headers
    assert int(refused.headers["x-ratelimit-remaining-tokens"]) == 100_000 - 2 * 18


HANGING = replies.silence()


@pytest.mark.parametrize(
    ("reply", "stream"),
    [
        pytest.param(replies.chat(), False, id="an answer"),
        pytest.param(replies.stream("ok"), True, id="a stream"),
        pytest.param(replies.broken_stream("some text"), True, id="a stream that breaks off"),
        pytest.param(replies.error(500), False, id="a provider's fault"),
        pytest.param(replies.error(400), False, id="a caller's fault"),
        pytest.param(HANGING, False, id="no answer in time"),
        pytest.param(HANGING, True, id="no stream in time"),
    ],
)
def test_a_slot_is_free_again_after_every_end(world: World, reply: Reply, stream: bool) -> None:
    limit(world, concurrent=1)
    user = new_user()
    world.primary.script(reply)

    for _ in range(3):
        assert world.gateway.chat(user=user, stream=stream).status != 429


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_slot_is_free_again_when_the_caller_has_left(world: World, stream: bool) -> None:
    limit(world, concurrent=1)
    user = new_user()
    world.primary.script(replies.endless_stream("tok ") if stream else HANGING, replies.chat())
    leaving = world.gateway.open_chat(user=user, stream=stream)
    eventually(lambda: world.primary.calls_under_way, bool)
    assert world.gateway.chat(user=user).status == 429

    leaving.vanish()

    after = eventually(lambda: world.gateway.chat(user=user, stream=stream), lambda got: got.status != 429)
    assert after.status != 429


def test_only_so_many_at_once(world: World) -> None:
    limit(world, concurrent=3)
    user = new_user()
    world.primary.script(replies.chat(after_s=HELD_S))

    answers = at_once(12, lambda: world.gateway.chat(user=user))

    assert Counter(answer.status for answer in answers) == {200: 3, 429: 9}
    assert {answer.headers["retry-after"] for answer in answers if answer.status == 429} == {"1"}


def test_a_keys_own_limits_stand_in_the_place_of_the_configured_ones(world: World) -> None:
    world.configure(limits={"per_key": {"requests_per_minute": 1}})
    body = {"name": "k", "scopes": ["router"]}
    plain = world.gateway.admin("POST", "/admin/keys", body).json["key"]
    own = world.gateway.admin("POST", "/admin/keys", {**body, "limits": {"requests_per_minute": 50}}).json["key"]

    def chat(key: str) -> Answer:
        return world.gateway.chat(headers={"Authorization": f"Bearer {key}"})

    assert chat(plain).headers["x-ratelimit-limit-requests"] == "1"
    assert chat(own).headers["x-ratelimit-limit-requests"] == "50"
    assert "x-ratelimit-limit-requests" not in world.gateway.chat().headers


# -- several workers --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as redis:
        yield redis


@pytest.fixture(scope="module")
def many(redis: RedisServer) -> Iterator[World]:
    """A gateway of two workers."""
    world = World(env={"WEB_CONCURRENCY": "2", "HERMES_STATE_URL": redis.url}, attempt_s=FILLING_S)
    yield world
    world.close()


def test_how_much_of_a_budget_is_used_is_a_metric_whichever_worker_is_asked(many: World) -> None:
    user = new_user()
    put_budget(many, id=user, limit_requests=4, period="week")
    many.until_every_worker_knows()
    many.primary.script(replies.chat())
    assert [many.gateway.chat(user=user).status for _ in range(3)] == [200] * 3
    name = f'hermes_budget_used_ratio{{id="{user}",period="week",scope="user",unit="requests"}}'

    def shares() -> set[str]:
        scrapes = [many.gateway.admin("GET", "/metrics").body.decode() for _ in range(6)]
        return {line for scrape in scrapes for line in scrape.splitlines() if user in line} | {
            "" for scrape in scrapes if name not in scrape
        }

    assert eventually(shares, lambda found: found == {f"{name} 0.75"}, 15) == {f"{name} 0.75"}


def test_several_workers_spend_one_budget_together(many: World, redis: RedisServer) -> None:
    user = new_user()
    put_budget(many, id=user, limit_usd=0.0025)
    many.until_every_worker_knows()
    many.primary.script(replies.chat(after_s=HELD_S))

    answers = at_once(15, lambda: many.gateway.chat(user=user, max_tokens=500))

    assert Counter(answer.status for answer in answers) == {200: 3, 429: 12}
    assert nanousd(many.gateway.usage(15, user_id=user)) == 3 * COST_NANOUSD


def test_a_state_that_was_lost_is_counted_from_the_usage_log(many: World, redis: RedisServer) -> None:
    user = new_user()
    put_budget(many, id=user, limit_requests=3)
    many.until_every_worker_knows()
    many.primary.script(replies.chat())
    assert [many.gateway.chat(user=user).status for _ in range(3)] == [200] * 3
    many.gateway.usage(3, user_id=user)

    redis.ask("FLUSHALL")

    assert [many.gateway.chat(user=user).status for _ in range(4)] == [429] * 4


def test_what_killed_workers_had_set_aside_is_free_again(many: World) -> None:
    user = new_user()
    put_budget(many, id=user, limit_usd=0.0005)
    many.until_every_worker_knows()
    many.configure(simple=[many.endpoint(many.primary, timeout_seconds=30)])
    many.primary.script(replies.silence().but(times=1), replies.chat())
    waiting = many.gateway.open_chat(user=user, max_tokens=500)
    eventually(lambda: many.primary.calls_under_way, bool)
    assert many.gateway.chat(user=user).status == 429

    many.gateway.kill_workers()

    waiting.vanish()
    assert eventually(lambda: status_of(many, user), lambda status: status == 200, 30) == 200


def status_of(world: World, user: str) -> int:
    """Of one request; 0 while nobody listens."""
    with contextlib.suppress(OSError):
        return world.gateway.chat(user=user).status
    return 0


assert PRICE == {"input_per_mtok": 1.0, "output_per_mtok": 2.0}, "the figures above are made of these"


LONG = "word " * 2000
TOLD = {"prompt_tokens": 4000, "completion_tokens": 50, "total_tokens": 4050}
ROLE = replies.chunk({"role": "assistant", "content": ""})
CUT = b"HTTP/1.1 200 Said\r\nContent-Length: 5000\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "asked", "least", "most"),
    [
        pytest.param(replies.silence(), {}, 2000, 3000, id="out of time"),
        pytest.param(replies.silence(), {"stream": True}, 2000, 3000, id="out of time, a stream"),
        pytest.param(replies.raw(CUT + b"x" * 4000), {}, 3000, 4000, id="cut off"),
        pytest.param(replies.raw(), {}, 2000, 3000, id="no answer"),
        pytest.param(
            replies.answer(200, {"choices": [], "usage": TOLD}), {}, 4050, 4050, id="nothing in it, with usage"
        ),
        pytest.param(replies.answer(200, "hello"), {}, 2000, 3000, id="not JSON"),
        pytest.param(
            replies.sse(ROLE + replies.usage_chunk(TOLD)), {"stream": True}, 4050, 4050, id="a stream with usage alone"
        ),
        pytest.param(replies.error(500), {}, None, None, id="an error"),
        pytest.param(replies.answer(200, {"error": {"message": "no"}}), {}, None, None, id="an error in a 200"),
        pytest.param(replies.error(400), {}, None, None, id="a refusal"),
    ],
)
def test_what_a_provider_may_charge_counts_without_an_answer_too(
    world: World, said: Reply, asked: dict[str, Any], least: int | None, most: int | None
) -> None:
    user = new_user()
    put_budget(world, id=user, limit_usd=1)
    world.lone.script(said)

    answer = world.gateway.chat(LONG, tier="complex", user=user, headers={"X-Request-Timeout": "1"}, **asked)

    assert answer.status != 200
    row = world.gateway.row(answer)
    assert row["status"] == "error"
    shown = eventually(
        lambda: figures(world, "user", user), lambda shown: shown["spent_tokens"] == (row["total_tokens"] or 0)
    )
    assert shown["spent_tokens"] == (row["total_tokens"] or 0)
    assert shown["spent_requests"] == (0 if least is None else 1)
    if least is None or most is None:
        assert (row["total_tokens"], row["estimated_cost_usd"]) == (None, None)
    else:
        assert least <= row["total_tokens"] <= most
        assert row["estimated_cost_usd"] > 0


def test_callers_in_a_hurry_do_not_spend_without_end(world: World) -> None:
    user = new_user()
    put_budget(world, id=user, limit_usd=0.006)  # of two such prompts and a half
    world.lone.script(replies.silence())

    answers = [
        world.gateway.chat(LONG, tier="complex", user=user, max_tokens=1, headers={"X-Request-Timeout": "0.3"})
        for _ in range(6)
    ]

    assert Counter(answer.status for answer in answers) == {504: 3, 429: 3}


def test_a_fallback_does_not_make_the_first_call_free(world: World) -> None:
    world.primary.script(replies.answer(200, {"choices": [], "usage": TOLD}))
    world.fallback.script(replies.chat())

    answer = world.gateway.chat(LONG)

    row = world.gateway.row(answer)
    assert (answer.status, row["status"], row["fallback_level"]) == (200, "ok", 1)
    assert (row["total_tokens"], row["usage_estimated"]) == (4050 + 18, False)


# -- budgets that come while requests run -----------------------------------------------------------------

UNDER_WAY = 10
PATIENT = {"X-Request-Timeout": "20"}


def a_budget_comes(world: World, until_known: Callable[[], None]) -> tuple[list[int], dict[str, Any]]:
    """How requests fare after a budget of half of what is under way has come, and what it says is spent."""
    user = new_user()
    world.configure(
        simple=[world.endpoint(world.primary, timeout_seconds=30)],
        complex=[world.endpoint(world.lone, timeout_seconds=30)],
    )
    until_known()
    world.primary.script(replies.stream(*["word "] * 40, every_s=0.1))
    world.lone.script(replies.chat())
    with ThreadPoolExecutor(UNDER_WAY) as pool:
        streams = [pool.submit(world.gateway.chat, user=user, stream=True, headers=PATIENT) for _ in range(UNDER_WAY)]
        assert eventually(lambda: len(world.primary.calls), lambda number: number == UNDER_WAY, 10) == UNDER_WAY
        put_budget(world, id=user, limit_requests=UNDER_WAY // 2)
        until_known()
        filled = world.gateway.chat(user=user, tier="complex", headers=PATIENT)
        assert [stream.result().status for stream in streams] == [200] * UNDER_WAY
    answers = [world.gateway.chat(user=user, tier="complex", headers=PATIENT).status for _ in range(6)]
    world.gateway.usage(UNDER_WAY + 7, user_id=user)
    return [filled.status, *answers], figures(world, "user", user)


def test_a_budget_that_comes_hears_of_requests_under_way(world: World) -> None:
    answers, shown = a_budget_comes(world, lambda: None)

    assert answers == [200, *[429] * 6]
    assert shown["spent_requests"] == UNDER_WAY + 1


def test_a_budget_that_comes_hears_of_requests_under_way_in_every_worker(many: World) -> None:
    answers, shown = a_budget_comes(many, many.until_every_worker_knows)

    assert answers == [200, *[429] * 6]
    assert shown["spent_requests"] == UNDER_WAY + 1


def test_a_budget_that_comes_back_knows_what_was_spent_without_it(many: World) -> None:
    user = new_user()
    many.primary.script(replies.chat())
    put_budget(many, id=user, limit_requests=4)
    many.until_every_worker_knows()
    assert many.gateway.chat(user=user, headers=PATIENT).status == 200
    assert many.gateway.admin("DELETE", f"/admin/budgets?scope=user&id={user}&period=month").status == 200
    many.until_every_worker_knows()
    assert [many.gateway.chat(user=user, headers=PATIENT).status for _ in range(5)] == [200] * 5
    put_budget(many, id=user, limit_requests=4)

    refused = eventually(
        lambda: [many.gateway.chat(user=user, headers=PATIENT).status for _ in range(4)],
        lambda found: found == [429] * 4,
        10,
    )

    assert refused == [429] * 4
    assert figures(many, "user", user)["spent_requests"] <= 8, "soon"
