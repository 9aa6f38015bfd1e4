"""One request's whole life as it is accounted: a record that is filled in on the way and written exactly once.

However a request ends (answered, refused, failed, broken off, left by its caller), leaving the exchange writes its row.
A row counts the answer and what else providers may charge: each call that was sent and then timed out, broke, or was no
answer. Such a call counts as the one that a caller left: its prompt and what has come, or what the provider has told.
What a provider does not say is estimated and marked; what a model costs where nobody knows its price stays unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Final, Protocol

from hermes.accounting.prices import format_usd
from hermes.accounting.tokens import AT_MOST, LIKELY, Measure, PromptSize, sum_of, usage_from
from hermes.errors import BooksUnreadable, ClientGone, GatewayDisabled, HermesError, ResidencyBlocked, UpstreamFailed
from hermes.types import ANSWERED, Attempt, Decision, Endpoint, Principal, Status, Usage, UsageRecord

PREVIEW_CHARS = 120
BYTES_PER_TOKEN = 4
COUNTED: Final = frozenset({"ok", "interrupted", "client_disconnected"})


class Prices(Protocol):
    """What an answer costs."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        """The cost in nano-USD; None where the price is unknown."""


class Exchange:
    """The account of one request. A context manager: leaving it settles what is not settled yet."""

    def __init__(
        self,
        record: UsageRecord,
        *,
        write: Callable[[UsageRecord], None],
        prices: Prices,
        began: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.record = record
        self.attempts: list[Attempt] = []
        self._write = write
        self._prices = prices
        self._began = began
        self._clock = clock
        self._messages: Sequence[Any] = ()
        self._endpoint: Endpoint | None = None
        self._is_asked = False
        """The endpoint turned to is asked, or has answered."""

        self._has_answered = False
        self._billed: list[tuple[int, Endpoint, Usage]] = []
        """Calls without an answer: which of the attempts, and what they may cost."""

        self._waited_ms = 0.0
        self._size: PromptSize | None = None
        self._prompt_tokens: int | None = None
        self._fields_tokens: Callable[[Measure], int] = lambda _: 0
        self._settled = False
        self._is_bound = False
        self._give_back: Callable[[Usage | None, int | None], None] | None = None
        self._told: Callable[[UsageRecord, Sequence[Attempt]], None] | None = None

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._settled:
            self._settle_after(error)

    # -- what becomes known on the way --------------------------------------------------------------------

    def called_by(self, principal: Principal) -> None:
        """Whose key it is; known before anything of the request is read."""
        self.record.key_id = principal.key_id

    def asked(
        self,
        messages: Sequence[Any],
        principal: Principal,
        *,
        stream: bool,
        preview: str | None,
        fields_tokens: Callable[[Measure], int] = lambda _: 0,
    ) -> None:
        """Who asks for what.

        Args:
            fields_tokens: estimates what the request has beside its messages, tools for example.
        """
        self._messages = messages
        self._fields_tokens = fields_tokens
        self.record.user_id = principal.user_id
        self.record.key_id = principal.key_id
        self.record.stream = stream
        self.record.prompt_preview = preview

    def holds(self, give_back: Callable[[Usage | None, int | None], None]) -> None:
        """Something is set aside for this request. However it ends, `give_back` is called once, with the usage and the
        cost in nano-USD, as the row has them; None is none.
        """
        self._give_back = give_back

    def ruled(self, proof: Mapping[str, Any]) -> None:
        """What residency rules say of the request, for the record; nothing where none is for it."""
        if proof["rules"] or proof["data_classes"]:
            self._is_bound = bool(proof["rules"])
            self.record.details = {**self.record.details, "residency": proof}

    def tells(self, told: Callable[[UsageRecord, Sequence[Attempt]], None]) -> None:
        """However it ends, `told` is called once after the row is written, with the row and its attempts."""
        self._told = told

    def decided(self, decision: Decision) -> None:
        """Which tier is to answer."""
        self.record.tier = decision.tier
        self.record.decision = decision.source
        self.record.confidence = decision.confidence
        self.record.session_key = decision.session_key or None
        if decision.deviation is not None:
            self.record.details = {**self.record.details, "deviation": decision.deviation}
        self.waited(decision.classifier_ms)

    def grounded(self, messages: Sequence[Any], noted: Mapping[str, Any]) -> None:
        """What the request was given to know; its prompt is longer from now on.

        Args:
            noted: for the row's details.
        """
        self._messages, self._size, self._prompt_tokens = messages, None, None
        self.record.details = {**self.record.details, "knowledge": dict(noted)}

    def tried(self, attempt: Attempt) -> None:
        """An upstream call is over, or an endpoint was skipped."""
        if attempt.bill is not None and self._endpoint is not None:
            usage = usage_from(attempt.bill.usage) or self._estimated(attempt.bill.text_bytes)
            self._billed.append((len(self.attempts), self._endpoint, usage))
        if attempt.called:
            self._is_asked = self._has_answered = attempt.message == ANSWERED
        self.attempts.append(attempt)
        self.waited(attempt.duration_ms)

    def waited(self, milliseconds: float) -> None:
        """Time that went by waiting for others, which is not Hermes's own."""
        self._waited_ms += milliseconds

    def turned_to(self, endpoint: Endpoint, level: int) -> None:
        """Which endpoint answers (or, on the way, was asked last)."""
        self._endpoint, self._is_asked, self._has_answered = endpoint, True, False
        self.record.endpoint = endpoint.id
        self.record.model = endpoint.model
        self.record.fallback_level = level

    def overhead_ms(self) -> float:
        """What Hermes itself has taken so far; fixed when it is asked for the first time, at the answer's beginning."""
        if self.record.overhead_ms is None:
            spent_ms = (self._clock() - self._began) * 1000
            self.record.overhead_ms = round(max(0.0, spent_ms - self._waited_ms), 3)
        return self.record.overhead_ms

    def prompt_tokens(self) -> int:
        """An estimate of the messages' size, as if they were prose; what else they hold may be several times that."""
        if self._prompt_tokens is None:
            self._size = self._size or PromptSize(self._messages)
            self._prompt_tokens = self._size.tokens()
        return self._prompt_tokens

    def billed_tokens(self) -> int:
        """What the provider may bill as the prompt at most, whatever there is beside the known texts included."""
        if self._size is None:
            self._size = PromptSize(self._messages)
        return self._size.most_tokens() + self._fields_tokens(AT_MOST)

    # -- how it ends --------------------------------------------------------------------------------------

    def settle(
        self,
        status: Status,
        *,
        usage: object = None,
        content_bytes: Callable[[], int] = int,
        first_content_at: float | None = None,
        error: str | None = None,
    ) -> None:
        """Completes the record and writes it. Once: a second call changes nothing.

        Args:
            usage: the provider's usage object; where it says nothing usable, the tokens are estimated.
            content_bytes: how much text was answered; asked only for such an estimate.
        """
        if self._settled:
            return
        self._settled = True
        used: tuple[Usage | None, int | None] = (None, None)
        try:
            used = self._complete(status, usage, content_bytes, first_content_at, error)
            self._write(self.record)
        finally:
            if self._give_back is not None:
                self._give_back(*used)
            if self._told is not None:
                self._told(self.record, self.attempts)

    def refuse(self, error: str) -> None:
        """The provider has found fault with the caller's request; nothing was used."""
        self.settle("error", error=error)

    def _complete(
        self,
        status: Status,
        usage: object,
        content_bytes: Callable[[], int],
        first_content_at: float | None,
        error: str | None,
    ) -> tuple[Usage | None, int | None]:
        """Fills in what the end tells; the usage and its cost, where there is any."""
        record = self.record
        record.status = status
        record.error_message = error
        record.attempts = sum(attempt.called for attempt in self.attempts)
        record.duration_ms = round((self._clock() - self._began) * 1000, 3)
        if first_content_at is not None:
            record.ttft_ms = round((first_content_at - self._began) * 1000, 3)
        self.overhead_ms()
        if self._is_bound and status in COUNTED and self._endpoint is not None:
            self._prove(region=self._endpoint.region)
        if len(self.attempts) > 1 or status != "ok" or self._is_bound:
            record.details = {**record.details, "attempts": self._shown_attempts()}
        billed = [(endpoint, usage) for _, endpoint, usage in self._billed]
        if self._endpoint is not None and (self._has_answered or (self._is_asked and status in COUNTED)):
            billed.append((self._endpoint, usage_from(usage) or self._estimated(content_bytes())))
        return self._count(billed) if billed else (None, None)

    def _shown_attempts(self) -> list[dict[str, Any]]:
        """For the receipt: each attempt, and the tokens of one that has cost something without an answer."""
        shown = [asdict(replace(attempt, bill=None)) for attempt in self.attempts]
        for attempt in shown:
            del attempt["bill"]
        for position, _, usage in self._billed:
            shown[position]["billed_tokens"] = usage.total_tokens
        return shown

    def _count(self, billed: Sequence[tuple[Endpoint, Usage]]) -> tuple[Usage, int | None]:
        """Of several calls all tokens, and the cost of those whose price is known; None where none is."""
        record = self.record
        usage = sum_of([usage for _, usage in billed])
        record.prompt_tokens, record.completion_tokens = usage.prompt_tokens, usage.completion_tokens
        record.total_tokens, record.cached_tokens = usage.total_tokens, usage.cached_tokens
        record.reasoning_tokens, record.usage_estimated = usage.reasoning_tokens, usage.estimated
        costs = [self._prices.cost_nanousd(endpoint, used) for endpoint, used in billed]
        known = [cost for cost in costs if cost is not None]
        cost = sum(known) if known else None
        record.estimated_cost_usd = None if cost is None else format_usd(cost)
        return usage, cost

    def _estimated(self, content_bytes: int) -> Usage:
        prompt, completion = self.prompt_tokens() + self._fields_tokens(LIKELY), -(-content_bytes // BYTES_PER_TOKEN)
        return Usage(prompt, completion, prompt + completion, estimated=True)

    def _prove(self, **more: Any) -> None:
        """Adds to the proof of what residency rules did."""
        self.record.details = {
            **self.record.details, "residency": {**self.record.details.get("residency", {}), **more}
        }  # fmt: skip

    def _settle_after(self, error: BaseException | None) -> None:
        if isinstance(error, ResidencyBlocked):
            self._prove(blocked=True)
        if isinstance(error, ClientGone):
            self.settle("client_disconnected", error="the caller hung up")
        elif isinstance(error, UpstreamFailed):
            self.settle("error", error=_told(error))
        elif isinstance(error, HermesError):
            is_refusal = error.status < 500 or isinstance(error, GatewayDisabled | BooksUnreadable)
            self.settle("refused" if is_refusal else "error", error=error.message)
        else:
            self.settle("error", error="an internal error" if error is not None else None)


def preview_of(text: str, store_prompts: str) -> str | None:
    """What may be kept of a prompt: nothing, its beginning, or all of it; NUL characters never."""
    if store_prompts == "none":
        return None
    if store_prompts == "full":
        return text.replace("\0", "")
    return text[: 2 * PREVIEW_CHARS].replace("\0", "")[:PREVIEW_CHARS]  # without a walk through megabytes


def _told(error: UpstreamFailed) -> str:
    """The failure with the last attempt, which is what one looks for in a log."""
    last = next((attempt for attempt in reversed(error.attempts)), None)
    return f"{error.message} Last: {last.model}: {last.message}" if last else error.message
