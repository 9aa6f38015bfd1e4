"""The learned classifier, as it serves: a text gives a tier and a calibrated confidence, without any model to ask.

A logistic regression over TF-IDF of words and of pieces of words, each made of length 1 by itself, and over the surface
of `features.py`. Only terms of the vocabulary count, so a score is a walk over the text with a few hundred look-ups in
dictionaries, and two square roots. No scikit-learn: it fits (`hermes/learning`), it does not serve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

from hermes.policy import SurrogatePolicy
from hermes.routing.artifact import Artifact, ArtifactInvalid, digest, locate, read
from hermes.routing.features import clip, pieces, prepare, surface, word_pairs, words
from hermes.types import Tier, Verdict

STARTER = Path(__file__).resolve().parent / "starter"
"""What ships: fitted by `python -m hermes.learning.fit_starter`."""

Table = Mapping[str, tuple[float, float]]
"""Of a term: its inverse document frequency, and that times its weight."""


class TfidfSurrogate:
    """A fitted surrogate, ready to judge."""

    def __init__(self, artifact: Artifact) -> None:
        self.manifest = artifact.manifest
        self._accept_from = artifact.accept_from
        self._complex_from = artifact.complex_from
        self._slope, self._offset = artifact.slope, artifact.offset
        self._words = _table(artifact, "words")
        self._pieces = _table(artifact, "pieces")
        weights = artifact.weights
        scaled = weights["surface_weight"] / weights["surface_scale"]
        self._surface: list[float] = scaled.tolist()
        self._bias = float(weights["bias"] - (scaled * weights["surface_mean"]).sum())

    @property
    def threshold(self) -> float:
        """The confidence from which it decides where the operator sets none."""
        return self._accept_from

    def judge(self, text: str) -> Verdict:
        """The tier that a text needs.

        Blocks: 0.1 ms for a usual prompt, 1 ms at most.
        """
        p_complex = self.probability(text)
        tier: Tier = "complex" if p_complex >= self._complex_from else "simple"
        confidence = p_complex if tier == "complex" else 1 - p_complex
        return Verdict(tier, round(confidence, 4), f"{tier} {confidence:.2f}")

    def probability(self, text: str) -> float:
        """That the text is complex, 0..1."""
        at = self._slope * self.score(text) + self._offset
        return 1 / (1 + exp(-at)) if at >= 0 else exp(at) / (1 + exp(at))

    def score(self, text: str) -> float:
        """What the regression says, before it is made a probability: above 0 leans to complex."""
        text = clip(text)
        prepared = prepare(text)
        listed = words(prepared)
        score = self._bias + _weigh(self._words, ((term, 1) for term in listed), word_pairs(listed))
        score += _weigh(self._pieces, pieces(prepared), ())
        for value, weight in zip(surface(text, prepared, listed), self._surface, strict=True):
            score += value * weight
        return score


@dataclass(frozen=True, slots=True)
class Choice:
    """The surrogate for a policy, and what the operator should know of it."""

    surrogate: TfidfSurrogate | None
    warning: str | None = None


def load_surrogate(policy: SurrogatePolicy, base: Path = Path()) -> Choice:
    """The operator's own surrogate where there is a sound one at `path`, else the starter; none where it is off.

    A relative path begins at `base`. An unsound one is a warning, never an error. What has been loaded before is not
    loaded again, unless its manifest has changed.

    Blocks: 0.1 s the first time, for a directory; then as long as reading the manifest. It takes no lock and writes no
    log line, so it may run in a native thread.
    """
    if not policy.enabled:
        return Choice(None)
    try:
        own = locate(base / Path(policy.path).expanduser()) if policy.path else None
        if own is not None:
            return Choice(_loaded(own, digest(own)))
    except (ArtifactInvalid, OSError) as problem:
        warning = f"classifier.surrogate.path: {problem}; the surrogate that ships with Hermes decides"
        return Choice(starter(), warning)
    return Choice(starter())


def starter() -> TfidfSurrogate:
    """The surrogate that ships with Hermes."""
    return _loaded(STARTER, digest(STARTER))


class Surrogates:
    """The surrogate of each policy in force; requests look it up, and only `prepare` reads files."""

    def __init__(self, base: Path = Path()) -> None:
        self._base = base
        self._choices: dict[SurrogatePolicy, Choice] = {}

    def prepare(self, policy: SurrogatePolicy) -> str | None:
        """Loads what a policy names, anew where it has changed on disk; returns a warning for the operator.

        Blocks: see `load_surrogate`.
        """
        choice = load_surrogate(policy, self._base)
        self._choices[policy] = choice
        return choice.warning

    def of(self, policy: SurrogatePolicy) -> TfidfSurrogate | None:
        """The surrogate of a policy."""
        choice = self._choices.get(policy)
        if choice is None:
            self.prepare(policy)
            choice = self._choices[policy]
        return choice.surrogate


@lru_cache(maxsize=3)
def _loaded(directory: Path, manifest_sha256: str) -> TfidfSurrogate:
    """The hash is here to tell a directory from what it was before."""
    return TfidfSurrogate(read(directory))


def _table(artifact: Artifact, name: str) -> Table:
    idf, weight = artifact.weights[f"{name}_idf"], artifact.weights[f"{name}_weight"]
    pairs = zip(idf.tolist(), (idf * weight).tolist(), strict=True)
    return dict(zip(artifact.vocabulary[name], pairs, strict=True))


def _weigh(table: Table, counted: Iterable[tuple[str, int]], single: Iterable[str]) -> float:
    """The weighted sum of a text's known terms, their tf-idf vector made of length 1; 0 where none is known."""
    found: dict[str, int] = {}
    for term, times in counted:
        if term in table:
            found[term] = found.get(term, 0) + times
    for term in single:
        if term in table:
            found[term] = found.get(term, 0) + 1
    dot = square = 0.0
    for term, times in found.items():
        idf, weighted = table[term]
        frequency = 1.0 if times == 1 else 1.0 + log(times)
        square += (frequency * idf) ** 2
        dot += frequency * weighted
    return dot / sqrt(square) if square else 0.0


def describe(surrogate: TfidfSurrogate) -> Mapping[str, Any]:
    """What the manifest says, for reports."""
    return surrogate.manifest
