"""What is set aside for a request is what it may cost: however it is written, many at once do not spend a budget that
is there for one of them.

In each case one request costs as much as its estimate should be, and the budget holds less: one is let in. All ask
before the first is answered.
"""

from __future__ import annotations

import base64
import itertools
import string
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest

from . import replies
from .client import Answer
from .gateway import new_user
from .replies import Reply
from .world import World

CROWD = 20
HELD_S = 1.5
"""What the provider takes: until all have asked, on a busy machine too."""

PRICE = {"input_per_mtok": 100.0, "output_per_mtok": 1000.0}
CHEAP = {"input_per_mtok": 0.1, "output_per_mtok": 0.1}
TOOL = {"type": "function", "function": {"name": "f", "description": "word " * 2000, "parameters": {"type": "object"}}}
ODD = [
    {"role": "user" if number % 2 == 0 else "assistant", "content": "a" if number % 2 == 0 else "word " * 300}
    for number in range(600)
]
NOISE = base64.b64encode(b"".join(sha256(str(number).encode()).digest() for number in range(3000))).decode()
BYTES = NOISE.encode()
DENSE = {
    "base64": (NOISE[:100_000], 72_000),
    "letters": ("".join(chr(97 + one % 26) for one in BYTES[:100_000]), 54_000),
    "numbers": (", ".join(str(one * 7 % 100) for one in BYTES[:25_000]), 75_000),
    "signs": ("".join(string.punctuation[one % 32] for one in BYTES[:100_000]), 66_000),
    "emoji": ("".join(chr(0x1F300 + one * 5 % 256) for one in BYTES[:30_000]), 85_000),
    "Chinese": ("".join(chr(0x4E00 + one * other) for one, other in itertools.pairwise(BYTES[:30_000])), 66_000),
}
"""Texts, and how many tokens common models make of them: two to four times as many as of prose of their length."""

PICTURE = {"type": "image_url", "image_url": {"url": "https://pictures.example/large.jpg", "detail": "high"}}
CHAT = "/v1/chat/completions"
CONTRACT = "/v1/completions"


def answered(prompt: int, completion: int) -> Reply:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return replies.chat(usage=usage, after_s=HELD_S)


def ask_at_once(world: World, user: str, body: dict[str, Any], path: str = CHAT) -> list[Answer]:
    headers = {"X-Hermes-User": user, "X-Hermes-Tier": "simple"}
    if path == CONTRACT:
        key = world.gateway.admin("POST", "/admin/keys", {"name": user, "scopes": ["gateway"]}).json["key"]
        headers["Authorization"] = f"Bearer {key}"
    sent = {"model": "auto", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **body}
    with ThreadPoolExecutor(CROWD) as pool:
        asked = [pool.submit(world.gateway.request, "POST", path, headers, sent, 60.0) for _ in range(CROWD)]
        return [one.result() for one in asked]


def put_budget(world: World, user: str, limit_usd: float) -> None:
    budget = {"scope": "user", "id": user, "period": "month", "limit_usd": limit_usd}
    assert world.gateway.admin("PUT", "/admin/budgets", budget).status == 200


def spent_usd(world: World, user: str) -> Decimal:
    rows = world.gateway.usage(CROWD, user_id=user, limit=1000)
    return sum((Decimal(str(row["estimated_cost_usd"] or 0)) for row in rows), Decimal(0))


