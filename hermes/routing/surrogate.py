"""The learned classifier, as it serves: a text gives a tier and a calibrated confidence, without any model to ask.

A logistic regression over TF-IDF of words and of pieces of words, each vector made of length 1, and over the surface of
`features.py`. Only terms of the vocabulary count, and the pieces of common words are kept as numbers, so a score is a
few look-ups a word and a sum over a few hundred numbers. scikit-learn fits it (`hermes/learning`) but does not serve.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import exp, sqrt
from operator import mul
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hermes.policy import SurrogatePolicy
from hermes.routing import standing
from hermes.routing.artifact import Artifact, ArtifactInvalid, digest, locate, read
from hermes.routing.features import clip, pieces, prepare, surface, words
from hermes.types import TIERS, Tier, Verdict

STARTER = Path(__file__).resolve().parent / "starter"
"""What ships: fitted by `python -m hermes.learning.fit_starter`."""

STARTER_DECIDES = "the surrogate that ships with Hermes decides"
OLD_DECIDES = "the one that was loaded before goes on"

CACHED_WORDS = 8192
CACHED_CHARS = 24
"""The pieces of so many words are kept, about 2 MB; a longer word is none that comes again."""

KEPT_POLICIES = 4
"""Requests in flight may still want the surrogate of the policies before this one."""

NUMBER = np.dtype(np.intp).char
"""A term's number, as bytes: joining the bytes of many words is quicker than joining arrays."""

Numbers = NDArray[np.intp]


class TfidfSurrogate:
    """A fitted surrogate, ready to judge."""

    def __init__(self, artifact: Artifact, version: str = "") -> None:
        self.version = version
        """Its directory's name, and the beginning of its manifest's SHA-256."""

        self._complex_from = artifact.complex_from
        self._thresholds = {
            tier: standing.threshold(tier, artifact.accept_from, artifact.simple_cost) for tier in TIERS
        }
        self._raised: dict[Tier, float] = dict.fromkeys(TIERS, 0.0)
        self._slope, self._offset = artifact.slope, artifact.offset
        self.simple_cost = artifact.simple_cost
        terms = artifact.vocabulary["words"]
        self._words = {term: number for number, term in enumerate(terms) if " " not in term}
        self._pairs = {tuple(map(intern, term.split(" "))): number for number, term in enumerate(terms) if " " in term}
        self._pieces = {term: number for number, term in enumerate(artifact.vocabulary["pieces"], len(terms))}
        self._pieces_by_word: dict[str, bytes] = {}
        self._first_piece = len(terms)
        weights = artifact.weights
        idf = np.concatenate([weights["words_idf"], weights["pieces_idf"]])
        self._table = idf + 1j * (idf * np.concatenate([weights["words_weight"], weights["pieces_weight"]]))
        scaled = weights["surface_weight"] / weights["surface_scale"]
        self._surface: list[float] = scaled.tolist()
        self._bias = float(weights["bias"] - scaled @ weights["surface_mean"])
        self.manifest: Mapping[str, Any] = artifact.manifest
        """What it was made of, for reports."""

    def threshold_of(self, tier: Tier, configured: float | None = None) -> float:
        """The confidence from which a verdict of a tier decides: the operator's, else its own; but never less than
        what audits have raised it to.
        """
        return max(self._thresholds[tier] if configured is None else configured, self._raised[tier])

    def raise_to(self, level: float | None) -> None:
        """Lets it decide only what reaches a level of assurance, see `hermes.routing.standing`; None: as it was."""
        cost = self.simple_cost
        for tier in TIERS:
            self._raised[tier] = 0.0 if level is None else standing.threshold(tier, level, cost)

    def judge(self, text: str) -> Verdict:
        """The tier that a text needs. The confidence is the probability that this is right.

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
        numbers = bytearray().join([self._words_of(listed), *map(self._pieces_of, prepared.split())])
        on_surface: float = sum(map(mul, surface(text, prepared, listed), self._surface))
        return self._bias + self._weigh(np.frombuffer(numbers, np.intp)) + on_surface

    def _words_of(self, listed: list[str]) -> bytes:
        """The numbers of a text's words and pairs of words."""
        numbers = [*map(self._words.get, listed), *map(self._pairs.get, pairwise(listed))]
        return array(NUMBER, [number for number in numbers if number is not None]).tobytes()

    def _pieces_of(self, word: str) -> bytes:
        """The numbers of a word's pieces; those of common words are kept."""
        kept = self._pieces_by_word.get(word)
        if kept is None:
            known = self._pieces
            kept = array(NUMBER, [known[piece] for piece in pieces(word) if piece in known]).tobytes()
            if len(word) <= CACHED_CHARS and len(self._pieces_by_word) < CACHED_WORDS:
                self._pieces_by_word[word] = kept
        return kept

    def _weigh(self, terms: Numbers) -> float:
        """The weighted sum of a text's terms: words and pieces are two tf-idf vectors, each made of length 1.

        A term that comes n times counts 1 + log n.
        """
        if not len(terms):
            return 0.0
        terms.sort()
        # What numpy.unique does, without its checks, which take longer than the work.
        is_edge = np.empty(len(terms) + 1, np.bool_)
        is_edge[0] = is_edge[-1] = True
        np.not_equal(terms[1:], terms[:-1], out=is_edge[1:-1])
        edges = is_edge.nonzero()[0]
        starts = edges[:-1]
        found = terms.take(starts)
        frequency = np.log(edges[1:] - starts)
        frequency += 1
        terms_found = self._table.take(found)
        terms_found *= frequency
        first_piece = int(found.searchsorted(self._first_piece))
        total = 0.0
        for part in (terms_found[:first_piece], terms_found[first_piece:]):
            if len(part):
                vector = part.real
                total += float(np.add.reduce(part.imag)) / sqrt(float(vector.dot(vector)))
        return total


