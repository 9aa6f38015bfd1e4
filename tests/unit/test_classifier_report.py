"""The numbers of the classifier's report, against sums by hand."""

from __future__ import annotations

from hermes.learning.report import Live, report
from hermes.storage.classified import Classified, Confidence, Served
from hermes.storage.labels import Audit

CLASSIFIED = Classified(
    decisions={"surrogate": 60, "teacher": 30, "default": 10, "override": 20, "session": 40, "header": 5},
    deviations=3,
    hourly=(
        ("2026-05-10T12:00:00Z", "override", 20),
        ("2026-05-10T12:00:00Z", "surrogate", 15),
        ("2026-05-10T12:00:00Z", "teacher", 5),
        ("2026-05-10T13:00:00Z", "session", 40),
        ("2026-05-10T13:00:00Z", "surrogate", 45),
    ),
    confidence=Confidence(0.93333, 0.861, 0.999, (0, 0, 0, 0, 0, 0, 0, 0, 20, 40)),
    fallbacks={0: 150, 1: 10, 2: 3, 3: 2},
    models=(
        Served("cheap", "simple", 100, 2, 200.0, 900.0, 0.1),
        Served("dear", "complex", 50, 0, 2000.0, 9000.0, 1.0),
        Served("cheap", "complex", 5, 5, None, None, None),
    ),
    interrupted=4,
)
LIVE = Live(True, "mine@1234", 0.95, {"simple": 0.9, "complex": 0.85}, "certified", "It keeps its target.", 0.05)


def audit(hour: int, surrogate: str, teacher: str, caller: str | None = None) -> Audit:
    return Audit(f"2026-05-10T{hour}:30:00.000Z", "r", "mine@1234", caller, surrogate, teacher, 0.9, 0.05)


AUDITS = [
    audit(11, "simple", "simple"),
    audit(12, "simple", "complex", "key-1"),
    audit(13, "complex", "simple", "key-1"),
    audit(13, "complex", "complex", "key-1"),
]


def made(audits: list[Audit] = AUDITS, live: Live = LIVE) -> dict[str, object]:
    return report(CLASSIFIED, audits, live, now="2026-05-10T14:00:00.000Z", since="2026-05-10T12:00:00.000Z")


def test_it_has_the_keys_of_the_contract() -> None:
    content = made()

    assert {*content} >= {"generated_at", "surrogate", "classification_sources", "routing", "models", "errors", "drift"}
    assert {*content["surrogate"]} >= {
        *("enabled", "model", "total_classifications", "surrogate_hits", "llm_deferrals", "coverage_pct"),
        *("confidence", "threshold", "agreement"),
    }
    assert {*content["surrogate"]["confidence"]} == {"mean", "min", "max", "distribution"}
    assert {*content["surrogate"]["agreement"]} >= {"audited", "agreed", "lower", "upper"}


def test_coverage_is_the_share_that_needed_nobody_else() -> None:
    surrogate = made()["surrogate"]

    assert surrogate["total_classifications"] == 120
    assert (surrogate["surrogate_hits"], surrogate["llm_deferrals"], surrogate["coverage_pct"]) == (60, 40, 60.0)
    assert surrogate["threshold"] == 0.85
    assert surrogate["confidence"]["mean"] == 0.9333
    assert surrogate["confidence"]["distribution"]["0.9-1.0"] == 40


def test_agreement_is_of_all_audits_and_by_hour_and_source_of_the_recent_ones() -> None:
    agreement = made()["surrogate"]["agreement"]

    assert (agreement["audited"], agreement["agreed"]) == (4, 2)
    assert (agreement["lower"], agreement["upper"]) == (0.0676, 0.9324)  # Clopper and Pearson, 2 of 4
    assert [(hour["hour"], hour["audited"], hour["agreed"]) for hour in agreement["by_hour"]] == [
        ("2026-05-10T12:00:00Z", 1, 0),
        ("2026-05-10T13:00:00Z", 2, 1),
    ]
    assert [(caller["source"], caller["audited"]) for caller in agreement["by_source"]] == [("key-1", 3)]


def test_both_kinds_of_mistake_are_told_by_what_they_cost() -> None:
    """A complex request costs 0.02, a simple one 0.001; a quarter of 60 decisions was too dear."""
    mistakes = made()["surrogate"]["mistakes"]

    assert mistakes == {
        "under_routed": 1,
        "under_routed_requests": 15,
        "overpaid": 1,
        "overpaid_requests": 15,
        "overpaid_usd": 0.285,
    }


def test_without_audits_nothing_is_claimed() -> None:
    surrogate = made([])["surrogate"]

    assert surrogate["agreement"]["lower"] is None
    assert surrogate["mistakes"]["overpaid_usd"] is None
    assert surrogate["mistakes"]["under_routed_requests"] is None


def test_sources_routing_models_and_drift() -> None:
    content = made()

    assert content["classification_sources"] == {
        "override": 20,
        "surrogate": 60,
        "llm_classifier": 30,
        "default": 10,
        "cache_hits": 40,
        "keyword_deviations": 3,
    }
    assert content["routing"] == {
        "total_route_events": 165,
        "fallback_tier1": 10,
        "fallback_tier2": 5,
        "model_distribution": {"cheap": 105, "dear": 50},
    }
    assert content["models"][0] == {
        "model": "cheap",
        "tier": "simple",
        "requests": 100,
        "errors": 2,
        "p50_ms": 200.0,
        "p95_ms": 900.0,
        "cost_usd": 0.1,
    }
    assert content["errors"] == {"stream_errors": 4}
    assert content["drift"]["hourly"] == [
        {"hour": "2026-05-10T12:00:00Z", "surrogate_pct": 75.0, "total_classifications": 40},
        {"hour": "2026-05-10T13:00:00Z", "surrogate_pct": 100.0, "total_classifications": 45},
    ]


def test_where_no_surrogate_decides_the_report_says_so() -> None:
    surrogate = made([], Live(False, None, says="No surrogate decides."))["surrogate"]

    assert (surrogate["enabled"], surrogate["model"], surrogate["threshold"]) == (False, None, None)
