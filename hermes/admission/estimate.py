"""What a request may use at most, as far as that can be told before it is answered: what is set aside for it.

Tokens are the prompt's and the longest answer that the caller allows, for each choice. Money is that at the dearest
price of the models that could answer, since budgets are weighed before one is chosen. Figures are read as the most
lenient of providers would, since what one of them takes is billed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from hermes.admission.figures import figure_of
from hermes.types import Endpoint, Usage

ANSWER_TOKENS: Final = 1024
"""Set aside where the caller names no `max_tokens`."""

ANSWERS_TOKENS_MAX: Final = 1_000_000
"""No request has longer answers; a caller who says so must not lock a budget that others share."""

THINKING_TOKENS: Final = 4096
"""Set aside besides where the caller wants thinking and names neither its length nor the answer's."""

LENGTHS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens", "n_predict")
"""Which of them a provider heeds, nobody knows beforehand: the largest counts."""

LEAST: Final = "min_tokens"
"""vLLM's: so long an answer becomes, whatever its model would say."""

NUMBERS: Final = ("n", "best_of")
"""How many answers are made; those that `best_of` does not choose are billed too."""

THINKING: Final = (("thinking", "budget_tokens"), ("reasoning", "max_tokens"))
THINKING_FIELDS: Final = frozenset({"thinking", "thinking_budget", "reasoning", "reasoning_effort"})
THOUGHTLESS: Final = frozenset({"none", "minimal"})
BYTES_PER_TOKEN: Final = 4


class Prices(Protocol):
    """What an answer costs."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        """The cost in nano-USD; None where the price is unknown."""


class Estimate:
    """Computed when it is asked for, once: most requests have no limit that asks."""

    __slots__ = ("_body", "_could_answer", "_prompt_tokens", "_usage")

    def __init__(
        self, body: Mapping[str, Any], prompt_tokens: Callable[[], int], could_answer: Callable[[], Iterable[Endpoint]]
    ) -> None:
        """Takes the request's body, what counts its prompt, and what says which endpoints could answer first."""
        self._body = body
        self._prompt_tokens = prompt_tokens
        self._could_answer = could_answer
        self._usage: Usage | None = None

    def usage(self) -> Usage:
        """The tokens of prompt and answers."""
        if self._usage is None:
            prompt, answers = self._prompt_tokens(), _answers_tokens(self._body)
            self._usage = Usage(prompt, answers, prompt + answers, estimated=True)
        return self._usage

    def nanousd(self, prices: Prices, unpriced_nanousd: int) -> int:
        """The cost at the dearest of the endpoints; one without a known price counts as `unpriced_nanousd`.

        Thinking and what a cache holds may have prices of their own: the dearer counts.
        """
        usage = self.usage()
        special: Usage | None = None
        costs: list[int | None] = []
        for endpoint in self._could_answer():
            costs.append(prices.cost_nanousd(endpoint, usage))
            if endpoint.price is None or endpoint.price.cached_input_nanousd_per_mtok is not None:
                special = special or _special(usage)
                costs.append(prices.cost_nanousd(endpoint, special))
        return max([unpriced_nanousd if cost is None else cost for cost in costs], default=unpriced_nanousd)


def _special(usage: Usage) -> Usage:
    """The same with a prompt from a cache and an answer that is thought."""
    prompt, answers = usage.prompt_tokens, usage.completion_tokens
    return Usage(prompt, answers, usage.total_tokens, prompt, answers, estimated=True)


def _answers_tokens(body: Mapping[str, Any]) -> int:
    one = _longest(body)
    if body.keys() & THINKING_FIELDS:
        one += _thinking_tokens(body)
    if "prediction" in body:
        one += _predicted_tokens(body["prediction"])
    return min(one * max([_figure(body.get(name), 1) for name in NUMBERS]), ANSWERS_TOKENS_MAX)


def _longest(body: Mapping[str, Any]) -> int:
    """The longest answer. What is not simply a number may be heeded or not: it only makes the answer longer."""
    plain, others = 0, _figure(body.get(LEAST), 0)
    for name in LENGTHS:
        value = body.get(name)
        if isinstance(value, (int, float)):
            plain = max(plain, _figure(value, 0))
        else:
            others = max(others, _figure(value, 0))
    return max(plain or ANSWER_TOKENS, others)


def _thinking_tokens(body: Mapping[str, Any]) -> int:
    """What a model may think beside its answer, as far as the caller speaks of it."""
    named = [_figure(part.get(key), 0) for name, key in THINKING if isinstance(part := body.get(name), Mapping)]
    named.append(_figure(body.get("thinking_budget"), 0))
    if tokens := max(named, default=0):
        return tokens
    reasoning = body.get("reasoning")
    effort = body.get("reasoning_effort") or (reasoning.get("effort") if isinstance(reasoning, Mapping) else None)
    wants = isinstance(effort, str) and effort not in THOUGHTLESS
    return THINKING_TOKENS if wants and not any(_figure(body.get(name), 0) for name in LENGTHS) else 0


def _predicted_tokens(prediction: object) -> int:
    """What the caller foretells: where the model says something else, it is billed as if it had been said."""
    content = prediction.get("content") if isinstance(prediction, Mapping) else None
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    sizes = (len(text) if text.isascii() else 2 * len(text) for text in texts if isinstance(text, str))
    return -(-sum(sizes) // BYTES_PER_TOKEN)


def _figure(value: object, otherwise: int) -> int:
    """The number that a provider may see in it. What Hermes cannot read goes on to the provider, but counts as the
    most that anybody can ask for.
    """
    return figure_of(value, otherwise, ANSWERS_TOKENS_MAX)
