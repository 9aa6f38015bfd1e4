"""One comparison: the target's answer, how alike both are, and what a judge says of them.

What a text may be kept of is decided by `logging.store_prompts` and by residency; figures are always kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Final, Protocol

import orjson

from hermes.chatrequest import ChatRequest
from hermes.evaluation.compare import as_text, is_same, similarity
from hermes.evaluation.judge import REPLY_TOKENS, Judge, NoVerdict
from hermes.evaluation.sample import Drawn, Task
from hermes.policy import Policy
from hermes.trials import Heard, Opinion, ShadowReply, Side, Spoken
from hermes.types import Allowance, Endpoint, Usage

PREVIEW_CHARS: Final = 120
FULL_CHARS: Final = 200_000
FEWEST_TOKENS: Final = 256
"""Of an answer, where money is set aside for it."""

BYTES_PER_TOKEN: Final = 4
JUDGE_TOKENS: Final = 600
"""The judge's own prompt, without what it compares."""

REQUEST_CHARS: Final = 24_000
SHOWN_CHARS: Final = 1000
"""Of the form that was asked for, and of the names of tools."""

Text = Callable[[str], str]


class NotMade(Exception):
    """The call was not made, or was refused for a mistake of ours: it has cost nothing. The message is the reason by
    which it is counted.
    """


class Calls(Protocol):
    """Upstream calls, their prices and their reading; `bootstrap` has the real one."""

    def ask(self, endpoint: Endpoint, request: ChatRequest, policy: Policy, allowance: Allowance) -> Heard:
        """One call. Raises `NotMade`."""

    def spoken(self, raw: bytes, *, stream: bool) -> Spoken:
        """What an answer says. Pauses, so that it may take a while on the event loop."""

    def usage(self, raw: object) -> Usage | None:
        """A provider's usage object, read."""

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        """None: unknown."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a comparison."""

    reply: ShadowReply | None
    spent_nanousd: int
    dropped: str = ""
    """Why there is no reply."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An opinion, and what it has cost."""

    opinion: Opinion | None = None
    by: Any = None
    orders: str = ""
    reason: str | None = None
    error: str | None = None
    nanousd: int | None = None
    set_aside: int = 0
    """What counts as spent where the price is unknown."""


