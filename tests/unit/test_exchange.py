"""However a request ends, it leaves one record, and the record is right."""

from __future__ import annotations

import pytest

from hermes.accounting.exchange import Exchange, preview_of
from hermes.errors import ClientGone, InvalidRequest, UpstreamFailed
from hermes.types import Attempt, Bill, Decision, Endpoint, Principal, Status, Usage, UsageRecord

ENDPOINT = Endpoint("m@host/v1", "m", "https://host/v1", "https://host/v1")
MESSAGES = [{"role": "user", "content": "one two three four"}]
CALLED = Attempt("m@host/v1", "m", 200, "answered", duration_ms=40.0)
SKIPPED = Attempt("n@host/v1", "n", None, "skipped", called=False)


LOST = Attempt("m@host/v1", "m", None, "no answer in time", bill=Bill())
TOLD = Attempt("m@host/v1", "m", 200, "no completion", bill=Bill({"prompt_tokens": 30, "completion_tokens": 2}))
REFUSED = Attempt("m@host/v1", "m", 500, "the provider answered 500")


class FixedPrices:
    """One micro-USD a prompt token, two a completion token; nothing is known of other models."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        return usage.prompt_tokens * 1000 + usage.completion_tokens * 2000 if endpoint.model == "m" else None


class Bench:
    def __init__(self) -> None:
        self.now = 10.0
        self.written: list[UsageRecord] = []
        self.exchange = Exchange(
            UsageRecord("req_1", "2026-01-01T00:00:00.000Z", "/v1/chat/completions"),
            write=self.written.append,
            prices=FixedPrices(),
            began=10.0,
            clock=lambda: self.now,
        )

    def asked(self) -> None:
        principal = Principal(user_id="alice")
        self.exchange.asked(MESSAGES, principal, stream=False, preview="one two")
        self.exchange.decided(Decision("simple", "teacher", 0.9, "abc", classifier_ms=5.0))

    @property
    def row(self) -> UsageRecord:
        assert len(self.written) == 1
        return self.written[0]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_answer_is_counted_as_the_provider_counts_it(bench: Bench) -> None:
    with bench.exchange as exchange:
        bench.asked()
        exchange.turned_to(ENDPOINT, 1)
        exchange.tried(SKIPPED)
        exchange.tried(CALLED)
        bench.now += 0.05
        exchange.settle("ok", usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})

    row = bench.row
    assert (row.status, row.user_id, row.tier, row.decision, row.session_key) == (
        "ok",
        "alice",
        "simple",
        "teacher",
        "abc",
    )
    assert (row.prompt_tokens, row.completion_tokens, row.total_tokens, row.usage_estimated) == (10, 5, 15, False)
    assert row.estimated_cost_usd == "0.00002"
    assert (row.endpoint, row.model, row.fallback_level, row.attempts) == ("m@host/v1", "m", 1, 1)
    assert row.duration_ms == 50.0
    assert row.overhead_ms == 5.0  # 50 ms less 40 of the provider and 5 of the teacher


def test_missing_usage_is_estimated_and_marked(bench: Bench) -> None:
    bench.asked()
    bench.exchange.turned_to(ENDPOINT, 0)
    bench.exchange.settle("ok", usage=None, content_bytes=lambda: 400)

    assert bench.row.usage_estimated
    assert bench.row.completion_tokens == 100
    assert bench.row.prompt_tokens is not None
    assert bench.row.prompt_tokens >= 4


def test_an_unknown_price_is_unknown_and_not_zero(bench: Bench) -> None:
    bench.asked()
    bench.exchange.turned_to(Endpoint("x@host/v1", "x", "https://host/v1", "https://host/v1"), 0)
    bench.exchange.settle("ok", usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})

    assert bench.row.estimated_cost_usd is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(InvalidRequest("messages must be a list"), "refused", id="a refusal of ours"),
        pytest.param(UpstreamFailed("none", [CALLED], retry_after_s=1), "error", id="no endpoint answered"),
        pytest.param(ClientGone(), "client_disconnected", id="the caller left"),
        pytest.param(ZeroDivisionError(), "error", id="a fault of ours"),
    ],
)
def test_an_error_leaves_its_row_too(bench: Bench, error: BaseException, status: str) -> None:
    bench.asked()

    with pytest.raises(type(error)), bench.exchange:
        raise error

    assert bench.row.status == status
    assert bench.row.error_message


def test_a_caller_who_leaves_before_the_answer_has_used_the_prompt(bench: Bench) -> None:
    bench.asked()
    bench.exchange.turned_to(ENDPOINT, 0)
    bench.exchange.tried(CALLED)

    with pytest.raises(ClientGone), bench.exchange:
        raise ClientGone

    assert bench.row.prompt_tokens
    assert bench.row.completion_tokens == 0
    assert bench.row.usage_estimated
    assert bench.row.attempts == 1


def test_a_call_that_was_paid_for_counts_beside_the_answer(bench: Bench) -> None:
    bench.asked()
    for attempt in (LOST, REFUSED, TOLD, CALLED):
        bench.exchange.turned_to(ENDPOINT, 0)
        bench.exchange.tried(attempt)
    prompt = bench.exchange.prompt_tokens()

    bench.exchange.settle("ok", usage={"prompt_tokens": 10, "completion_tokens": 5})

    row = bench.row
    assert (row.prompt_tokens, row.completion_tokens, row.total_tokens) == (prompt + 40, 7, prompt + 47)
    assert row.usage_estimated
    assert row.estimated_cost_usd == f"0.0000{prompt + 54}"
    assert [attempt.get("billed_tokens") for attempt in row.details["attempts"]] == [prompt, None, 32, None]


def test_calls_that_were_paid_for_count_where_nobody_answered(bench: Bench) -> None:
    bench.asked()
    bench.exchange.turned_to(ENDPOINT, 0)
    bench.exchange.tried(LOST)
    bench.exchange.turned_to(Endpoint("x@host/v1", "x", "https://host/v1", "https://host/v1"), 1)
    bench.exchange.tried(TOLD)

    with pytest.raises(UpstreamFailed), bench.exchange:
        raise UpstreamFailed("none", [LOST, TOLD], retry_after_s=1)

    prompt = bench.exchange.prompt_tokens()
    assert (bench.row.status, bench.row.total_tokens) == ("error", prompt + 32)
    assert bench.row.estimated_cost_usd is not None, "the price of one of them is known"


@pytest.mark.parametrize("status", ["error", "client_disconnected"])
def test_a_refusal_costs_nothing_however_the_request_ends(bench: Bench, status: Status) -> None:
    bench.asked()
    bench.exchange.turned_to(ENDPOINT, 0)
    bench.exchange.tried(REFUSED)

    bench.exchange.settle(status)

    assert (bench.row.total_tokens, bench.row.estimated_cost_usd) == (None, None)


def test_an_answer_that_is_lost_by_a_fault_of_ours_counts(bench: Bench) -> None:
    bench.asked()
    bench.exchange.turned_to(ENDPOINT, 0)
    bench.exchange.tried(CALLED)

    with pytest.raises(ZeroDivisionError), bench.exchange:
        raise ZeroDivisionError

    assert (bench.row.status, bench.row.total_tokens) == ("error", bench.exchange.prompt_tokens())


def test_what_is_settled_is_not_settled_again(bench: Bench) -> None:
    with bench.exchange as exchange:
        exchange.settle("ok")
        exchange.settle("error")

    assert bench.row.status == "ok"


@pytest.mark.parametrize(
    ("store", "kept"),
    [pytest.param("none", None), pytest.param("preview", "a" * 120), pytest.param("full", "a" * 200)],
)
def test_what_is_kept_of_a_prompt(store: str, kept: str | None) -> None:
    assert preview_of("a" * 50 + "\0" + "a" * 150, store) == kept
