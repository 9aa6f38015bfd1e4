"""What routing has saved: what the same tokens would have cost had the complex tier's first model answered them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hermes.storage.consumption import Consumption
from hermes.types import Usage

NANO: Final = 1e-9

CostOf = Callable[[Usage, int], int | None]
"""What the tokens of a number of answers cost in nano-USD; None: the price is unknown."""


def saved_usd(consumed: Sequence[Consumption], cost_of: CostOf) -> float | None:
    """The difference in USD; negative where routing has cost more. None: the other price is unknown."""
    saved = 0
    for one in consumed:
        total = one.prompt_tokens + one.completion_tokens
        tokens = Usage(one.prompt_tokens, one.completion_tokens, total, one.cached_tokens, one.reasoning_tokens)
        cost = cost_of(tokens, one.requests)
        if cost is None:
            return None
        saved += cost - one.nanousd
    return saved * NANO