@pytest.mark.parametrize(
    ("body", "prompt", "completion"),
    [
        pytest.param({"tools": [TOOL] * 40}, 100_000, 100, id="tools"),
        pytest.param({"functions": [TOOL["function"]] * 40}, 100_000, 100, id="functions"),
        pytest.param(
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"x": [TOOL] * 40}}}},
            100_000, 100, id="a schema",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": {"a": "word " * 80_000}}}]}]},
            100_000, 100, id="arguments",
        ),
        pytest.param({"messages": [*ODD, {"role": "user", "content": "hi"}]}, 115_000, 100, id="every second message"),
        *[
            pytest.param({"messages": [{"role": "user", "content": text}]}, tokens, 100, id=kind)
            for kind, (text, tokens) in DENSE.items()
        ],
        pytest.param({"tools": [{"type": "function", "function": {"name": NOISE[:60_000]}}]}, 42_000, 100, id="a name"),
        pytest.param({"messages": [{"role": "user", "content": [PICTURE] * 20}]}, 90_000, 100, id="pictures"),
        pytest.param({"max_tokens": 20_000.0}, 10, 20_000, id="a length as a float"),
        pytest.param({"max_tokens": "20000"}, 10, 20_000, id="a length as a text"),
        pytest.param({"max_tokens": " +20_000.0"}, 10, 20_000, id="a length as a text that pydantic reads"),
        pytest.param({"max_tokens": "0x4E20"}, 10, 20_000, id="a length as a text that JavaScript and Go read"),
        pytest.param({"max_tokens": 200, "n": ["1e2"]}, 10, 20_000, id="a hundred choices as a text in a list"),
        pytest.param({"max_tokens": 20_000, "max_completion_tokens": 1}, 10, 20_000, id="two lengths"),
        pytest.param({"max_tokens": 200, "best_of": 100}, 10, 20_000, id="the best of a hundred"),
    ],
)  # fmt: skip
def test_a_crowd_does_not_spend_what_one_may(world: World, body: dict[str, Any], prompt: int, completion: int) -> None:
    world.configure(simple=[world.endpoint(world.primary, price=PRICE, timeout_seconds=30)])
    cost_usd = Decimal(prompt * 100 + completion * 1000) / 10**6
    user = new_user()
    put_budget(world, user, float(cost_usd) / 2)
    world.primary.script(answered(prompt, completion))

    answers = ask_at_once(world, user, body)

    assert Counter(answer.status for answer in answers) == {200: 1, 429: CROWD - 1}
    assert spent_usd(world, user) == cost_usd


@pytest.mark.parametrize(
    ("path", "more"),
    [
        pytest.param(CHAT, {}, id="router"),
        pytest.param(CONTRACT, {"metadata": {"function_name": "f"}}, id="contract"),
    ],
)
def test_a_dear_fallback_counts_before_it_is_needed(world: World, path: str, more: dict[str, Any]) -> None:
    """The primary is cheap and down."""
    simple = [
        world.endpoint(world.primary, price=CHEAP),
        world.endpoint(world.fallback, price=PRICE, timeout_seconds=30),
    ]
    world.configure(
        simple=simple, complex=[world.endpoint(world.lone, price=CHEAP)], gateway={"roles": {"chat": "simple"}}
    )
    user = new_user()
    put_budget(world, user, 0.05)
    world.primary.script(replies.error(500))
    world.fallback.script(answered(1000, 100))

    answers = ask_at_once(world, user, more, path)

    served = [answer for answer in answers if answer.status == 200]
    assert Counter(answer.status for answer in answers) == {200: 1, 429: CROWD - 1}, answers[0].body
    assert len(served) == len(world.fallback.calls)


def test_an_honest_crowd_is_let_in(world: World) -> None:
    """What is set aside for usual requests, with tools and in Arabic, is near what they cost: nobody is refused."""
    world.configure(simple=[world.endpoint(world.primary, price=PRICE, timeout_seconds=30)])
    user = new_user()
    tool = {"type": "function", "function": {"name": "find", "description": "Finds a place by its name."}}
    body = {"messages": [{"role": "user", "content": "ما هي عاصمة الأردن؟ " * 40}], "tools": [tool], "max_tokens": 20}
    prompt, completion = 400, 20
    cost_usd = (prompt * 100 + completion * 1000) / 10**6
    put_budget(world, user, 1.5 * cost_usd * CROWD)
    world.primary.script(answered(prompt, completion))

    answers = ask_at_once(world, user, body)

    assert Counter(answer.status for answer in answers) == {200: CROWD}
