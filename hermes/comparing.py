"""The comparison of targets with pinned models, put together: who calls, who pays, where the rows are, who decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import gevent

from hermes.accounting.tokens import usage_from
from hermes.chatrequest import ChatRequest
from hermes.evaluation.load import LoopLoad
from hermes.evaluation.promotion import Promotions
from hermes.evaluation.shadow import Counts, Shadow
from hermes.evaluation.spend import DailySpend, Prices
from hermes.evaluation.trial import NotMade
from hermes.policy import Policy
from hermes.state.store import StateStore
from hermes.storage.db import Database
from hermes.storage.promotions import PromotionRepository
from hermes.storage.shadow import ShadowRepository
from hermes.trials import Heard, Spoken
from hermes.types import Allowance, Endpoint, Tier, Usage
from hermes.upstream.alone import Alone, NotAsked
from hermes.upstream.catalog import pinned
from hermes.upstream.spoken import spoken

TURN: Final = "turn:shadow"
TURN_EVERY_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Comparing:
    """Its parts."""

    shadow: Shadow
    rows: ShadowRepository
    spend: DailySpend
    promotions: Promotions
    load: LoopLoad
    store: StateStore

    def tend(self, policy: Policy, pins: Mapping[str, str]) -> None:
        """Stores what could not be stored, and lets one of all workers look at the runs; for a background loop."""
        self.shadow.store_late()
        if not self.store.claim(TURN, TURN_EVERY_S):
            return
        primaries = {role: policy.cascades[tier].endpoints[0].model for role, tier in policy.gateway.roles.items()}
        self.promotions.look(policy, pins, primaries)


def comparing(
    database: Database,
    store: StateStore,
    alone: Alone,
    prices: Prices,
    counts: Counts,
    clean: Callable[[str], str],
    changed: Callable[[], None],
    is_crowded: Callable[[], bool],
    is_stopped: Callable[[], bool],
) -> Comparing:
    """Puts it together.

    Args:
        clean: takes secrets out of a text that is stored.
        changed: puts changed pins in force in this process.
        is_crowded: whether requests are turned away.
        is_stopped: whether the kill switch is thrown.
    """
    rows = ShadowRepository(database)
    spend = DailySpend(store, rows.spent_since)
    load = LoopLoad()
    calls = ShadowCalls(alone, prices)

    def is_loaded() -> bool:
        return load.is_high() or is_crowded()

    shadow = Shadow(
        _place, calls, spend, rows.add, counts,
        clean=clean, is_loaded=is_loaded, is_stopped=is_stopped, aside=_aside,
    )  # fmt: skip
    return Comparing(shadow, rows, spend, Promotions(rows, PromotionRepository(database), changed, _aside), load, store)


def _place(policy: Policy, tier: Tier, model: str) -> Endpoint:
    return pinned(policy, tier, model).endpoints[0]


def _aside(work: Callable[..., Any], *args: Any) -> Any:
    """Runs what computes in a native thread; it takes no lock there."""
    return gevent.get_hub().threadpool.apply(work, args)


class ShadowCalls:
    """`hermes.evaluation.trial.Calls`."""

    def __init__(self, alone: Alone, prices: Prices) -> None:
        self._alone = alone
        self._prices = prices

    def ask(self, endpoint: Endpoint, request: ChatRequest, policy: Policy, allowance: Allowance) -> Heard:
        """One call for itself. Raises `NotMade`."""
        try:
            return self._alone.ask(endpoint, request, policy, allowance)
        except NotAsked as reason:
            raise NotMade(str(reason)) from None

    def spoken(self, raw: bytes, *, stream: bool) -> Spoken:
        """What an answer says; pauses."""
        return spoken(raw, stream=stream)

    def usage(self, raw: object) -> Usage | None:
        """A provider's usage object, read."""
        return usage_from(raw)

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        """What an answer costs; None: unknown."""
        return self._prices.cost_nanousd(endpoint, usage)
