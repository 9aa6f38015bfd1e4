"""Shadow work is bounded, paid for, dropped first, and nobody's business but the operator's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
import pytest

from hermes.chatrequest import ChatRequest
from hermes.errors import DatabaseUnavailable
from hermes.evaluation import shadow as queue
from hermes.evaluation.load import LoopLoad
from hermes.evaluation.sample import Sample
from hermes.evaluation.shadow import sample_rate
from hermes.evaluation.spend import DailySpend
from hermes.observe.redact import Redactor
from hermes.policy import LoggingPolicy
from hermes.state.store import MemoryStore
from hermes.trials import Heard, ShadowReply
from hermes.types import Allowance, Attempt, Endpoint, Place, UsageRecord
from tests.shadow_world import NANOUSD_PER_TOKEN, Model, Said, World

PINS = {"model.chat.target": "target", "model.chat.target.sample_rate": "1"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, Model("house"), Model("target"), judge_goes_by_position=0.0)
    made.try_out("target")
    yield made
    made.close()


def only(world: World) -> ShadowReply:
    (run,) = world.runs()
    (reply,) = world.rows.replies(run.id)
    return reply


def store_prompts(world: World, mode: str) -> None:
    world.policy = replace(world.policy, logging=LoggingPolicy(store_prompts=mode))


# -- who is drawn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pins", "rate"),
    [
        ({}, 0.05),
        ({"model.chat.target.sample_rate": "0.25"}, 0.25),
        ({"model.chat.target.sample_rate": "0"}, 0.0),
        ({"model.chat.target.sample_rate": "much"}, 0.0),
        ({"model.chat.target.sample_rate": "nan"}, 0.0),
        ({"model.chat.target.sample_rate": "25"}, 0.0),
    ],
)
def test_the_sample_rate(pins: dict[str, str], rate: float) -> None:
    assert sample_rate(pins, "chat") == rate


def test_a_share_is_drawn(world: World) -> None:
    pins = {**PINS, "model.chat.target.sample_rate": "0.3"}
    for _ in range(200):
        world.request(pins)
        world.settle()

    assert 35 < len(world.books) < 85


@pytest.mark.parametrize("pins", [{}, {"model.chat.target": "house", "model.chat.target.sample_rate": "1"}])
def test_nothing_is_drawn_without_a_target_or_against_itself(world: World, pins: dict[str, str]) -> None:
    world.request(pins)

    assert world.shadow.depth() == 0
    assert world.counted == []


# -- what is dropped --------------------------------------------------------------------------------------


def test_the_queue_is_short_and_the_rest_is_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_WAITING", 3)

    for _ in range(10):
        world.request(PINS)
    assert world.shadow.depth() <= 3 + world.policy.shadow.max_parallel
    world.settle()

    assert len(world.books) == 3
    assert world.counted.count("dropped: queue") == 7
    assert world.shadow.dropped["queue"] == 7


def test_no_more_than_max_parallel_are_called_at_once(world: World) -> None:
    at_once, most = 0, 0
    inner = world.ask

    def ask(*args: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            gevent.sleep(0.001)
            return inner(*args)
        finally:
            at_once -= 1

    world.ask = ask  # type: ignore[method-assign]
    for _ in range(30):
        world.request(PINS)
    world.settle()

    assert most == world.policy.shadow.max_parallel
    assert len(world.books) == 30


def test_a_loaded_process_draws_nothing_and_drops_what_waits(world: World) -> None:
    world.request(PINS)
    world.shadow._is_loaded = lambda: True

    world.request(PINS)
    world.settle()

    assert world.books == []
    assert world.counted == ["dropped: load"] * 2


def test_nothing_is_sent_to_a_target_any_more_once_the_kill_switch_is_thrown(world: World) -> None:
    world.request(PINS)
    world.shadow._is_stopped = lambda: True

    world.settle()

    assert world.books == []
    assert world.counted == ["dropped: stopped"]


@pytest.mark.parametrize(
    ("naps_s", "is_high"),
    [
        pytest.param([0.02] * 10, False, id="on time"),
        pytest.param([0.2, 0.02], False, id="one delay"),
        pytest.param([0.1] * 6, True, id="late again and again"),
        pytest.param([1.0], True, id="a long stall"),
        pytest.param([1.0, *[0.02] * 8], False, id="calm again"),
    ],
)
def test_a_loop_that_is_late_is_load(naps_s: list[float], is_high: bool) -> None:
    now = [0.0]
    naps = iter(naps_s)
    load = LoopLoad(lambda _: now.__setitem__(0, now[0] + next(naps)), lambda: now[0])

    for _ in naps_s:
        load.look()

    assert load.is_high() is is_high


def test_the_money_of_a_day_ends(tmp_path: Path) -> None:
    world = World(tmp_path, Model("house"), Model("target"), daily_usd=0.01)
    world.try_out("target")
    for _ in range(40):
        world.request(PINS)
        world.settle()

    compared = len(world.books)
    assert 2 < compared < 40
    assert world.counted.count("dropped: money") == 40 - compared
    assert world.spend.spent("UTC") <= 10_000_000
    assert world.spend.spent("UTC") == world.rows.spent_since("")

    world.now += 86_400
    world.request(PINS)
    world.settle()
    assert len(world.books) == compared + 1, "a new day"
    world.close()


LARGE = Heard(usage={"prompt_tokens": 50, "completion_tokens": 9000}, error="too large", is_too_large=True)
CUT_OFF = Heard(error="the stream broke off")
CUT_OFF_LATE = Heard(error="the stream broke off", text_bytes=80_000)
REFUSED = Heard(error="the provider answered 500", is_billed=False)
NO_JSON = Heard(b'{"choices":[{"message":{"content":"Neither."}}]}', {"prompt_tokens": 500, "completion_tokens": 40})


def hearing(world: World, model: str, heard: Heard) -> None:
    """Makes every call of a model come to that."""
    inner = world.ask

    def ask(endpoint: Endpoint, *args: Any) -> Heard:
        return heard if endpoint.model == model else inner(endpoint, *args)

    world.ask = ask  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("heard", "tokens"),
    [
        pytest.param(LARGE, 9050, id="too large"),
        pytest.param(replace(LARGE, usage=None, text_bytes=80_000), 50 + 20_000, id="too large, and no usage"),
        pytest.param(CUT_OFF, 50 + 256, id="cut off"),
        pytest.param(CUT_OFF_LATE, 50 + 20_000, id="cut off late"),
        pytest.param(REFUSED, 0, id="refused"),
    ],
)
def test_what_a_target_was_paid_for_counts_whatever_came_of_it(world: World, heard: Heard, tokens: int) -> None:
    world.say = lambda model: Said("The same.", 0.5, 100.0, 10, 5, False)  # type: ignore[method-assign,assignment]
    hearing(world, "target", heard)

    world.request(PINS)
    world.settle()

    assert world.spend.spent("UTC") == tokens * NANOUSD_PER_TOKEN
    assert world.counted == ["dropped: too_large" if heard.is_too_large else "error"]


@pytest.mark.parametrize(
    ("heard", "least", "most"),
    [
        pytest.param(LARGE, 9050, 9050, id="too large"),
        pytest.param(CUT_OFF, 400 + 100, 400 + 1000, id="cut off"),
        pytest.param(CUT_OFF_LATE, 20_100, 21_000, id="cut off late"),
        pytest.param(NO_JSON, 540, 540, id="no verdict"),
        pytest.param(REFUSED, 0, 0, id="refused"),
    ],
)
def test_what_a_judge_was_paid_for_counts_whatever_came_of_it(
    world: World, heard: Heard, least: int, most: int
) -> None:
    hearing(world, "judge", heard)

    world.request(PINS)
    world.settle()

    found = only(world)
    assert found.target.nanousd is not None
    assert found.judge_error
    spent = world.spend.spent("UTC") - found.target.nanousd
    assert least * NANOUSD_PER_TOKEN <= spent <= most * NANOUSD_PER_TOKEN


def test_the_money_of_a_day_ends_also_where_no_answer_can_be_compared(tmp_path: Path) -> None:
    world = World(tmp_path, Model("house"), Model("target"), daily_usd=0.05)
    world.try_out("target")
    hearing(world, "target", LARGE)

    for _ in range(20):
        world.request(PINS)
        world.settle()

    paid = world.counted.count("dropped: too_large")
    assert 4 <= paid <= 6, "each is 0.009 of 0.05 dollars"
    assert world.counted.count("dropped: money") == 20 - paid
    world.close()


def test_the_days_account_begins_with_what_the_rows_say() -> None:
    asked: list[str] = []

    def spent_since(at: str) -> int:
        asked.append(at)
        return 900

    spend = DailySpend(MemoryStore(), spent_since, lambda: 1_778_450_400.0)  # 2026-05-10T22:00:00Z

    assert spend.reserve(200, 1000, "UTC") is None
    assert spend.reserve(100, 1000, "UTC") == "shadow:spent:2026-05-10"
    assert spend.reserve(1, 1000, "UTC") is None
    assert asked == ["2026-05-10T00:00:00.000Z"]
    assert spend.reserve(1, 1000, "Europe/Berlin") is not None, "there it is the next day"
    assert asked[1] == "2026-05-10T22:00:00.000Z"


def test_residency_decides_before_anything_is_sent(world: World) -> None:
    only_eu = Allowance((Place(regions=frozenset({"eu"})),))

    world.request(PINS, only_eu)
    world.settle()

    assert world.books == []
    assert world.counted == ["dropped: residency"]


def test_a_judge_that_may_not_see_it_is_not_asked(world: World) -> None:
    only_target = Allowance((Place(endpoints=frozenset({"target", "house"})),))

    world.request(PINS, only_target)
    world.settle()

    found = only(world)
    assert found.opinion is None
    assert found.judge_error == "residency does not let the judge see this request"


def test_at_the_end_everything_that_waits_is_dropped(world: World) -> None:
    for _ in range(3):
        world.request(PINS)

    world.shadow.close()
    world.request(PINS)
    gevent.sleep(0.01)

    assert world.books == []
    assert world.counted == ["dropped: ending"] * 4


def test_rows_wait_for_a_database_that_is_away(world: World) -> None:
    stored, store = [], world.shadow._store
    is_away = True

    def keep(reply: ShadowReply) -> None:
        if is_away:
            raise DatabaseUnavailable("away")
        stored.append(reply.request_id)
        store(reply)

    world.shadow._store = keep
    world.request(PINS)
    world.settle()
    with pytest.raises(DatabaseUnavailable):
        world.shadow.store_late()
    is_away = False
    world.shadow.store_late()
    world.shadow.store_late()

    assert stored == ["req_1"]


def test_a_fault_in_a_comparison_is_a_drop_and_the_next_one_is_made(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    inner = world.ask

    def ask(*args: Any) -> Any:
        world.ask = inner  # type: ignore[method-assign]
        raise RuntimeError("oops")

    world.ask = ask  # type: ignore[method-assign]
    world.request(PINS)
    world.settle()
    world.request(PINS)
    world.settle()

    assert world.counted[0] == "dropped: fault"
    assert only(world).request_id == "req_2"
    assert world.spend.spent("UTC") >= world.rows.spent_since("")


# -- what is compared -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target_fails", "house_fails", "opinion"),
    [(True, False, "worse"), (False, True, "better"), (True, True, None)],
)
def test_an_answer_beats_none(world: World, target_fails: bool, house_fails: bool, opinion: str | None) -> None:
    world.models["target"].error_rate = float(target_fails)
    world.models["house"].error_rate = float(house_fails)

    world.request(PINS)
    world.settle()

    found = only(world)
    assert (found.opinion, found.opinion_by) == (opinion, "error" if opinion else None)
    assert (found.primary.error is not None, found.target.error is not None) == (house_fails, target_fails)
    assert found.similarity is None


@pytest.mark.parametrize(
    ("status", "attempt_status"),
    [
        pytest.param("refused", None, id="refused by Hermes"),
        pytest.param("client_disconnected", 200, id="nobody waited for it"),
        pytest.param("error", 400, id="the caller's own mistake"),
    ],
)
def test_what_says_nothing_of_the_model_is_no_sample(world: World, status: Any, attempt_status: int | None) -> None:
    house = world.models["house"].endpoint
    cascade = world.policy.cascades["simple"]
    request = ChatRequest.parse(b'{"messages":[{"role":"user","content":"x"}]}')
    sample = world.shadow.draw(world.policy, PINS, "chat", cascade, request, lambda over: None)
    assert sample is not None

    record = UsageRecord("r", "2026-05-10T00:00:00.000Z", "/v1/completions", status, endpoint=house.id)
    sample.over(record, [Attempt(house.id, "house", attempt_status, "said")])

    assert world.counted == ["dropped: unanswered"]


def test_equal_answers_are_a_tie_that_no_judge_is_paid_for(world: World) -> None:
    world.say = lambda model: Said("The same.", 0.5, 100.0, 10, 5, False)  # type: ignore[method-assign,assignment]
    world.request(PINS)
    world.settle()

    found = only(world)
    assert (found.opinion, found.opinion_by, found.judge_nanousd, found.similarity) == ("tie", "equal", None, 1.0)


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("none", None), ("preview", "An answer of quality"), ("full", "An answer of quality")],
)
def test_texts_are_kept_as_far_as_the_operator_says(world: World, mode: str, kept: str | None) -> None:
    store_prompts(world, mode)
    world.models["target"].quality = 5.0

    world.request(PINS)
    world.settle()

    found = only(world)
    for text in (found.primary.answer, found.target.answer):
        assert text is None if kept is None else text is not None and text.startswith(kept)
    assert (found.prompt is None) == (kept is None) == (found.reason is None)
    assert found.target.nanousd is not None
    assert found.opinion == "better"


def test_a_rule_that_keeps_no_text_counts_more(world: World) -> None:
    world.request(PINS, Allowance(stores_text=False))
    world.settle()

    found = only(world)
    assert (found.prompt, found.primary.answer, found.target.answer, found.reason) == (None, None, None, None)
    assert found.opinion is not None


def test_secrets_are_taken_out_of_what_is_kept(world: World) -> None:
    world.shadow._comparison._clean = lambda text: text.replace("quality", "***")

    world.request(PINS)
    world.settle()

    assert "quality" not in f"{only(world).primary.answer}{only(world).target.answer}"


@pytest.mark.parametrize("failing", ["house", "target", "judge"])
def test_secrets_are_taken_out_of_the_errors_that_are_kept(world: World, failing: str) -> None:
    world.shadow._comparison._clean = Redactor({"canary-canary"}).clean
    error = "the provider answered 500: wrong key canary-canary"
    if failing == "house":
        sample = drawn(world)
        record = UsageRecord("req_1", "2026-05-10T00:00:00.000Z", "/v1/completions", "error", error_message=error)
        world.by_request["question 1"] = Said("", 0.5, 1.0, 1, 1, True)
        sample.over(record, [Attempt(world.models["house"].endpoint.id, "house", 500, error)])
    else:
        hearing(world, failing, Heard(error=error))
        world.request(PINS)
    world.settle()

    found = only(world)
    kept = {"house": found.primary.error, "target": found.target.error, "judge": found.judge_error}[failing]
    assert kept is not None
    assert "canary" not in kept
    assert "***" in kept


def drawn(world: World) -> Sample:
    """The sample of one request that is still under way."""
    request = ChatRequest.parse(b'{"messages":[{"role":"user","content":"question 1"}]}')
    cascade = world.policy.cascades["simple"]
    sample = world.shadow.draw(world.policy, PINS, "chat", cascade, request, lambda over: None)
    assert sample is not None
    return sample
