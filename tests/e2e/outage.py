"""A gateway of two workers on Redis and Postgres, and what becomes of its callers while one of the two is away.

The tests let a store be away for a few seconds; `benchmarks/outage.py` does the same for as long as one likes.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import psycopg

from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from . import replies
from .client import Answer
from .gateway import eventually
from .load import Load, percentile_s, requests_by_worker
from .world import FILLING_S, World

WORKERS = 2
RECOVERY_LIMIT_S = 20.0
DIRECTORY_S = 1.0
"""When every worker knows a new key."""

BUSY_S = 0.05
"""What the provider takes."""

Store = Literal["Postgres", "Redis"]
Signal = Literal["SIGSTOP", "SIGKILL"]

SAID = {
    "Postgres": ("The database is away", "The database answers again"),
    "Redis": ("The shared state is away", "The shared state is back"),
}
"""What each worker prints when a store goes and when it is back."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One outage."""

    store: Store
    signal: Signal
    seconds: float
    asked: int
    """Requests that began in the outage or until it was over for Hermes too."""

    failed: tuple[str, ...]
    """Every request of the whole time that was not answered with 200, each with what came instead."""

    p99_s: float
    slowest_s: float
    rows_lost: int
    rows_doubled: int
    recovered_after_s: float
    """From the moment at which the store was back, until every worker used it and every answer had its row."""


class Site:
    """The two stores, the providers and the gateway, where every caller needs a key."""

    def __init__(self) -> None:
        self.redis = RedisServer()
        self.postgres = PostgresServer()
        self._counts = Path(tempfile.mkdtemp(prefix="hermes-counts-"))
        env = {
            "PROMETHEUS_MULTIPROC_DIR": str(self._counts),
            "WEB_CONCURRENCY": str(WORKERS),
            "HERMES_STATE_URL": self.redis.url,
            "HERMES_DATABASE_URL": self.postgres.url,
            "HERMES_SECRET": "a secret of the outage tests, long enough",
        }
        self.world = World({"auth": {"require_client_key": True}}, env, attempt_s=FILLING_S)
        self.gateway = self.world.gateway
        try:
            self.key = self.new_key()
        except BaseException:
            self.close()
            raise
        time.sleep(DIRECTORY_S)
        self.world.primary.script(replies.chat(after_s=BUSY_S))

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything that it has begun."""
        self.world.close()
        self.postgres.close()
        self.redis.kill()
        shutil.rmtree(self._counts, ignore_errors=True)

    def new_key(self) -> str:
        """A key that may call everything."""
        wanted = {"name": "kit", "scopes": ["router", "gateway"]}
        # On a machine that is busy enough the database is silent for so long that it is taken for away.
        made = eventually(
            lambda: self.gateway.admin("POST", "/admin/keys", wanted), lambda made: made.status != 503, RECOVERY_LIMIT_S
        )
        assert made.status == 201, made.body
        return str(made.json["key"])

    def ask(self, user: str, key: str | None = None, **fields: Any) -> Answer:
        """One call of the gateway contract."""
        metadata = {"function_name": "outage", "user_id": user}
        body = {"messages": [{"role": "user", "content": "hi"}], "metadata": metadata, **fields}
        return self.gateway.request("POST", "/v1/completions", {"Authorization": f"Bearer {key or self.key}"}, body)

    def served(self) -> dict[str, float]:
        """How many completion requests each worker has taken on."""
        return requests_by_worker(self._counts)

    def said(self, sentence: str) -> int:
        """How often the workers have printed it."""
        return self.gateway.logs().count(sentence)

    def stop(self, store: Store, signal: Signal) -> None:
        """The store is away from now on."""
        server = self.postgres if store == "Postgres" else self.redis
        (server.hang if signal == "SIGSTOP" else server.kill)()

    def bring_back(self, store: Store, signal: Signal) -> None:
        """The store works again when this returns."""
        server = self.postgres if store == "Postgres" else self.redis
        (server.go_on if signal == "SIGSTOP" else server.start)()

    def recover(self) -> None:
        """Both stores work again, whatever was done to them."""
        self.postgres.recover()
        self.redis.recover()

    def rows(self) -> list[str]:
        """The request of every row that is in the database."""
        with psycopg.connect(self.postgres.url) as connection:
            return [name for (name,) in connection.execute("SELECT request_id FROM ai_usage_logs")]

    def outage(self, store: Store, signal: Signal, seconds: float, callers: int = 8) -> Outcome:
        """Lets a store be away under load, for so long; what the callers saw of it."""
        back_again = SAID[store][1]
        came_back = self.said(back_again)
        with Load(self.ask, callers) as load:
            stopped_at = time.monotonic()
            self.stop(store, signal)
            time.sleep(seconds)
            self.bring_back(store, signal)
            back_at = time.monotonic()
            eventually(lambda: self.said(back_again), lambda said: said >= came_back + WORKERS, RECOVERY_LIMIT_S)
            answered = {answer.request_id for answer in list(load.answers)}
            eventually(lambda: answered - set(self.rows()), lambda missing: not missing, RECOVERY_LIMIT_S)
            recovered_at = time.monotonic()
            load.goes_on()
        return self._outcome(store, signal, load, (stopped_at, back_at, recovered_at))

    def _outcome(self, store: Store, signal: Signal, load: Load, moments: tuple[float, float, float]) -> Outcome:
        stopped_at, back_at, recovered_at = moments
        meanwhile = [answer for answer in load.since(stopped_at) if answer.started_at < recovered_at]
        refused = [f"{answer.status} {answer.body[:200]!r}" for answer in load.answers if answer.status != 200]
        ids = {answer.request_id for answer in load.answers}
        rows = eventually(self.rows, lambda found: ids <= set(found), RECOVERY_LIMIT_S)
        return Outcome(
            store,
            signal,
            round(back_at - stopped_at, 1),
            len(meanwhile),
            (*load.faults, *refused),
            percentile_s(meanwhile, 0.99),
            max((answer.took_s for answer in meanwhile), default=0.0),
            len(ids - set(rows)),
            len(rows) - len(set(rows)),
            recovered_at - back_at,
        )
