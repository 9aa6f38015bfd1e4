"""Rows of shadow runs, made by hand: known latencies and costs, so that whoever reads them can be checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hermes.storage.db import Database
from hermes.storage.shadow import ShadowRepository
from hermes.trials import Opinion, ShadowReply, Side


def a_reply(
    number: int,
    opinion: Opinion | None = "tie",
    *,
    role: str = "chat",
    primary: str = "pin",
    target: str = "candidate",
    latencies_ms: tuple[float, float] | None = None,
    nanousd: tuple[int | None, int | None] = (250_000, 170_000),
    target_error: str | None = None,
    primary_error: str | None = None,
    prefix: str = "s",
    **fields: Any,
) -> ShadowReply:
    """A row; the primary takes 100, 110, 120 … ms and the target 0.8 times as long."""
    ours = 100.0 + 10 * number
    primary_ms, target_ms = latencies_ms or (ours, 0.8 * ours)
    usual: dict[str, Any] = {
        "created_at": f"2026-05-10T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "function_name": "mail.draft",
        "prompt": f"Question {number}?",
        "opinion_by": "error" if target_error or primary_error else "judge",
        "orders": "pt",
        "reason": "Both serve equally.",
        "similarity": 0.75,
    }
    ours_side = Side(primary, f"{primary}@host", f"Answer {number} of the pin", primary_ms, 20.0, 12, 34, nanousd[0])
    theirs = Side(target, f"{target}@host", f"Answer {number} of the target", target_ms, 18.0, 12, 30, nanousd[1])
    if target_error is not None:
        theirs = replace(theirs, answer=None, nanousd=None, error=target_error)
    if primary_error is not None:
        ours_side = replace(ours_side, answer=None, nanousd=None, latency_ms=None, error=primary_error)
    return ShadowReply(
        request_id=f"req_{prefix}{number}", role=role, primary=ours_side, target=theirs, opinion=opinion,
        **{**usual, **fields},
    )  # fmt: skip


def store(database: Database, replies: Iterable[ShadowReply]) -> None:
    """Stores them as a worker does."""
    rows = ShadowRepository(database)
    for reply in replies:
        rows.add(reply)


def store_beside_server(url: str, replies: Iterable[ShadowReply]) -> None:
    """The same in the database of a server that runs."""
    database = Database.open(url)
    try:
        store(database, replies)
    finally:
        database.close()
