"""The pages of the dashboard, as they are looked at by every general test and by `make screenshots`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

import pytest

from hermes.observe.trace import utc_ms
from tests.e2e.gateway import Gateway
from tests.shadow_rows import a_reply, store_beside_server


@dataclass(frozen=True, slots=True)
class Shown:
    """A page."""

    name: str
    path: str
    ready: str
    """A selector of what must be there before it is looked at."""


PAGES = (
    Shown("overview", "/dashboard/", "#latest tr"),
    Shown("budgets", "/dashboard/budgets", "#limits tbody tr"),
    Shown("knowledge", "/dashboard/knowledge?ask=How+long+is+the+notice+period%3F", "#hits li"),
    Shown("knowledge-form", "/dashboard/knowledge?new=1&open=1", "#knowledge-form"),
    Shown("circuits", "/dashboard/circuits", "#circuits tbody tr"),
    Shown("sessions", "/dashboard/sessions", "#sessions"),
    Shown("residency", "/dashboard/residency", "#residency .empty"),
    Shown("shadow", "/dashboard/shadow", "#shadow .gate li"),
    Shown("traces", "/dashboard/traces", "#events tr"),
    Shown("classifier", "/classifier/report", "#classifier"),
    Shown("settings", "/dashboard/settings", "#settings .pin"),
    Shown("settings-forms", "/dashboard/settings?new=key&edit=model.chat", "#key-form"),
    Shown("config", "/dashboard/config", "#config pre"),
    Shown("config-table", "/dashboard/config?view=table", "#config table"),
    Shown("stop", "/dashboard/settings/stop", "main form"),
    Shown("usage", "/dashboard/usage", "#rows tr.hit"),
    Shown("confirm", "/dashboard/sessions/evict-all", "main form"),
    Shown("nowhere", "/dashboard/nowhere", ".empty"),
)

EVERY = [pytest.param(page, id=page.name) for page in PAGES]

seeds = count(1)
HOSTILE = "<img src=x onerror=alert(document.domain)>"
TEXTS = (
    "hello there",
    "please debug my server script, it crashes with a segfault",
    "what is 2+2",
    "translate to german: good morning",
    HOSTILE,
)


BUDGETS = (
    {"scope": "global", "period": "day", "limit_usd": 0.5, "action": "warn"},
    {"scope": "global", "period": "month", "limit_usd": 12},
    {"scope": "user", "id": "user1@example.eu", "period": "day", "limit_requests": 9},
    {"scope": "user", "id": "*", "period": "month", "limit_tokens": 90_000, "action": "downgrade"},
    {"scope": "function", "id": HOSTILE, "period": "week", "limit_usd": 3, "action": "warn"},
)


DOCUMENTS = (
    ("hr", "Travel policy 2026.md", "# Hotels\n\nHotels are paid up to 140 euros a night.\n\n# Trains\n\nFirst class."),
    (
        "legal",
        "Supplier contracts Q4.md",
        (
            "# Ending\n\nEither party may end the framework agreement with a notice period of three months to the end "
            "of a quarter. Orders already placed stay valid.\n\n# Call-off\n\nFor call-off contracts the notice period "
            "is six weeks unless the annex says otherwise."
        ),
    ),
    ("finance", "Expense handbook.md", f"Recurring services must be cancelled in time. {HOSTILE}"),
)


def seed_shadow(gateway: Gateway) -> None:
    """A target for chat, demo-large against demo-small, with 60 rows: 20 better, 39 ties, 1 worse."""
    gateway.admin("PUT", "/admin/pins/model.chat.target", {"value": "demo-large"})
    gateway.admin("PUT", "/admin/pins/model.chat.target.sample_rate", {"value": "0.05"})
    number = next(seeds)
    replies = [
        a_reply(
            n, "better" if n < 20 else "worse" if n == 30 else "tie", primary="demo-small", target="demo-large",
            prefix=f"w{number}-", created_at=utc_ms(time.time()),
        )
        for n in range(60)
    ]  # fmt: skip
    store_beside_server(f"sqlite:///{gateway.folder / 'hermes.db'}", replies)


def send_traffic(gateway: Gateway, rounds: int = 20) -> None:
    """A little of everything: both tiers, several users, refusals, failures until a circuit opens."""
    for number in range(rounds):
        text, user = TEXTS[number % len(TEXTS)], f"user{number % 6}@example.eu"
        for _ in range(1 + number % 3):
            gateway.chat(text, tier=None, user=user, headers={"X-Hermes-Session": f"talk-{number}"})
    gateway.chat("hello", tier=None, user=HOSTILE)
    for _ in range(4):
        gateway.chat("demo:503 hello", tier="simple")
    gateway.chat("please debug it, demo:429", tier="complex")
    seed_shadow(gateway)
    for budget in BUDGETS:
        assert gateway.admin("PUT", "/admin/budgets", budget).status == 200
    for use_case, source, text in DOCUMENTS:
        document = {"use_case": use_case, "source": source, "text": text}
        assert gateway.admin("POST", "/admin/knowledge", document).status == 201
