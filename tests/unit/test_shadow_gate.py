"""The gate's figures are those that one reckons by other means, and chance decides nothing."""

from __future__ import annotations

import pytest

from hermes.evaluation.gate import Criterion, Gate, percentile, turned, weigh
from hermes.policy import GatePolicy
from hermes.trials import Opinion, Pair

RULES = GatePolicy()


def a_pair(
    number: int = 0,
    verdict: Opinion | None = "tie",
    *,
    latency_ratio: float = 1.0,
    nanousd: tuple[int | None, int | None] = (1000, 800),
    target_failed: bool = False,
) -> Pair:
    primary_ms = 100.0 + 10 * number
    target_ms = None if target_failed else primary_ms * latency_ratio
    return Pair(verdict, primary_ms, target_ms, *nanousd, target_failed=target_failed)


def criterion(gate: Gate, name: str) -> Criterion:
    return next(one for one in gate.criteria if one.name == name)


def test_win_or_tie_has_the_bounds_of_clopper_and_pearson() -> None:
    """48 of 50; scipy: beta.ppf(0.05, 48, 3) and beta.ppf(0.95, 49, 2)."""
    pairs = [a_pair(n, "worse" if n < 2 else "better" if n < 20 else "tie") for n in range(50)]

    found = criterion(weigh(pairs, RULES), "win_or_tie")

    assert found.value == 0.96
    assert found.lower == pytest.approx(0.879386, abs=1e-6)
    assert found.upper == pytest.approx(0.992846, abs=1e-6)
    assert found.standing == "open"
    assert "48 of 50" in found.sentence


def test_errors_have_them_too() -> None:
    """1 of 50; scipy: beta.ppf(0.05, 1, 50) and beta.ppf(0.95, 2, 49)."""
    pairs = [a_pair(n, target_failed=n == 0) for n in range(50)]

    found = criterion(weigh(pairs, RULES), "error_rate")

    assert (found.value, found.standing) == (0.02, "passed")
    assert found.lower == pytest.approx(0.001025, abs=1e-6)
    assert found.upper == pytest.approx(0.091398, abs=1e-6)


def test_latency_is_the_ratio_of_95th_percentiles_with_the_spread_of_maritz_and_jarrett() -> None:
    """Latencies 100, 110 … 590 ms, the target's 1.2 times as long: the 48th is 570. The bounds are of scipy."""
    found = criterion(weigh([a_pair(n, latency_ratio=1.2) for n in range(50)], RULES), "p95_latency_ratio")

    assert found.value == pytest.approx(1.2)
    assert found.lower == pytest.approx(1.119664, abs=1e-5)
    assert found.upper == pytest.approx(1.286101, abs=1e-5)
    assert found.standing == "passed"
    assert "684 ms against 570 ms" in found.sentence


def test_cost_is_the_ratio_of_the_sums() -> None:
    """Costs that vary: sums of 60,000 and 47,350 nano-USD; the bounds are of numpy."""
    pairs = [a_pair(n, nanousd=(1000 + 100 * (n % 5), 800 + 50 * (n % 7))) for n in range(50)]

    found = criterion(weigh(pairs, RULES), "cost_ratio")

    assert found.value == pytest.approx(47_350 / 60_000)
    assert found.lower == pytest.approx(0.759175, abs=1e-5)
    assert found.upper == pytest.approx(0.820343, abs=1e-5)
    assert found.standing == "passed"


def test_a_good_target_passes_and_the_sentence_says_so() -> None:
    gate = weigh([a_pair(n) for n in range(50)], RULES)

    assert gate.standing == "passed"
    assert [one.standing for one in gate.criteria] == ["passed"] * 5
    assert gate.sentence == "All 5 criteria pass."


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        pytest.param({"verdict": "worse"}, "win_or_tie", id="worse answers"),
        pytest.param({"latency_ratio": 2.0}, "p95_latency_ratio", id="too slow"),
        pytest.param({"nanousd": (1000, 1500)}, "cost_ratio", id="too dear"),
        pytest.param({"target_failed": True}, "error_rate", id="errors"),
    ],
)
def test_one_broken_rule_fails_the_gate(changed: dict[str, object], name: str) -> None:
    gate = weigh([a_pair(n, **changed) for n in range(50)], RULES)  # type: ignore[arg-type]

    assert gate.standing == "failed"
    assert [one.name for one in gate.criteria if one.standing == "failed"] == [name]
    assert criterion(gate, name).sentence in gate.sentence


def test_too_few_samples_decide_nothing_however_bad_they_are() -> None:
    gate = weigh([a_pair(n, "worse") for n in range(49)], RULES)

    assert gate.standing == "open"
    assert gate.sentence == "49 samples have a verdict, at least 50 are wanted."


def test_rows_without_a_verdict_are_no_samples_but_count_for_latency_and_cost() -> None:
    gate = weigh([a_pair(n, None if n % 2 else "tie") for n in range(60)], RULES)

    assert criterion(gate, "samples").value == 30
    assert "30 of 30" in criterion(gate, "win_or_tie").sentence
    assert criterion(gate, "p95_latency_ratio").value == pytest.approx(1.0)


@pytest.mark.parametrize("costs", [(None, 800), (1000, None), (0, 0)])
def test_an_unknown_price_keeps_the_gate_open(costs: tuple[int | None, int | None]) -> None:
    gate = weigh([a_pair(n, nanousd=costs) for n in range(50)], RULES)

    assert gate.standing == "open"
    assert criterion(gate, "cost_ratio").value is None


def test_nothing_at_all_is_open() -> None:
    gate = weigh([], RULES)

    assert gate.standing == "open"
    assert [one.value for one in gate.criteria] == [0, None, None, None, None]


def test_a_free_target_costs_nothing() -> None:
    found = criterion(weigh([a_pair(n, nanousd=(1000, 0)) for n in range(50)], RULES), "cost_ratio")

    assert (found.value, found.upper, found.standing) == (0.0, 0.0, "passed")


def test_a_smaller_risk_widens_the_bounds() -> None:
    pairs = [a_pair(n, "worse" if n == 0 else "tie") for n in range(50)]

    assert weigh(pairs, RULES, 0.05).standing == "passed"
    assert weigh(pairs, RULES, 0.025).standing == "open"


def test_a_turned_row_is_told_from_the_other_side() -> None:
    pair = Pair("better", 1.0, 2.0, 3, 4, False, True, 9)

    assert turned(pair) == Pair("worse", 2.0, 1.0, 4, 3, True, False, 9)
    assert turned(turned(pair)) == pair


def test_a_percentile_of_equal_values_has_no_spread() -> None:
    value, spread = percentile([5.0] * 40)

    assert value == 5.0
    assert spread == pytest.approx(0.0, abs=1e-6)