class Comparison:
    """Makes comparisons."""

    def __init__(
        self, calls: Calls, judge: Judge, clean: Text, aside: Callable[..., Any], clock: Callable[[], float] = time.time
    ) -> None:
        self._calls = calls
        self._judge = judge
        self._clean = clean
        self._aside = aside
        self._clock = clock

    def estimate(self, task: Task) -> int:
        """What to set aside, in nano-USD: the target's answer twice as long as the primary's, and a judge for half of
        its pairs twice.
        """
        prompt, completion = self._sizes(task)
        policy = task.drawn.policy
        amount = self._price(policy, task.drawn.target, Usage(prompt, completion, prompt + completion))
        if policy.shadow.judge is not None:
            read = prompt + 2 * completion + JUDGE_TOKENS
            amount += 2 * self._price(policy, policy.shadow.judge, Usage(read, REPLY_TOKENS, read + REPLY_TOKENS))
        return amount

    def make(self, task: Task) -> Found:
        """Calls the target and compares; what is not known to be spent counts as was set aside for it."""
        drawn = task.drawn
        try:
            heard = self._calls.ask(drawn.target, drawn.request, drawn.policy, drawn.allowance)
        except NotMade as reason:
            return Found(None, 0, str(reason))
        usage, cost = self._cost(drawn.target, heard)
        spent = self._spent(task, heard, cost)
        if heard.is_too_large:
            return Found(None, spent, "too_large")
        stream = drawn.request.stream
        primary = self._calls.spoken(task.answer, stream=stream) if task.error is None else None
        target = self._calls.spoken(heard.raw, stream=stream) if heard.error is None else None
        judged = self._opinion(task, primary, target)
        alike = None if primary is None or target is None else self._aside(lambda: similarity(primary, target))
        spent += judged.set_aside if judged.nanousd is None else judged.nanousd
        reply = ShadowReply(
            request_id=task.record.request_id,
            created_at=_utc(self._clock()),
            role=drawn.role,
            function_name=task.record.function_name,
            stream=stream,
            prompt=self._kept(drawn, _last_text(drawn.request)),
            primary=replace(self._primary(task), answer=self._kept(drawn, primary)),
            target=Side(
                model=drawn.target.model,
                endpoint=drawn.target.id,
                answer=self._kept(drawn, target),
                latency_ms=round(heard.latency_ms, 3),
                ttft_ms=None if heard.ttft_ms is None else round(heard.ttft_ms, 3),
                prompt_tokens=usage.prompt_tokens if usage else None,
                completion_tokens=usage.completion_tokens if usage else None,
                nanousd=cost,
                error=None if heard.error is None else self._clean(heard.error),
            ),
            similarity=alike,
            opinion=judged.opinion,
            opinion_by=judged.by,
            orders=judged.orders,
            reason=self._kept(drawn, judged.reason),
            judge_error=judged.error,
            judge_nanousd=judged.nanousd,
        )
        return Found(reply, spent)

    # -- what it costs ------------------------------------------------------------------------------------

    def _cost(self, endpoint: Endpoint, heard: Heard) -> tuple[Usage | None, int | None]:
        usage = self._calls.usage(heard.usage)
        return usage, None if usage is None else self._calls.cost_nanousd(endpoint, usage)

    def _spent(self, task: Task, heard: Heard, cost: int | None) -> int:
        if cost is not None or not heard.is_billed:
            return cost or 0
        return self._assumed(task.drawn.policy, task.drawn.target, heard, *self._sizes(task))

    def _assumed(self, policy: Policy, endpoint: Endpoint, heard: Heard, prompt: int, completion: int) -> int:
        """What a call counts whose cost is not told: what was set aside for it, or what has come if that is more."""
        completion = max(completion, heard.text_bytes // BYTES_PER_TOKEN)
        return self._price(policy, endpoint, Usage(prompt, completion, prompt + completion))

    def _sizes(self, task: Task) -> tuple[int, int]:
        record = task.record
        prompt = record.prompt_tokens or len(task.drawn.request.raw) // BYTES_PER_TOKEN
        return prompt, max(FEWEST_TOKENS, 2 * (record.completion_tokens or 0))

    def _price(self, policy: Policy, endpoint: Endpoint, usage: Usage) -> int:
        cost = self._calls.cost_nanousd(endpoint, usage)
        return policy.budgets.unpriced_reserve_nanousd if cost is None else cost

    # -- which is better ----------------------------------------------------------------------------------

    def _opinion(self, task: Task, primary: Spoken | None, target: Spoken | None) -> Judged:
        if primary is None or target is None:
            if primary is None and target is None:
                return Judged()
            return Judged("better" if primary is None else "worse", "error")
        if self._aside(lambda: is_same(primary, target)):
            return Judged("tie", "equal")
        endpoint = task.drawn.policy.shadow.judge
        if endpoint is None:
            return Judged()
        if not task.drawn.allowance.permits(endpoint):
            return Judged(error="residency does not let the judge see this request")
        return self._judged(task.drawn, endpoint, as_text(primary), as_text(target))

    def _judged(self, drawn: Drawn, endpoint: Endpoint, primary: str, target: str) -> Judged:
        known, unknown = [], []

        def ask(prompt: str) -> str:
            request = _question(endpoint, prompt)
            try:
                heard = self._calls.ask(endpoint, request, drawn.policy, drawn.allowance)
            except NotMade as reason:
                raise NoVerdict(f"the judge was not asked: {reason}") from None
            _, cost = self._cost(endpoint, heard)
            if cost is not None:
                known.append(cost)
            elif heard.is_billed:
                read = len(prompt.encode("utf-8", "replace")) // BYTES_PER_TOKEN
                unknown.append(self._assumed(drawn.policy, endpoint, heard, read, REPLY_TOKENS))
            if heard.error is not None:
                raise NoVerdict(f"the judge gave no answer: {self._clean(heard.error)}")
            return self._calls.spoken(heard.raw, stream=False).text

        orders = self._judge.orders()
        judged = Judged(orders=",".join(orders))
        try:
            said = self._judge.judge(ask, _told(drawn.request), primary, target, orders)
            judged = replace(judged, opinion=said.opinion, by="judge", reason=said.reason)
        except NoVerdict as reason:
            judged = replace(judged, error=str(reason))
        return replace(judged, nanousd=None if unknown else sum(known), set_aside=sum(known) + sum(unknown))

    # -- what is kept -------------------------------------------------------------------------------------

    def _kept(self, drawn: Drawn, said: Spoken | str | None) -> str | None:
        store = drawn.policy.logging.store_prompts
        if said is None or store == "none" or not drawn.allowance.stores_text:
            return None
        most = FULL_CHARS if store == "full" else PREVIEW_CHARS
        text = said if isinstance(said, str) else as_text(said)
        return self._clean(text[:most])

    def _primary(self, task: Task) -> Side:
        endpoint, record, error = task.drawn.primary, task.record, task.error
        if error is not None:  # the row's figures are of whoever answered in its place
            return Side(endpoint.model, endpoint.id, error=self._clean(error))
        return Side(
            model=endpoint.model,
            endpoint=endpoint.id,
            latency_ms=_latency_ms(task),
            ttft_ms=task.call_ms if task.drawn.request.stream else None,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
            nanousd=_nanousd(record.estimated_cost_usd),
        )


def _latency_ms(task: Task) -> float | None:
    """Of the call that gave the answer, without Hermes's own share, as the target is measured: what a stream took after
    its first content is added.
    """
    record = task.record
    if task.call_ms is None or not task.drawn.request.stream:
        return task.call_ms
    if record.duration_ms is None or record.ttft_ms is None:
        return None
    return round(task.call_ms + max(0.0, record.duration_ms - record.ttft_ms), 3)


def _nanousd(usd: str | None) -> int | None:
    return None if usd is None else int(Decimal(usd) * 10**9)


def _question(endpoint: Endpoint, prompt: str) -> ChatRequest:
    text = prompt.encode("utf-8", "replace").decode()  # halves of surrogate pairs are no UTF-8
    body: Mapping[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": REPLY_TOKENS,
    }
    return ChatRequest.parse(orjson.dumps(body))


def _told(request: ChatRequest) -> str:
    """The conversation as a judge reads it, its end if it is long, and the form that was asked for."""
    lines: list[str] = []
    size = 0
    for message in reversed(request.messages):
        line = f"{message.get('role', '')}: {_text(message.get('content'))}"
        lines.append(line)
        size += len(line)
        if size > REQUEST_CHARS:
            break
    wanted = request.body.get("response_format")
    given = request.body.get("tools") or ()
    tools = [_name(tool) for tool in islice(given, SHOWN_CHARS) if isinstance(tool, Mapping)]
    if wanted is not None:
        lines.insert(0, f"(The answer must have the form {_beginning(wanted)}.)")
    if tools:
        lines.insert(0, f"(These tools may be called: {', '.join(tools)[:SHOWN_CHARS]}.)")
    return "\n".join(reversed(lines))


def _beginning(value: Any) -> str:
    """How a value begins as JSON; what comes after that costs nothing."""
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        text += piece
        if len(text) > SHOWN_CHARS:
            break
    return text[:SHOWN_CHARS]


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: Sequence[Any] = content if isinstance(content, list) else ()
    return " ".join(str(part.get("text") or f"[{part.get('type')}]") for part in parts if isinstance(part, Mapping))


def _last_text(request: ChatRequest) -> str:
    users = (_text(m.get("content")) for m in reversed(request.messages) if m.get("role") == "user")
    return next(users, "")


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
