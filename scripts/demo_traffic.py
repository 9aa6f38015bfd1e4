"""Plain, lifelike traffic for pictures: two weeks of an organisation's days that are past, and a few minutes of now.

What is past is written into the spool as a process would have left it that has ended; the server moves it into its log
at the start, sums and all. What is now are real requests to the demo provider.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermes.accounting.spool import Spool
from hermes.storage.usage_filter import utc_text
from hermes.types import UsageRecord
from tests.e2e.gateway import Gateway, eventually

DAYS = 14
MOVED_LIMIT_S = 60.0
BY_HOUR = (3, 3, 2, 2, 3, 6, 12, 30, 55, 70, 78, 80, 66, 70, 80, 76, 64, 50, 34, 24, 18, 12, 9, 6)
"""Requests of each hour of an office's day."""

NOW_IS = 11
"""What hour of that day it is now, whenever the pictures are taken: the busiest."""

PEOPLE = ("anna", "ben", "chiara", "david", "emma", "farid", "grace", "hugo")
FUNCTIONS = ("ai-assistant", "suggest-price", "classify-document", "whatsapp-summarize", "ai-valuation-report")
PRICES = {"demo-small": (0.15, 0.6), "demo-small-b": (0.2, 0.8), "demo-large": (2.5, 10.0), "demo-large-b": (3.0, 15.0)}
"""US dollars a million tokens, in and out: the demo provider's."""

SIMPLE = (
    "What is the capital of Portugal?",
    "Translate to German: see you on Monday",
    "Shorten this to one sentence: the meeting moves to Thursday at ten",
    "Which number comes after 41?",
    "Give me three names for a cat",
)
COMPLEX = (
    "Please debug my server script, it crashes under load",
    "Refactor this function so that it reads in one pass",
    "Explain why my SQL query does a full scan and optimize it",
    "Design a migration of our orders table without downtime",
)
BUDGETS = (
    {"scope": "global", "period": "day", "limit_usd": 1.2, "action": "warn"},
    {"scope": "global", "period": "month", "limit_usd": 30},
    {"scope": "function", "id": "ai-valuation-report", "period": "week", "limit_usd": 2.5, "action": "downgrade"},
    {"scope": "user", "id": "*", "period": "month", "limit_tokens": 900_000, "action": "downgrade"},
)


def leave_the_past(folder: Path, now: datetime | None = None) -> int:
    """Fills the spool of a server that has not started yet; how many rows."""
    spool = Spool(folder / "spool")
    records = list(_past(random.Random(7), now or datetime.now(UTC)))  # noqa: S311
    for record in records:
        spool.append(record)
    spool.close()
    return len(records)


def send_the_present(gateway: Gateway, rounds: int = 12) -> str:
    """Real requests, when the past is in the log: conversations of both tiers, functions with a key, budgets, and at
    last one that a fallback answers, whose id is returned.
    """
    eventually(lambda: b"\nhermes_spool_depth 0.0" in gateway.admin("GET", "/metrics").body, bool, MOVED_LIMIT_S)
    key = gateway.admin("POST", "/admin/keys", {"name": "functions", "scopes": ["gateway"]}).json["key"]
    for number in range(rounds):
        texts = COMPLEX if number % 3 == 0 else SIMPLE
        person = f"{PEOPLE[number % len(PEOPLE)]}@example.com"
        gateway.chat(texts[number % len(texts)], tier=None, user=person, headers={"X-Hermes-Session": f"talk-{number}"})
        if number % 2:
            metadata = {"function_name": FUNCTIONS[number % len(FUNCTIONS)], "user_id": person}
            body = {"messages": [{"role": "user", "content": texts[0]}], "metadata": metadata}
            gateway.request("POST", "/v1/completions", {"Authorization": f"Bearer {key}"}, body)
    for budget in BUDGETS:
        gateway.admin("PUT", "/admin/budgets", budget)
    last = gateway.chat("demo:503 which time is it in Lima?", tier=None, user="emma@example.com")
    return last.request_id


def _past(chance: random.Random, now: datetime) -> Iterator[UsageRecord]:
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(days=DAYS)
    number = 0
    while hour < now:
        mean = BY_HOUR[(hour.hour - now.hour + NOW_IS) % 24]
        seconds = sorted(chance.uniform(0, 3600) for _ in range(round(chance.uniform(0.7, 1.3) * mean)))
        for at in (hour + timedelta(seconds=second) for second in seconds):
            if at < now - timedelta(seconds=30):
                number += 1
                yield _row(chance, number, at)
        hour += timedelta(hours=1)


def _row(chance: random.Random, number: int, at: datetime) -> UsageRecord:
    is_function, is_complex = chance.random() < 0.45, chance.random() < 0.28
    fell_back, failed = chance.random() < 0.02, chance.random() < 0.004
    tier = "complex" if is_complex else "simple"
    model = ("demo-large" if is_complex else "demo-small") + ("-b" if fell_back else "")
    prompt = int(chance.lognormvariate(6.6 if is_complex else 5.0, 0.7))
    completion = int(chance.lognormvariate(6.0 if is_complex else 4.2, 0.6))
    cost = (prompt * PRICES[model][0] + completion * PRICES[model][1]) / 1e6
    decision = chance.choices(("surrogate", "session", "override", "teacher"), (52, 30, 14, 4))[0]
    duration = chance.lognormvariate(7.9 if is_complex else 6.6, 0.45)
    return UsageRecord(
        request_id=f"req_past{number:08d}",
        created_at=utc_text(at),
        route="/v1/completions" if is_function else "/v1/chat/completions",
        status="error" if failed else "ok",
        function_name=chance.choice(FUNCTIONS) if is_function else None,
        user_id=f"{chance.choice(PEOPLE)}@example.com",
        session_key=f"past{number // 3:08x}",
        role=("reasoning" if is_complex else "chat") if is_function else None,
        tier=tier,
        model=model,
        endpoint=f"{model}@127.0.0.1/v1",
        decision="role" if is_function else decision,
        confidence=round(chance.uniform(0.87, 0.999), 3) if decision == "surrogate" and not is_function else None,
        stream=chance.random() < 0.5,
        prompt_tokens=prompt,
        completion_tokens=0 if failed else completion,
        total_tokens=prompt + (0 if failed else completion),
        cached_tokens=0,
        reasoning_tokens=0,
        estimated_cost_usd=None if failed else f"{cost:.9f}",
        duration_ms=round(duration, 3),
        ttft_ms=round(duration * 0.3, 3),
        overhead_ms=round(chance.uniform(0.5, 1.6), 3),
        fallback_level=int(fell_back),
        attempts=1 + int(fell_back),
        error_message="no endpoint could answer" if failed else None,
        prompt_preview=chance.choice(COMPLEX if is_complex else SIMPLE),
    )
