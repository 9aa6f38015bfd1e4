"""How well prompts are routed without a teacher: `.venv/bin/python benchmarks/routing_quality.py [PROMPTS]`.

Compares prompt length, the default keyword lists, the surrogate that ships, and the whole decision, which is asked of
the router itself under a configuration without a teacher. No prompt of this file was trained on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import sqrt
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from hermes import configfile  # noqa: E402
from hermes.learning.rows import read_rows  # noqa: E402
from hermes.policy import Policy, TeacherPolicy  # noqa: E402
from hermes.routing.reading import Reading  # noqa: E402
from hermes.routing.router import Asked, Router  # noqa: E402
from hermes.routing.rules import RoutingKeywords  # noqa: E402
from hermes.routing.sessions import Sessions  # noqa: E402
from hermes.routing.surrogates import Surrogates, starter  # noqa: E402
from hermes.state.store import MemoryStore  # noqa: E402
from hermes.types import Allowance, Principal, Tier, Verdict  # noqa: E402

PROMPTS = ROOT / "benchmarks" / "data" / "prompts_eval.jsonl"
TRAINING = ROOT / "hermes" / "learning" / "data" / "starter.jsonl.gz"
CONFIGURATION = """
models:
  simple: {model: small, base_url: "http://127.0.0.1/v1", api_key_env: ""}
  complex: {model: large, base_url: "http://127.0.0.1/v1", api_key_env: ""}
