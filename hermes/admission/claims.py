"""What limits and budgets have in common: parts of a reservation that the store grants all together or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from hermes.state.store import Claim, StateStore
from hermes.types import Usage

NOBODY: AbstractContextManager[object] = nullcontext()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may wait to be let in."""

    until: float = math.inf
    """When its time is over, on the monotonic clock."""

    caller: AbstractContextManager[object] = NOBODY
    """Around a wait that ends when the caller leaves; what it raises then ends the request."""


ENDLESS = Patience()


class Part(Protocol):
    """One thing that a request asks for, from the asking to the end."""

    @property
    def claims(self) -> Sequence[Claim]:
        """What is asked of the store now."""

    def refused(self, position: int) -> None:
        """The store has refused the claim at this position: changes something, so that it may be asked again.

        Raises:
            HermesError: nothing can be changed; the request is refused.
        """

    def granted(self) -> None:
        """The store has granted every claim of the request."""

    def settle(self, store: StateStore, usage: Usage | None, cost_nanousd: int | None) -> None:
        """The request is over: puts what was used in the place of what was set aside. Called once.

        Args:
            usage: None: nothing was used.
            cost_nanousd: None: unknown, which counts nothing.
        """


def storable(name: str) -> str:
    """A caller's name as a part of a store's key; halves of surrogate pairs, which JSON may hold, are no UTF-8.

    >>> storable("zoë"), storable("a" + chr(0xD800))
    ('zoë', 'a?')
    """
    return name if name.isascii() else name.encode("utf-8", "replace").decode()
