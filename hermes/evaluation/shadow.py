"""Calls targets off the callers' path: draws, waits its turn, asks, compares, stores.

A sample waits in a short queue until one of a few workers has time. It is dropped, and counted by its reason, where the
queue is full, the process is loaded or ending, the day's money is spent, or residency does not let the target see it;
a drop is never an error for anybody. Workers are greenlets that live as long as something waits. What computes for more
than a moment runs in a native thread, where it takes no lock.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import gevent

from hermes.chatrequest import ChatRequest
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import DatabaseUnavailable
from hermes.evaluation.judge import Judge
from hermes.evaluation.sample import Drawn, Sample, Task
from hermes.evaluation.spend import DailySpend
from hermes.evaluation.trial import Calls, Comparison, Text
from hermes.policy import Policy
from hermes.trials import ShadowReply
from hermes.types import ANYONE, Allowance, Attempt, Cascade, Endpoint, Tier, UsageRecord

log = logging.getLogger("hermes-router.shadow")

MOST_WAITING: Final = 64
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of the requests that wait."""

MOST_REQUEST_BYTES: Final = 4 * 1024 * 1024
MOST_UNSTORED: Final = 256
"""Rows that wait for a database that is away."""

DEFAULT_RATE: Final = 0.05
"""Of the calls of a role with a target whose sample rate nobody has set."""


class Counts(Protocol):
    """`hermes.observe.metrics.Metrics`."""

    def shadow_dropped(self, reason: str) -> None: ...

    def shadow_reply(self, outcome: str) -> None: ...


Place = Callable[[Policy, Tier, str], Endpoint]
"""The endpoint that a model's name means in a tier."""


