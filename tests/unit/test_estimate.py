"""What is set aside for a request: its prompt, and the longest answer that its caller allows, at the dearest price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes.accounting.prices import cost_nanousd
from hermes.admission.estimate import Estimate
from hermes.types import Endpoint, Price, Usage
from tests.unit.quota_bench import FixedPrices, endpoint

UNPRICED_NANOUSD = 700


def estimate(models: tuple[str, ...] = ("cheap",), **body: Any) -> Estimate:
    return Estimate(body, lambda: 10, lambda: [endpoint(model) for model in models])


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        pytest.param({}, 1024, id="nothing said"),
        pytest.param({"max_tokens": 5}, 5, id="max_tokens"),
        pytest.param({"max_completion_tokens": 6}, 6, id="its new name"),
        pytest.param({"max_completion_tokens": 6, "max_tokens": 5}, 6, id="the new name first"),
        pytest.param({"max_tokens": 5, "n": 3}, 15, id="three choices"),
        pytest.param({"n": 2}, 2048, id="two choices of a length that is not said"),
        pytest.param({"max_tokens": None, "n": None}, 1024, id="null"),
        pytest.param({"max_tokens": 0, "n": 0}, 1024, id="nonsense: zero"),
        pytest.param({"max_tokens": -5, "n": -1}, 1024, id="nonsense: negative"),
        pytest.param({"max_tokens": "9", "n": [2]}, 2048, id="a text and a list that lenient providers may heed"),
        pytest.param({"max_tokens": True, "n": True}, 1024, id="nonsense: true"),
        pytest.param({"max_tokens": 10**18, "n": 128}, 1_000_000, id="malice"),
        pytest.param({"max_tokens": 100_000.0}, 100_000, id="a float"),
        pytest.param({"max_tokens": 1999.5}, 2000, id="a part of a token"),
        pytest.param({"max_tokens": "100000"}, 100_000, id="a figure in a text that a lenient provider may heed"),
        pytest.param({"max_tokens": 5, "max_completion_tokens": "7"}, 7, id="a figure in a text beside one"),
        pytest.param({"max_tokens": "٩٩٩٩"}, 9999, id="digits that no number in JSON has"),
        pytest.param({"max_tokens": "9" * 5000}, 1_000_000, id="a text of digits"),
        pytest.param({"max_tokens": float("nan")}, 1_000_000, id="not a number"),
        pytest.param({"max_tokens": 5, "n": float("inf")}, 1_000_000, id="choices without end"),
        pytest.param({"max_tokens": "many"}, 1_000_000, id="a length that nobody can read"),
        pytest.param({"max_tokens": {"of": 5}}, 1_000_000, id="a length that is an object"),
        pytest.param({"max_tokens": 5, "n": "all"}, 1_000_000, id="a number of choices that nobody can read"),
        pytest.param({"max_tokens": 5, "best_of": " 20 "}, 100, id="the best of twenty as a text"),
        pytest.param({"max_tokens": 50, "thinking": {"budget_tokens": "+9_000"}}, 9050, id="thinking, as a text"),
        pytest.param({"max_tokens": 50, "thinking_budget": 9000}, 9050, id="thinking, as a third provider names it"),
        pytest.param({"max_tokens": 5, "min_tokens": 700}, 700, id="a least length"),
        pytest.param({"min_tokens": 5}, 1024, id="a small least length and no largest"),
        pytest.param({"max_tokens": 100_000, "max_completion_tokens": 1}, 100_000, id="the largest of both"),
        pytest.param({"max_tokens": 1, "max_output_tokens": 500}, 500, id="another provider's name"),
        pytest.param({"max_tokens": 5, "n": 3.0}, 15, id="three choices as a float"),
        pytest.param({"max_tokens": 5, "best_of": 20, "n": 2}, 100, id="the best of twenty"),
        pytest.param({"max_tokens": 100, "n": 100}, 10_000, id="a hundred choices"),
        pytest.param({"max_tokens": 50, "reasoning_effort": "high"}, 50, id="thinking within a named length"),
        pytest.param({"reasoning_effort": "high"}, 1024 + 4096, id="thinking of no named length"),
        pytest.param({"reasoning": {"effort": "low"}}, 1024 + 4096, id="thinking, as another provider names it"),
        pytest.param({"reasoning_effort": "minimal"}, 1024, id="next to no thinking"),
        pytest.param({"max_tokens": 50, "thinking": {"budget_tokens": 9000}}, 9050, id="thinking beside the answer"),
        pytest.param({"thinking": "yes", "reasoning": [1], "prediction": 5}, 1024, id="nonsense: no objects"),
        pytest.param({"max_tokens": 50, "prediction": {"content": "abcd" * 100}}, 150, id="what is foretold"),
        pytest.param(
            {"max_tokens": 50, "prediction": {"content": [{"type": "text", "text": "ab" * 100}, 1]}},
            100,
            id="what is foretold, in parts",
        ),
    ],
)
def test_how_long_the_answers_may_be(body: dict[str, Any], answers: int) -> None:
    usage = estimate(**body).usage()

    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, answers, 10 + answers)


@pytest.mark.parametrize(
    ("models", "nanousd"),
    [
        pytest.param(("cheap", "dear"), 200_000, id="the dearest"),
        pytest.param(("dear", "unknown"), 200_000, id="an unknown price is below it"),
        pytest.param(("free", "unknown"), UNPRICED_NANOUSD, id="an unknown price is above it"),
        pytest.param(("free",), 0, id="free is not unknown"),
        pytest.param((), UNPRICED_NANOUSD, id="nobody"),
    ],
)
def test_what_it_may_cost(models: tuple[str, ...], nanousd: int) -> None:
    assert estimate(models, max_tokens=90).nanousd(FixedPrices(), UNPRICED_NANOUSD) == nanousd


def test_a_prompt_from_a_cache_that_is_dearer_than_others_counts_so() -> None:
    class Listed:
        def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
            return cost_nanousd(endpoint.price, usage) if endpoint.price is not None else None

    price = Price(1_000_000, 0, cached_input_nanousd_per_mtok=3_000_000)
    asked = Estimate({}, lambda: 10, lambda: [replace(endpoint("cheap"), price=price)])

    assert asked.nanousd(Listed(), UNPRICED_NANOUSD) == 30


def test_the_prompt_is_counted_once() -> None:
    counts = iter([10])
    asked = Estimate({}, lambda: next(counts), list)

    assert asked.usage() == asked.usage()
