"""A gateway's month in seconds: scripted models and a scripted judge, and everything between them real.

Requests are drawn, queued, compared, judged, stored in a real SQLite file, weighed and acted upon by the same code that
serves; only the models, the judge and the clock are made up. A model's answer names its quality, which the judge reads;
the world keeps its own books beside, so that every figure can be reckoned without Hermes.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent
import orjson

from hermes.chatrequest import ChatRequest
from hermes.evaluation.promotion import Promotions
from hermes.evaluation.shadow import Shadow
from hermes.evaluation.spend import DailySpend
from hermes.observe.trace import utc_ms
from hermes.policy import GatePolicy, LoggingPolicy, Policy, ShadowPolicy
from hermes.settings import ROOT
from hermes.state.store import MemoryStore
from hermes.storage.db import Database, migrate
from hermes.storage.directory import DirectoryRepository
from hermes.storage.promotions import PromotionRepository
from hermes.storage.shadow import ShadowRepository
from hermes.trials import Heard, Opinion, Run, Spoken
from hermes.types import ANYONE, Allowance, Attempt, Cascade, Endpoint, Usage, UsageRecord
from hermes.upstream.spoken import spoken

BEGINNING = 1_777_593_600.0  # 2026-05-01T00:00:00Z
DAY_S = 86_400.0
TIE_WITHIN = 0.1
JUDGE = Endpoint("judge@j", "judge", "http://j/v1", "http://j/v1")
WORDS = {1: "first", -1: "second", 0: "tie"}
NANOUSD_PER_TOKEN = 1000


@dataclass(slots=True)
class Model:
    """A scripted model; it can be made another one at any time."""

    name: str
    quality: float = 0.5
    spread: float = 0.15
    latency_ms: float = 800.0
    price: float = 1.0
    """Of a token, in units of `NANOUSD_PER_TOKEN`."""

    error_rate: float = 0.0

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"{self.name}@p", self.name, "http://p/v1", "http://p/v1")


@dataclass(slots=True)
class Entry:
    """One comparison in the world's own books."""

    primary: str
    target: str
    verdict: Opinion | None
    primary_ms: float | None
    target_ms: float
    primary_nanousd: int | None
    target_nanousd: int | None
    target_failed: bool


@dataclass(slots=True)
class Said:
    """One answer of a scripted model."""

    text: str
    quality: float
    latency_ms: float
    nanousd: int
    tokens: int
    failed: bool


