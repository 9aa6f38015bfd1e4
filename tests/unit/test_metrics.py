"""The metrics: the names that operators scrape, true counts, and a number of series that no client can raise."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermes.observe.metrics import SLICE, Metrics
from hermes.types import UsageRecord

NAMES = {
    "hermes_router_requests_total",
    "hermes_router_classifier_calls_total",
    "hermes_router_classifier_latency_ms_avg",
    "hermes_router_cache_hits_total",
    "hermes_router_429_total",
    "hermes_router_fallback_used_total",
    "hermes_router_stream_requests_total",
    "hermes_router_errors_total",
    "hermes_router_circuits_open",
    "hermes_router_sessions_active",
    "hermes_request_duration_seconds_count",
    "hermes_time_to_first_token_seconds_count",
    "hermes_overhead_seconds_count",
    "hermes_classifier_latency_seconds_count",
    "hermes_tokens_total",
    "hermes_cost_usd_total",
    "hermes_spool_depth",
    "hermes_spool_lost_total",
    "hermes_spool_held",
    "hermes_requests_in_flight",
    "hermes_ledger_requests_total",
    "hermes_ledger_rows_total",
    "hermes_ledger_gap",
    "hermes_turned_away_total",
    "hermes_usage_rows_total",
    "hermes_build_info",
}


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics("1.2.3")
    made.learn(["small", "large"], levels=2)
    return made


def series(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name and its label values, as Prometheus's own parser reads them."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        " ".join([sample.name, *(value for _, value in sorted(sample.labels.items()))]): sample.value
        for family in families
        for sample in family.samples
    }


def record(**fields: object) -> UsageRecord:
    whole = {"request_id": "r-1", "created_at": "2026-05-10T13:33:00.123Z", "route": "/v1/chat/completions", **fields}
    return UsageRecord(**whole)  # type: ignore[arg-type]


def test_every_name_is_there_from_the_start(metrics: Metrics) -> None:
    names = {name.split()[0] for name in series(metrics)}

    assert names >= NAMES
    assert not [name for name in names if name.endswith("_created")]


def test_each_verb_counts(metrics: Metrics) -> None:
    metrics.request("simple", stream=True)
    metrics.request("complex", stream=False)
    metrics.request(None, stream=False)
    metrics.classifier(0.1)
    metrics.classifier(0.3)
    metrics.cache_hit()
    metrics.limited("complex")
    metrics.fallback(1)
    metrics.error()

    found = series(metrics)
    assert found["hermes_router_requests_total simple"] == 1
    assert found["hermes_router_requests_total complex"] == 1
    assert found["hermes_router_requests_total none"] == 1
    assert found["hermes_router_stream_requests_total"] == 1
    assert found["hermes_router_classifier_calls_total"] == 2
    assert found["hermes_router_classifier_latency_ms_avg"] == pytest.approx(200)
    assert found["hermes_classifier_latency_seconds_count"] == 2
    assert found["hermes_router_cache_hits_total"] == 1
    assert found["hermes_router_429_total complex"] == 1
    assert found["hermes_router_fallback_used_total 1"] == 1
    assert found["hermes_router_errors_total"] == 1
    assert found["hermes_build_info 1.2.3"] == 1


def test_a_finished_request_gives_times_tokens_and_cost(metrics: Metrics) -> None:
    done = record(
        tier="simple",
        model="small",
        prompt_tokens=10,
        completion_tokens=5,
        cached_tokens=4,
        estimated_cost_usd="0.000012500",
        duration_ms=1500.0,
        ttft_ms=200.0,
        overhead_ms=1.5,
    )

    metrics.answered(done)

    found = series(metrics)
    assert found["hermes_usage_rows_total ok"] == 1
    assert found["hermes_request_duration_seconds_sum simple"] == pytest.approx(1.5)
    assert found["hermes_time_to_first_token_seconds_bucket 0.25 simple"] == 1
    assert found["hermes_overhead_seconds_bucket 0.002 simple"] == 1
    assert found["hermes_tokens_total prompt small"] == 10
    assert found["hermes_tokens_total cached small"] == 4
    assert found["hermes_tokens_total reasoning small"] == 0
    assert found["hermes_cost_usd_total small"] == pytest.approx(0.0000125)


def test_a_request_that_was_refused_before_a_tier_was_chosen_is_a_request_and_a_row(metrics: Metrics) -> None:
    before = series(metrics)

    metrics.answered(record(status="refused"))

    changed = {name for name, value in series(metrics).items() if before[name] != value}
    rows = {"hermes_usage_rows_total refused", "hermes_ledger_rows_total appended"}
    assert changed == {"hermes_router_requests_total none", *rows}


def test_a_request_is_counted_once_however_it_ends(metrics: Metrics) -> None:
    metrics.request("simple", stream=True)
    metrics.answered(record(status="ok", tier="simple", stream=True))
    metrics.answered(record(status="refused", stream=True))

    found = series(metrics)
    assert found["hermes_router_requests_total simple"] == 1
    assert found["hermes_router_requests_total none"] == 1
    assert found["hermes_router_stream_requests_total"] == 2


def test_lost_rows_are_counted(metrics: Metrics) -> None:
    metrics.spool_lost(3)
    metrics.spool_lost(1)

    assert series(metrics)["hermes_spool_lost_total"] == 4


def test_strangers_cannot_make_series(metrics: Metrics) -> None:
    """Prometheus clients never drop a label set, so an invented model name must not become one."""
    before = set(series(metrics))

    for number in range(200):
        metrics.answered(record(model=f"rnd-{number}", tier=f"tier-{number}", prompt_tokens=1, duration_ms=1.0))
        metrics.request(f"tier-{number}", stream=True)
        metrics.fallback(number)
        metrics.limited(f"tier-{number}")

    found = series(metrics)
    assert set(found) == before
    assert found["hermes_tokens_total prompt other"] == 200
    assert found["hermes_router_fallback_used_total other"] == 198


def test_a_reload_adds_the_new_models(metrics: Metrics) -> None:
    metrics.learn(["huge"], levels=4)
    metrics.fallback(4)

    found = series(metrics)
    assert found["hermes_tokens_total prompt huge"] == 0
    assert found["hermes_router_fallback_used_total 4"] == 1


def test_gauges_ask_when_they_are_scraped(metrics: Metrics) -> None:
    waiting = [3]
    metrics.watch(circuits_open=lambda: 1, sessions_active=lambda: 2, spool_depth=lambda: waiting[0])
    waiting[0] = 4

    found = series(metrics)

    assert found["hermes_router_circuits_open"] == 1
    assert found["hermes_router_sessions_active"] == 2
    assert found["hermes_spool_depth"] == 4
    assert found["hermes_ledger_gap"] == 0


def test_budgets_that_are_gone_are_not_shown_any_more(metrics: Metrics) -> None:
    day, month = ("global", "", "day", "usd"), ("user", "*", "month", "tokens")
    metrics.budget_use({day: 0.5, month: 1.25})
    assert [value for name, value in series(metrics).items() if "budget" in name] == [0.5, 1.25]

    metrics.budget_use({day: 0.75})

    assert {name: value for name, value in series(metrics).items() if "budget" in name} == {
        "hermes_budget_used_ratio  day global usd": 0.75
    }


def test_label_values_are_escaped(metrics: Metrics) -> None:
    metrics.learn(['a"b\\c\nd'], levels=2)

    assert series(metrics)['hermes_cost_usd_total a"b\\c\nd'] == 0


def test_a_large_exposition_gives_way_in_between(metrics: Metrics) -> None:
    """5,000 series at once would stop every stream of the worker for tens of milliseconds."""
    metrics.learn([f"model-{number}" for number in range(1000)], levels=2)
    pauses: list[int] = []

    text = metrics.exposition(pause=lambda: pauses.append(1))

    samples = sum(1 for line in text.splitlines() if not line.startswith(b"#"))
    assert samples > 5000
    assert len(pauses) == samples // SLICE