classifier: {surrogate: {path: ""}}
"""
Z_95 = 1.959964
LONGEST_TIMED = 1000
"""Characters."""

ROUNDS = 40

Classify = Callable[[str], Tier]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt and what is known of it."""

    text: str
    tier: Tier
    category: str
    language: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What a way of choosing made of the prompts."""

    right: int
    total: int
    complex_to_simple: int
    complex: int
    simple_to_complex: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[Prompt, Tier]]) -> Result:
        """Of prompts and the tiers that were chosen."""
        listed = list(pairs)
        return cls(
            sum(prompt.tier == tier for prompt, tier in listed),
            len(listed),
            sum(prompt.tier == "complex" != tier for prompt, tier in listed),
            sum(prompt.tier == "complex" for prompt, _ in listed),
            sum(prompt.tier == "simple" != tier for prompt, tier in listed),
        )

    def columns(self) -> list[str]:
        """As they stand in a table."""
        low, high = wilson(self.right, self.total)
        accuracy = f"{self.right / self.total:.1%} ({low:.0%} to {high:.0%})"
        return [accuracy, _share(self.complex_to_simple, self.complex), _share(self.simple_to_complex, self._simple)]

    @property
    def _simple(self) -> int:
        return self.total - self.complex


class NoTeacher:
    """Stands where the teacher would; without a `classifier` model nobody asks it."""

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        """Never called."""
        raise AssertionError(f"nobody should ask {policy.endpoint.id} about {text!r}")


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a JSON Lines file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [Prompt(row["prompt"], row["label"], row["category"], row["language"], tuple(row["tags"])) for row in rows]


def whole_decision(policy: Policy) -> Classify:
    """What the router decides for the first message of a conversation."""
    router = Router(Sessions(MemoryStore()), NoTeacher(), Surrogates().of, _ignore)
    router.prepare(policy)
    nobody = Principal()

    def classify(text: str) -> Tier:
        return router.decide(policy, Asked(nobody, [{"role": "user", "content": text}])).tier

    return classify


def by_keywords(policy: Policy) -> Classify:
    """The default keyword lists as if they were a classifier: an escalation keyword means complex."""
    keywords = RoutingKeywords.of(policy.routing)
    return lambda text: "complex" if keywords.escalation.find(Reading.of(text)) else "simple"


def by_length(training: Path) -> Classify:
    """Long means complex, from the length that parts the training rows best."""
    rows = read_rows(training)
    of_complex = sorted(len(row.text) for row in rows if row.tier == "complex")
    of_simple = sorted(len(row.text) for row in rows if row.tier == "simple")

    def mistakes(length: int) -> float:
        missed = sum(at < length for at in of_complex) / len(of_complex)
        return missed + sum(at >= length for at in of_simple) / len(of_simple)

    longest_simple = min(range(10, 400, 5), key=mistakes)
    return lambda text: "complex" if len(text) >= longest_simple else "simple"


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    share = right / total
    middle = share + Z_95**2 / (2 * total)
    half = Z_95 * sqrt(share * (1 - share) / total + Z_95**2 / (4 * total**2))
    return (middle - half) / (1 + Z_95**2 / total), (middle + half) / (1 + Z_95**2 / total)


def table(title: str, results: Mapping[str, Result]) -> Table:
    """One line for each result."""
    shown = Table("", "prompts", "right", "complex sent to simple", "simple sent to complex", title=title)
    for name, result in results.items():
        shown.add_row(name, str(result.total), *result.columns())
    return shown


def groups(prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    """The prompts by language, by category and by tag."""
    found: dict[str, list[Prompt]] = {}
    for prompt in sorted(prompts, key=lambda each: (each.language, each.category)):
        names = [f"language {prompt.language}", f"category {prompt.category}", *(f"tag {tag}" for tag in prompt.tags)]
        for name in names:
            found.setdefault(name, []).append(prompt)
    return dict(sorted(found.items()))


def latencies_ms(classify: Classify, prompts: Sequence[Prompt]) -> list[list[float]]:
    """How long decisions took, sorted, round by round."""
    texts = [prompt.text for prompt in prompts if len(prompt.text) <= LONGEST_TIMED]
    rounds = []
    for _ in range(ROUNDS):
        taken = []
        for text in texts:
            start = time.perf_counter()
            classify(text)
            taken.append((time.perf_counter() - start) * 1000)
        rounds.append(sorted(taken))
    return rounds


def percentiles(taken: Sequence[float]) -> str:
    """Of sorted latencies."""
    at = {share: taken[int(share / 100 * (len(taken) - 1))] for share in (50, 95, 99)}
    return ", ".join(f"p{share} {value:.3f} ms" for share, value in at.items())


def main(path: Path) -> None:
    """Prints everything."""
    console = Console(width=140)
    prompts = read_prompts(path)
    policy = configfile.parse(CONFIGURATION, "benchmark", {})
    decide = whole_decision(policy)
    ways: dict[str, Classify] = {
        "prompt length": by_length(TRAINING),
        "default keyword lists": by_keywords(policy),
        "surrogate alone": lambda text: starter().judge(text).tier,
        "whole decision, no teacher": decide,
    }
    chosen = {name: [(prompt, way(prompt.text)) for prompt in prompts] for name, way in ways.items()}
    console.print(table(str(path), {name: Result.of(pairs) for name, pairs in chosen.items()}))
    by_group = {name: Result.of((each, decide(each.text)) for each in group) for name, group in groups(prompts).items()}
    console.print(table("whole decision, no teacher", by_group))
    console.print("\nmisroutes of the whole decision:")
    for prompt, tier in chosen["whole decision, no teacher"]:
        if prompt.tier != tier:
            console.print(f"  {prompt.tier} → {tier}: {prompt.text[:110]!r}", markup=False, highlight=False)
    rounds = latencies_ms(decide, prompts)
    everything = sorted(chain.from_iterable(rounds))
    quietest = min(rounds, key=lambda taken: taken[len(taken) // 2])  # others disturbed it least
    console.print(f"\none whole decision, prompts of up to {LONGEST_TIMED} characters: {percentiles(everything)}")
    console.print(f"in the quietest of {ROUNDS} rounds: {percentiles(quietest)}")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def _ignore(event: str, fields: Mapping[str, Any]) -> None:
    """The trace is not written here."""


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PROMPTS)