class World:
    """One role, its pin and its target."""

    def __init__(
        self,
        folder: Path,
        *models: Model,
        gate: GatePolicy | None = None,
        seed: int = 1,
        judge_goes_by_position: float = 0.05,
        daily_usd: float = 1000.0,
        auto_promote: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.now = BEGINNING
        self.models = {model.name: model for model in models}
        self.books: list[Entry] = []
        self.judge_goes_by_position = judge_goes_by_position
        self.events: list[tuple[float, str]] = []
        self.by_request: dict[str, Said] = {}
        self.requests = 0
        self.policy = Policy(
            cascades={"simple": Cascade("simple", (models[0].endpoint,), 60.0)},
            logging=LoggingPolicy(store_prompts="full"),
            shadow=ShadowPolicy(
                auto_promote=auto_promote,
                judge=JUDGE,
                gate=gate or GatePolicy(),
                daily_nanousd=int(daily_usd * 1e9),
            ),
        )
        url = f"sqlite:///{folder / 'world.db'}"
        migrate(url, ROOT / "migrations")
        self.database = Database.open(url)
        self.rows = ShadowRepository(self.database)
        self.directory = DirectoryRepository(self.database, self.clock)
        self.promotions = Promotions(self.rows, PromotionRepository(self.database, self.clock), clock=self.clock)
        self.counted: list[str] = []
        self.spend = DailySpend(MemoryStore(self.clock), self.rows.spent_since, self.clock)
        self.shadow = Shadow(
            lambda policy, tier, model: self.models[model].endpoint,
            self, self.spend, self.rows.add, self, rng=random.Random(seed + 1), clock=self.clock,
        )  # fmt: skip

    def close(self) -> None:
        self.database.close()

    def clock(self) -> float:
        return self.now

    # -- the operator -------------------------------------------------------------------------------------

    @property
    def pins(self) -> dict[str, str]:
        return dict(self.directory.load().pins)

    def try_out(self, model: str) -> None:
        """Makes a model the target."""
        self.directory.set_pin("model.chat.target", model, "operator")
        self.directory.set_pin("model.chat.target.sample_rate", "1.0", "operator")

    @property
    def serving(self) -> str:
        """The model that callers get."""
        return self.pins.get("model.chat", next(iter(self.models)))

    def runs(self) -> list[Run]:
        """The oldest first."""
        return sorted(self.rows.runs(), key=lambda run: run.id)

    # -- traffic ------------------------------------------------------------------------------------------

    def days(self, number: int, requests: int = 60, looks: int = 6) -> None:
        """Lets days go by, each with so many requests that are drawn, and so many looks at the runs."""
        for _ in range(number):
            before = self.pins
            for position in range(requests):
                self.now += DAY_S / requests
                self.request(before)
                if position % max(1, requests // looks) == 0:
                    self.settle()
                    self.look()
                    before = self.pins
            self.settle()
            self.look()

    def settle(self) -> None:
        """Waits until everything that was drawn is compared."""
        while self.shadow.depth():
            gevent.sleep(0.0005)  # not 0: the database's native threads need their turn

    def look(self) -> None:
        """What the background loop does."""
        before = {run.id: run.state for run in self.rows.runs()}
        self.promotions.look(self.policy, self.pins, {"chat": next(iter(self.models))})
        for run in self.runs():
            if run.state != before.get(run.id, "running"):
                self.events.append((self.now, f"{run.state} {run.target}: {run.reason}"))

    def request(self, pins: dict[str, str], allowance: Allowance = ANYONE, **body: Any) -> None:
        """One request of a caller, served by the pinned model."""
        self.requests += 1
        model = self.models[pins.get("model.chat", next(iter(self.models)))]
        asked = {"messages": [{"role": "user", "content": f"question {self.requests}"}], **body}
        request = ChatRequest.parse(orjson.dumps(asked))
        cascade = Cascade("simple", (model.endpoint,), 60.0)
        sample = self.shadow.draw(self.policy, pins, "chat", cascade, request, lambda over: None, allowance)
        if sample is None:
            return
        said = self.say(model)
        record = UsageRecord(
            f"req_{self.requests}", utc_ms(self.now), "/v1/completions", "error" if said.failed else "ok",
            model=model.name, endpoint=model.endpoint.id, prompt_tokens=50, completion_tokens=said.tokens,
            estimated_cost_usd=f"{said.nanousd / 1e9:.9f}", duration_ms=said.latency_ms,
        )  # fmt: skip
        self.by_request[f"question {self.requests}"] = said
        if not said.failed:
            sample.saw(_body(said))
        status = 500 if said.failed else 200
        sample.over(record, [Attempt(model.endpoint.id, model.name, status, "said", True, said.latency_ms)])

    def say(self, model: Model) -> Said:
        """One answer."""
        quality = self.rng.gauss(model.quality, model.spread)
        tokens = 40 + int(self.rng.expovariate(1 / 80))
        latency = model.latency_ms * self.rng.lognormvariate(0, 0.35)
        cost = int((50 + tokens) * model.price * NANOUSD_PER_TOKEN)
        text = f"An answer of quality {quality:.6f} {self.rng.random()}"
        return Said(text, quality, latency, cost, tokens, self.rng.random() < model.error_rate)

    # -- `hermes.evaluation.trial.Calls` ------------------------------------------------------------------

    def ask(self, endpoint: Endpoint, request: ChatRequest, policy: Policy, allowance: Allowance) -> Heard:
        gevent.sleep(0)
        content = request.messages[-1]["content"]
        if endpoint.model == "judge":
            return Heard(_whole(self._judged(content)), {"prompt_tokens": 500, "completion_tokens": 40}, 900.0)
        said = self.say(self.models[endpoint.model])
        ours = self.by_request.pop(content)
        self.books.append(self._entry(ours, said, endpoint.model))
        if said.failed:
            return Heard(latency_ms=said.latency_ms, error="the provider answered 500", is_billed=False)
        return Heard(_body(said), {"prompt_tokens": 50, "completion_tokens": said.tokens}, said.latency_ms)

    def spoken(self, raw: bytes, *, stream: bool) -> Spoken:
        return spoken(raw, stream=stream)

    def usage(self, raw: Any) -> Usage | None:
        return None if raw is None else Usage(raw["prompt_tokens"], raw["completion_tokens"], sum(raw.values()))

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        price = 1.0 if endpoint.model == "judge" else self.models[endpoint.model].price
        return int(usage.total_tokens * price * NANOUSD_PER_TOKEN)

    def _judged(self, prompt: str) -> str:
        number = re.findall(r'"question": "([0-9a-f]+)"', prompt)[-1]
        first, second = map(float, re.findall(r"answer of quality (-?[0-9.]+)", prompt))
        point = 0 if abs(first - second) < TIE_WITHIN else 1 if first > second else -1
        if self.rng.random() < self.judge_goes_by_position:
            point = 1
        return orjson.dumps({"question": number, "better": WORDS[point], "reason": "By quality."}).decode()

    def _entry(self, ours: Said, theirs: Said, target: str) -> Entry:
        verdict: Opinion | None = None
        if ours.failed or theirs.failed:
            verdict = None if ours.failed and theirs.failed else "better" if ours.failed else "worse"
        elif self.judge_goes_by_position == 0:
            gap = round(theirs.quality, 6) - round(ours.quality, 6)
            verdict = "tie" if abs(gap) < TIE_WITHIN else "better" if gap > 0 else "worse"
        return Entry(
            self.serving, target, verdict, None if ours.failed else ours.latency_ms, theirs.latency_ms,
            None if ours.failed else ours.nanousd, None if theirs.failed else theirs.nanousd, theirs.failed,
        )  # fmt: skip

    # -- `hermes.evaluation.shadow.Counts` ----------------------------------------------------------------

    def shadow_dropped(self, reason: str) -> None:
        self.counted.append(f"dropped: {reason}")

    def shadow_reply(self, outcome: str) -> None:
        self.counted.append(outcome)


@dataclass(slots=True)
class ByHand:
    """A run's figures, reckoned from the world's books alone."""

    entries: list[Entry] = field(default_factory=list)

    def verdicts(self) -> dict[str, int]:
        names = [entry.verdict or "none" for entry in self.entries]
        return {name: names.count(name) for name in ("better", "tie", "worse")}

    def p95(self) -> tuple[float, float]:
        """By the nearest rank, of both sides."""
        both = [(e.primary_ms, e.target_ms) for e in self.entries if e.primary_ms is not None and not e.target_failed]
        rank = -(-95 * len(both) // 100) - 1
        return sorted(a for a, _ in both)[rank], sorted(b for _, b in both)[rank]

    def costs(self) -> tuple[int, int]:
        """Both sums, of requests where both are known."""
        known = [(e.primary_nanousd, e.target_nanousd) for e in self.entries]
        both = [(a, b) for a, b in known if a is not None and b is not None]
        return sum(a for a, _ in both), sum(b for _, b in both)


def _body(said: Said) -> bytes:
    return _whole(said.text)


def _whole(text: str) -> bytes:
    return orjson.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})
