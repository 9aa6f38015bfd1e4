"""The nouns of a comparison: a target model answers beside the pinned one, and somebody says which answer is better.

A run is one target against one pinned model for one role. Everything in it is told from the target's side: `better`
means that the target's answer was the better one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Opinion = Literal["better", "tie", "worse"]
OPINIONS: Final[tuple[Opinion, ...]] = get_args(Opinion)

Kind = Literal["trial", "watch"]
"""`trial`: a target is a candidate for the pin. `watch`: it was promoted, and the former model is what it is compared
with, so that a regression is seen."""

State = Literal["running", "promoted", "rejected", "rolled_back", "ended"]

Answerer = Literal["equal", "error", "judge"]
"""What an opinion rests on: both answers are the same, one of both has none, a judge has read them."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a model has answered, as far as two answers are compared."""

    text: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    """The tools that it calls: name, and arguments as they came."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One call off the callers' path, and what came of it."""

    raw: bytes = b""
    """A whole body, or a stream's events."""

    usage: object = None
    """As the provider tells it."""

    latency_ms: float = 0.0
    ttft_ms: float | None = None
    error: str | None = None
    """Why there is no answer; fit to be shown."""

    is_billed: bool = True
    """Whether it may be charged for: not where the provider was not reached or has refused."""

    is_too_large: bool = False
    """There is an answer, too large to be compared; `error` says so too."""

    text_bytes: int = 0
    """About how much has come, at most; for its price where no usage is told."""


@dataclass(frozen=True, slots=True)
class Side:
    """One model's part of a comparison."""

    model: str
    endpoint: str
    answer: str | None = None
    """As far as it may be kept."""

    latency_ms: float | None = None
    ttft_ms: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    nanousd: int | None = None
    """None: unknown."""

    error: str | None = None


@dataclass(frozen=True, slots=True)
class ShadowReply:
    """One sampled request: a row of `shadow_replies`."""

    request_id: str
    created_at: str
    """ISO 8601, UTC, milliseconds, `Z`."""

    role: str
    primary: Side
    target: Side
    function_name: str | None = None
    stream: bool = False
    prompt: str | None = None
    """As far as it may be kept."""

    similarity: float | None = None
    """0..1; None where one side has no answer."""

    opinion: Opinion | None = None
    opinion_by: Answerer | None = None
    orders: str = ""
    """In which orders the judge has seen the answers: `pt`, `tp` (target first), `pt,tp`."""

    reason: str | None = None
    """The judge's, as far as it may be kept."""

    judge_error: str | None = None
    judge_nanousd: int | None = None
    person: Opinion | None = None
    """What a person says; it counts more than the judge."""

    person_by: str | None = None
    id: int = 0
    run_id: int = 0

    @property
    def verdict(self) -> Opinion | None:
        """What counts; None: nobody has said anything yet."""
        return self.person or self.opinion


@dataclass(frozen=True, slots=True)
class Pair:
    """A row's figures, which are all that the gate looks at."""

    verdict: Opinion | None
    primary_ms: float | None
    target_ms: float | None
    primary_nanousd: int | None
    target_nanousd: int | None
    primary_failed: bool = False
    target_failed: bool = False
    id: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One target against one pinned model for one role."""

    id: int
    role: str
    primary: str
    """The pinned model."""

    target: str
    kind: Kind
    state: State
    began_at: str
    ended_at: str | None = None
    ended_by: str | None = None
    reason: str | None = None
    """Why it has ended, or what is wrong with it."""

    former_pin: str | None = None
    """What a rollback puts back; None: there was no pin, the configuration held."""

    watches: int | None = None
    """The run whose promotion is watched."""

    looks: int = 0
    """How often it was weighed whether the run is decided."""

    looked_id: int = 0
    """The last row that was weighed then."""

    samples: int = 0
    counts: Mapping[str, int] | None = None
    """Rows by verdict."""

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    def shown(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "id": self.id,
            "role": self.role,
            "primary": self.primary,
            "target": self.target,
            "kind": self.kind,
            "state": self.state,
            "began_at": self.began_at,
            "ended_at": self.ended_at,
            "ended_by": self.ended_by,
            "reason": self.reason,
            "samples": self.samples,
            "verdicts": {opinion: (self.counts or {}).get(opinion, 0) for opinion in OPINIONS},
        }
