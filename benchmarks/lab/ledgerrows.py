"""Fills a usage log with rows as a busy quarter leaves them: 90 days, 500 users, 25 functions, 6 models, failures."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from tests.postgres_server import HOW_TO_GET_POSTGRES, PostgresServer, postgres_programs

DAYS, USERS, FUNCTIONS, KEYS = 90, 500, 25, 12
MODELS = {
    "simple": ("deepseek-v4-flash", "qwen-turbo", "mistral-small"),
    "complex": ("glm-5.1", "gpt-large", "sonnet"),
}
COLUMNS = (
    "created_at", "request_id", "function_name", "use_case", "user_id", "key_id", "session_key", "route", "role",
    "tier", "model", "endpoint", "decision", "confidence", "stream", "prompt_tokens", "completion_tokens",
    "total_tokens", "cached_tokens", "reasoning_tokens", "usage_estimated", "estimated_cost_usd", "duration_ms",
    "ttft_ms", "overhead_ms", "status", "fallback_level", "attempts", "error_message", "prompt_preview", "details",
)  # fmt: skip
PREVIEW = (
    "Please look at the retry loop of the worker; after the broker restarts we see duplicate jobs and a stale lock"
)


def rows(number: int, end: datetime | None = None, seed: int = 1) -> Iterator[tuple[Any, ...]]:
    """So many rows, the oldest first, evenly over the days before `end` (now). A row in a hundred fails."""
    rng = random.Random(seed)
    end = end or datetime.now(UTC)
    begin, step = end - timedelta(days=DAYS), timedelta(days=DAYS) / number
    for position in range(number):
        at = (begin + position * step).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        user = int(USERS * rng.random() ** 2)  # some ask far more than others
        tier = "simple" if rng.random() < 0.72 else "complex"
        model = rng.choice(MODELS[tier])
        chance = rng.random()
        status = (
            "error" if chance < 0.006 else "refused" if chance < 0.009 else "interrupted" if chance < 0.01 else "ok"
        )
        tokens = int(rng.lognormvariate(6.5, 1)) if status in ("ok", "interrupted") else None
        answered = None if tokens is None else int(rng.lognormvariate(5, 1))
        yield (
            at, f"req_{seed}_{position:09d}", f"function-{int(FUNCTIONS * rng.random() ** 2)}", None, f"user-{user}",
            f"key_{user % KEYS}", f"{rng.getrandbits(128):032x}", "/v1/chat/completions", None, tier, model,
            f"{model}@provider", rng.choice(("session", "surrogate", "surrogate", "override", "teacher")),
            rng.random(), rng.random() < 0.6, tokens, answered, None if tokens is None else tokens + (answered or 0),
            0, 0, False, None if tokens is None else f"{tokens * 7e-7 + (answered or 0) * 3e-6:.9f}",
            rng.lognormvariate(7.2, 0.9), rng.lognormvariate(6, 0.7), rng.lognormvariate(0.4, 0.5), status,
            1 if rng.random() < 0.025 else 0, 1, "the provider answered 503" if status == "error" else None, PREVIEW,
            "{}",
        )  # fmt: skip


def fill_sqlite(path: Path, number: int) -> None:
    """Fills a file that has its tables; indexes are made when the rows are in. The sums are left to the server."""
    with sqlite3.connect(path, isolation_level=None) as database:
        database.execute("PRAGMA synchronous = off")
        indexes = database.execute(
            "SELECT name, sql FROM sqlite_master"
            " WHERE type = 'index' AND tbl_name = 'ai_usage_logs' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indexes:
            database.execute(f"DROP INDEX {name}")
        database.execute("BEGIN")
        marks = ", ".join("?" * len(COLUMNS))
        database.executemany(f"INSERT INTO ai_usage_logs ({', '.join(COLUMNS)}) VALUES ({marks})", rows(number))
        database.execute("COMMIT")
        for _, sql in indexes:
            database.execute(sql)
        database.execute(UNSUMMED)
        database.execute("PRAGMA optimize")
    database.close()


def fill_postgres(url: str, number: int) -> None:
    """The same by COPY."""
    with psycopg.connect(url, autocommit=True) as database:
        indexes = database.execute(
            "SELECT indexname, indexdef FROM pg_indexes"
            " WHERE tablename = 'ai_usage_logs' AND indexdef NOT LIKE 'CREATE UNIQUE%'"
        ).fetchall()
        for name, _ in indexes:
            database.execute(f"DROP INDEX {name}")
        with database.cursor().copy(f"COPY ai_usage_logs ({', '.join(COLUMNS)}) FROM STDIN") as copy:
            for row in rows(number):
                copy.write_row(row)
        for _, definition in indexes:
            database.execute(definition)
        database.execute(UNSUMMED)
        database.execute("VACUUM ANALYZE ai_usage_logs")


UNSUMMED = "UPDATE usage_backfill SET done_id = 0, until_id = (SELECT MAX(id) FROM ai_usage_logs)"
"""All rows are from before an upgrade: the server adds them up."""


@contextmanager
def a_database(kind: str) -> Iterator[str | None]:
    """An empty database, `sqlite` or `postgres`; None: there is no Postgres here."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="bench-reports-") as folder:
            yield f"sqlite:///{folder}/hermes.db"
        return
    if postgres_programs() is None:
        print(HOW_TO_GET_POSTGRES, flush=True)
        yield None
    else:
        with PostgresServer() as server:
            yield server.url
