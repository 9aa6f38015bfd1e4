"""What a request may use at most, as far as that can be told before it is answered: what is set aside for it.

Tokens are the prompt's and the longest answer that the caller allows, for each choice. Money is that at the dearest
price of the models that could answer, since budgets are weighed before one is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from hermes.types import Endpoint, Usage

ANSWER_TOKENS: Final = 1024
"""Set aside where the caller names no `max_tokens`."""

ANSWERS_TOKENS_MAX: Final = 1_000_000
"""No request has longer answers; a caller who says so must not lock a budget that others share."""


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
        """The cost at the dearest of the endpoints; one without a known price counts as `unpriced_nanousd`."""
        usage = self.usage()
        costs = (prices.cost_nanousd(endpoint, usage) for endpoint in self._could_answer())
        return max((unpriced_nanousd if cost is None else cost for cost in costs), default=unpriced_nanousd)


def _answers_tokens(body: Mapping[str, Any]) -> int:
    one = _positive(body.get("max_completion_tokens")) or _positive(body.get("max_tokens")) or ANSWER_TOKENS
    return min(one * (_positive(body.get("n")) or 1), ANSWERS_TOKENS_MAX)


def _positive(value: object) -> int | None:
    """The number, if it is a whole one over 0; what is not is the provider's business to refuse."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