@dataclass(frozen=True, slots=True)
class Choice:
    """The surrogate for a policy, and what the operator should know of it."""

    surrogate: TfidfSurrogate | None
    warning: str | None = None
    is_makeshift: bool = False
    """The operator's own is unsound."""


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
        return Choice(starter(), f"classifier.surrogate.path: {problem}; {STARTER_DECIDES}", is_makeshift=True)
    return Choice(starter())


def starter() -> TfidfSurrogate:
    """The surrogate that ships with Hermes.

    Raises:
        ArtifactInvalid: the installation is damaged.
    """
    return _loaded(STARTER, digest(STARTER))


class Surrogates:
    """The surrogate of each policy in force; requests look it up, and only `prepare` and `refresh` read files."""

    def __init__(self, base: Path = Path()) -> None:
        self._base = base
        self._choices: dict[SurrogatePolicy, Choice] = {}

    def prepare(self, policy: SurrogatePolicy) -> str | None:
        """Loads what a policy names, anew where it has changed on disk; returns a warning for the operator.

        An unsound one does not replace a sound one that was loaded before.

        Blocks: see `load_surrogate`.
        """
        choice = load_surrogate(policy, self._base)
        before = self._choices.pop(policy, None)
        if choice.is_makeshift and choice.warning and before is not None and before.surrogate is not None:
            warning = choice.warning
            if before.surrogate is not choice.surrogate:
                warning = warning.replace(STARTER_DECIDES, OLD_DECIDES)
            choice = Choice(before.surrogate, warning, is_makeshift=True)
        if len(self._choices) >= KEPT_POLICIES:
            del self._choices[next(iter(self._choices))]
        self._choices[policy] = choice
        return choice.warning

    def refresh(self, policy: SurrogatePolicy) -> Change | None:
        """Follows what has happened on disk; None: nothing that one would want to know.

        Blocks: 0.1 ms, or as `prepare` where there is something new. May run in a native thread.
        """
        before = self._choices.get(policy)
        warning = self.prepare(policy)
        after = self._choices[policy].surrogate
        was = before.surrogate if before is not None else None
        if after is was and warning == (before.warning if before is not None else None):
            return None
        return Change(after.version if after is not None else None, after is not was, warning)

    def of(self, policy: SurrogatePolicy) -> TfidfSurrogate | None:
        """The surrogate of a policy."""
        choice = self._choices.get(policy)
        if choice is None:
            self.prepare(policy)
            choice = self._choices[policy]
        return choice.surrogate


@dataclass(frozen=True, slots=True)
class Change:
    """What `Surrogates.refresh` has found."""

    version: str | None
    is_other: bool
    """Another surrogate decides now."""

    warning: str | None


@lru_cache(maxsize=3)
def _loaded(directory: Path, manifest_sha256: str) -> TfidfSurrogate:
    """The hash tells a directory from what it was before."""
    return TfidfSurrogate(read(directory), f"{directory.name}@{manifest_sha256[:8]}")