class Shadow:
    """The comparison of targets with pinned models in one process."""

    def __init__(
        self,
        place: Place,
        calls: Calls,
        spend: DailySpend,
        store: Callable[[ShadowReply], None],
        counts: Counts,
        *,
        clean: Text = lambda text: text,
        is_loaded: Callable[[], bool] = lambda: False,
        is_stopped: Callable[[], bool] = lambda: False,
        aside: Callable[..., Any] = lambda work, *args: work(*args),
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            store: keeps a row; may raise `DatabaseUnavailable`.
            is_stopped: whether the kill switch is thrown.
            clean: takes secrets out of a text that is stored.
            aside: runs a function of its arguments where it holds nobody up.
        """
        self.dropped: Counter[str] = Counter()
        """Samples that came to nothing, by reason, since this process began."""

        self._place = place
        self._spend = spend
        self._store = store
        self._counts = counts
        self._is_loaded = is_loaded
        self._is_stopped = is_stopped
        self._rng = rng or random.Random()  # noqa: S311  (a sample, no secret)
        self._comparison = Comparison(calls, Judge(self._rng), clean, aside, clock)
        self._waiting: deque[Task] = deque()
        self._bytes = 0
        self._workers: set[gevent.Greenlet] = set()
        self._unstored: deque[ShadowReply] = deque(maxlen=MOST_UNSTORED)
        self._is_closed = False

    def depth(self) -> int:
        """How many samples wait or are being compared."""
        return len(self._waiting) + len(self._workers)

    # -- on the request's path ----------------------------------------------------------------------------

    def draw(
        self,
        policy: Policy,
        pins: Mapping[str, str],
        role: str | None,
        cascade: Cascade,
        request: ChatRequest | EmbeddingRequest,
        tells: Callable[[Callable[[UsageRecord, Sequence[Attempt]], None]], None],
        allowance: Allowance = ANYONE,
    ) -> Sample | None:
        """The sample that this request becomes if it is drawn; costs one look-up where its role has no target.

        Args:
            role: None: it is of none, and not compared.
            tells: takes what is to be called when the request is over.
        """
        model = pins.get(f"model.{role}.target")
        if (
            role is None
            or model is None
            or not isinstance(request, ChatRequest)
            or self._rng.random() >= sample_rate(pins, role)
        ):
            return None
        primary, target = cascade.endpoints[0], self._place(policy, cascade.tier, model)
        if target.id == primary.id:
            return None
        reason = self._reason_to_drop(request, target, allowance)
        if reason:
            self._drop(reason)
            return None
        sample = Sample(Drawn(role, primary, target, request, policy, allowance), self._offer, self._drop)
        tells(sample.over)
        return sample

    def _reason_to_drop(self, request: ChatRequest, target: Endpoint, allowance: Allowance) -> str:
        if self._is_closed:
            return "ending"
        if not allowance.permits(target):
            return "residency"
        if len(request.raw) > MOST_REQUEST_BYTES:
            return "too_large"
        if self._is_loaded():
            return "load"
        return "queue" if self._is_full(len(request.raw)) else ""

    def _offer(self, task: Task) -> None:
        """Takes a sample whose request is over. Never raises: it is called where a request ends."""
        size = len(task.drawn.request.raw)
        if self._is_closed or self._is_full(size):
            self._drop("ending" if self._is_closed else "queue")
            return
        self._waiting.append(task)
        self._bytes += size
        if len(self._workers) < task.drawn.policy.shadow.max_parallel:
            worker = gevent.spawn(self._work)
            self._workers.add(worker)
            worker.rawlink(self._workers.discard)

    def _is_full(self, size: int) -> bool:
        return len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += 1
        self._counts.shadow_dropped(reason)

    # -- off the path -------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._waiting:
            task = self._waiting.popleft()
            self._bytes -= len(task.drawn.request.raw)
            if self._is_stopped() or self._is_loaded():
                self._drop("stopped" if self._is_stopped() else "load")
                continue
            try:
                self._compare(task)
            except Exception:  # an edge: this greenlet is nobody's
                log.warning("A shadow call could not be compared", exc_info=True)
                self._drop("fault")

    def _compare(self, task: Task) -> None:
        policy = task.drawn.policy
        reserved = self._comparison.estimate(task)
        account = self._spend.reserve(reserved, policy.shadow.daily_nanousd, policy.budgets.timezone)
        if account is None:
            self._drop("money")
            return
        spent = reserved
        try:
            found = self._comparison.make(task)
            spent = found.spent_nanousd
        finally:
            self._spend.settle(account, reserved, spent)
        if found.reply is None:
            self._drop(found.dropped)
            return
        self._counts.shadow_reply(_outcome(found.reply))
        self._keep(found.reply)

    def _keep(self, reply: ShadowReply) -> None:
        try:
            self._store(reply)
        except DatabaseUnavailable:
            if len(self._unstored) == MOST_UNSTORED:
                self._drop("database")
            self._unstored.append(reply)

    def store_late(self) -> None:
        """Stores what the database could not take before; for a background loop. Raises `DatabaseUnavailable`."""
        while self._unstored:
            self._store(self._unstored[0])
            self._unstored.popleft()

    def close(self, wait_s: float = 0.0) -> None:
        """Takes nothing more, drops what waits, and gives what runs a moment."""
        self._is_closed = True
        while self._waiting:
            self._waiting.popleft()
            self._drop("ending")
        running = list(self._workers)
        gevent.joinall(running, timeout=wait_s)
        for worker in running:
            if not worker.ready():
                self._drop("ending")
                worker.kill(block=False)


def sample_rate(pins: Mapping[str, str], role: str) -> float:
    """The share of a role's calls that are compared, 0..1."""
    text = pins.get(f"model.{role}.target.sample_rate")
    try:
        rate = DEFAULT_RATE if text is None else float(text)
    except ValueError:
        rate = 0.0
    return rate if 0.0 <= rate <= 1.0 else 0.0  # the table may be written by hand


def _outcome(reply: ShadowReply) -> str:
    if reply.target.error is not None:
        return "error"
    return reply.opinion or "unjudged"
