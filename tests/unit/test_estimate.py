"""What is set aside for a request: its prompt, and the longest answer that its caller allows, at the dearest price."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.admission.estimate import Estimate
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
        pytest.param({"max_tokens": "9", "n": [2]}, 1024, id="nonsense: no numbers"),
        pytest.param({"max_tokens": True, "n": True}, 1024, id="nonsense: true"),
        pytest.param({"max_tokens": 10**18, "n": 128}, 1_000_000, id="malice"),
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


def test_the_prompt_is_counted_once() -> None:
    counts = iter([10])
    asked = Estimate({}, lambda: next(counts), list)

    assert asked.usage() == asked.usage()
