"""The organisation's deployed client, word for word: it is answered, and its usage row is right in every field.

What a row must say is computed here from what the provider stub has itself counted, never from what Hermes tells.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest

from . import replies
from .client import Answer
from .gateway import new_user
from .provider import Call
from .replies import Reply
from .world import World

DEADLINE_S = 45
"""What the deployed client allows; it sends the deadline along and hangs up by itself then."""

PAUSE_S = 0.05
TEXT = ("Good ", "day, ", "Zoë")
PRICES = {
    "cheap-model": {"input_per_mtok": 0.137, "output_per_mtok": 0.911, "cached_input_per_mtok": 0.0213},
    "spare-model": {"input_per_mtok": 0.2, "output_per_mtok": 0.7},
    "dear-model": {"input_per_mtok": 2.51, "output_per_mtok": 10.03},
}
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]
SNAKE = {"function_name": "ai-assistant", "use_case": "chat", "user_id": ""}
CAMEL = {"functionName": "ai-valuation-analysis", "useCase": "valuation", "userId": ""}


@dataclass
class Counting:
    """A provider that counts what it has answered, with other figures each time."""

    told: list[dict[str, Any]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(20260510))

    def __call__(self, call: Call) -> Reply:
        """The answer to a call, plain or streamed as it asks."""
        prompt, completion = self.chance.randrange(50, 5000), self.chance.randrange(20, 3000)
        cached, reasoning = self.chance.randrange(prompt), self.chance.randrange(completion)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
        self.told.append(usage)
        if call.json.get("stream"):
            return replies.stream(*TEXT, every_s=PAUSE_S / 2, usage=usage)
        return replies.chat("".join(TEXT), usage=usage, after_s=PAUSE_S)


@dataclass(frozen=True)
class Shop:
    """A world with the deployed prices, the client's key, and the counting providers."""

    world: World
    key_id: str
    key: str

    def count(self) -> Counting:
        """All providers count from now on, together."""
        counting = Counting()
        for provider in self.world.providers:
            provider.script(counting)
        return counting

    def call(self, body: dict[str, Any], *, prefix: str = "", stream: bool = False) -> Answer:
        """As the client calls: its service key, its deadline, JSON."""
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "X-Request-Timeout": str(DEADLINE_S),
        }
        path = f"{prefix}/v1/completions{'/stream' if stream else ''}"
        sent = json.dumps(body, ensure_ascii=False).encode()
        return self.world.gateway.request("POST", path, headers, sent, DEADLINE_S)


@pytest.fixture(scope="module")
def running_shop(running_world: World) -> Shop:
    made = running_world.gateway.admin("POST", "/admin/keys", {"name": "edge", "scopes": ["gateway"]}).json
    return Shop(running_world, made["id"], made["key"])


@pytest.fixture
def shop(running_shop: Shop, world: World) -> Shop:
    def endpoint(provider: Any, model: str) -> dict[str, Any]:
        return world.endpoint(provider, model=model, price=PRICES[model], timeout_seconds=5)

    simple = [endpoint(world.primary, "cheap-model"), endpoint(world.fallback, "spare-model")]
    world.configure(simple=simple, complex=[endpoint(world.lone, "dear-model")])
    return running_shop


def body_of(metadata: dict[str, Any], user: str, **more: Any) -> dict[str, Any]:
    spelt = "userId" if "userId" in metadata else "user_id"
    messages = [{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": "What is it worth?"}]
    return {"messages": messages, "metadata": {**metadata, spelt: user}, **more}


def cost_usd(model: str, usage: dict[str, Any]) -> Decimal:
    """What the answer costs, to the nano-dollar, rounded up."""
    price = {name: Decimal(str(value)) for name, value in PRICES[model].items()}
    cached = usage["prompt_tokens_details"]["cached_tokens"] if "cached_input_per_mtok" in price else 0
    per_million = (
        (usage["prompt_tokens"] - cached) * price["input_per_mtok"]
        + cached * price.get("cached_input_per_mtok", Decimal(0))
        + usage["completion_tokens"] * price["output_per_mtok"]
    )
    return (per_million / 10**6).quantize(Decimal("1e-9"), ROUND_CEILING)


def check_row(shop: Shop, answer: Answer, usage: dict[str, Any], asked_at: float, **wanted: Any) -> None:
    """Every column of the answer's row, by its name; what is not looked at does not exist."""
    row = shop.world.gateway.row(answer)
    stream, metadata = wanted.pop("stream"), wanted.pop("metadata")
    model = wanted["model"]
    endpoints = {c["model"]: c["endpoint"] for c in shop.world.gateway.admin("GET", "/circuits").json["circuits"]}
    cost = Decimal(str(row.pop("estimated_cost_usd")))
    duration_ms, overhead_ms, ttft_ms = (row.pop(name) for name in ("duration_ms", "overhead_ms", "ttft_ms"))
    created_at = datetime.fromisoformat(row.pop("created_at"))

    assert row.pop("id") > 0
    assert row == {
        "request_id": answer.request_id,
        "function_name": metadata.get("functionName") or metadata.get("function_name"),
        "use_case": metadata.get("useCase") or metadata.get("use_case"),
        "key_id": shop.key_id,
        "session_key": None,
        "route": f"/v1/completions{'/stream' if stream else ''}",
        "endpoint": endpoints[model],
        "decision": "role",
        "confidence": None,
        "stream": stream,
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "total_tokens": usage["total_tokens"],
        "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"],
        "usage_estimated": False,
        "status": "ok",
        "error_message": None,
        "prompt_preview": "What is it worth?",
        **wanted,
    }
    assert cost == cost_usd(model, usage)
    assert datetime.fromtimestamp(asked_at - 0.001, UTC) <= created_at <= datetime.now(UTC)
    assert PAUSE_S * 1000 <= duration_ms <= answer.took_s * 1000
    assert 0 <= overhead_ms < duration_ms - PAUSE_S * 1000 + 1
    assert (ttft_ms is not None) == stream
    assert not stream or 0 < ttft_ms <= duration_ms - PAUSE_S / 2 * 1000 + 1, "the second text comes later"


def check_answer(answer: Answer, *, stream: bool) -> None:
    assert (answer.status, answer.problem, answer.text) == (200, None, "".join(TEXT))
    assert answer.is_stream == stream
    if stream:
        assert answer.done_count == 1
        assert answer.events[-1].text == "[DONE]"
    else:
        assert {"prompt_tokens", "completion_tokens", "total_tokens"} <= answer.json["usage"].keys()
        assert answer.json["model"] == "said-by-provider"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("prefix", ["", "/api"], ids=["bare", "behind /api"])
@pytest.mark.parametrize("metadata", [SNAKE, CAMEL], ids=["snake_case", "camelCase"])
def test_the_deployed_client_is_answered_and_accounted(
    shop: Shop, metadata: dict[str, Any], prefix: str, stream: bool
) -> None:
    counting, user, asked_at = shop.count(), new_user(), time.time()

    answer = shop.call(body_of(metadata, user, response_format="json_object"), prefix=prefix, stream=stream)

    check_answer(answer, stream=stream)
    (call,) = shop.world.primary.calls
    assert call.json["response_format"] == {"type": "json_object"}
    assert call.json["model"] == "cheap-model"
    assert not {"metadata", "role", "context_hint"} & call.json.keys()
    wanted = {"model": "cheap-model", "tier": "simple", "role": "chat", "attempts": 1, "fallback_level": 0}
    check_row(shop, answer, counting.told[0], asked_at, stream=stream, metadata=metadata, user_id=user, **wanted)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_tool_calling_function_that_reasons(shop: Shop, stream: bool) -> None:
    counting, user, asked_at = shop.count(), new_user(), time.time()
    more = {"role": "reasoning", "tools": TOOLS, "tool_choice": "auto", "temperature": 0.2, "max_tokens": 4000}

    answer = shop.call(body_of(CAMEL, user, **more), stream=stream)

    check_answer(answer, stream=stream)
    (call,) = shop.world.lone.calls
    sent = {name: call.json.get(name) for name in ("tools", "tool_choice", "temperature", "max_tokens")}
    assert sent == {"tools": TOOLS, "tool_choice": "auto", "temperature": 0.2, "max_tokens": 4000}
    wanted = {"model": "dear-model", "tier": "complex", "role": "reasoning", "attempts": 1, "fallback_level": 0}
    check_row(shop, answer, counting.told[0], asked_at, stream=stream, metadata=CAMEL, user_id=user, **wanted)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_answer_of_the_fallback_is_accounted_at_the_fallbacks_price(shop: Shop, stream: bool) -> None:
    counting, user, asked_at = shop.count(), new_user(), time.time()
    shop.world.primary.script(replies.error(500))

    answer = shop.call(body_of(SNAKE, user), stream=stream)

    check_answer(answer, stream=stream)
    assert len(shop.world.primary.calls) == len(shop.world.fallback.calls) == 1
    wanted = {"model": "spare-model", "tier": "simple", "role": "chat", "attempts": 2, "fallback_level": 1}
    check_row(shop, answer, counting.told[0], asked_at, stream=stream, metadata=SNAKE, user_id=user, **wanted)


def test_the_clients_day_adds_up(shop: Shop) -> None:
    """The sum of what the provider has counted is the sum of the log, in tokens and to the nano-dollar."""
    counting, user = shop.count(), new_user()
    for number in range(20):
        assert shop.call(body_of(CAMEL, user), stream=number % 2 == 1).status == 200

    rows = shop.world.gateway.usage(20, user_id=user)

    assert sum(row["total_tokens"] for row in rows) == sum(usage["total_tokens"] for usage in counting.told)
    logged = sum(Decimal(str(row["estimated_cost_usd"])) for row in rows)
    assert logged == sum(cost_usd("cheap-model", usage) for usage in counting.told)
