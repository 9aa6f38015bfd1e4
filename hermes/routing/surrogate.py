"""The learned classifier, as it serves: a text gives a tier and a calibrated confidence, without any model to ask.

A logistic regression over TF-IDF of words and of pieces of words, each vector made of length 1, and over the surface of
`features.py`. Only terms of the vocabulary count, and the pieces of common words are kept as numbers, so a score is a
few look-ups a word and a sum over a few hundred numbers. scikit-learn fits it (`hermes/learning`) but does not serve.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import pairwise
from math import exp, sqrt
from operator import mul
from sys import intern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hermes.routing import standing
from hermes.routing.artifact import Artifact
from hermes.routing.features import clip, pieces, prepare, surface, words
from hermes.types import TIERS, Tier, Verdict

CACHED_WORDS = 8192
CACHED_CHARS = 24
"""The pieces of so many words are kept, about 2 MB; a longer word is none that comes again."""

NUMBER = np.dtype(np.intp).char
"""A term's number, as bytes: joining the bytes of many words is quicker than joining arrays."""

Numbers = NDArray[np.intp]


class TfidfSurrogate:
    """A fitted surrogate, ready to judge."""

    def __init__(self, artifact: Artifact, version: str = "") -> None:
        self.version = version
        """Its directory's name, and the beginning of its manifest's SHA-256."""

        self._complex_from = artifact.complex_from
        level = artifact.accept_from if artifact.embedding is None else artifact.embedding.alone_from
        self._accept(artifact, level, "points" if artifact.embedding is None else "alone")
        self.note: str | None = None
        """What the operator should know of it."""

        self._raised: dict[Tier, float] = dict.fromkeys(TIERS, 0.0)
        self._slope, self._offset = artifact.slope, artifact.offset
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

    def _accept(self, artifact: Artifact, level: float, points: str) -> None:
        cost = self.simple_cost = artifact.simple_cost
        self._thresholds: dict[Tier, float] = {tier: standing.threshold(tier, level, cost) for tier in TIERS}
        self.evidence = standing.evidence(artifact.manifest, level, points)
        """What it is certified with."""

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
        return self.verdict(self.probability(text))

    def reconsider(self, text: str) -> Verdict | None:
        """A second look at a text that `judge` is not sure of; None: there is none to be had.

        Blocks: not at all here; see `EmbeddingSurrogate`.
        """
        return None

    def verdict(self, p_complex: float) -> Verdict:
        """What a probability means."""
        tier: Tier = "complex" if p_complex >= self._complex_from else "simple"
        confidence = p_complex if tier == "complex" else 1 - p_complex
        return Verdict(tier, round(confidence, 4), f"{tier} {confidence:.2f}")

    def probability(self, text: str) -> float:
        """That the text is complex, 0..1."""
        return sigmoid(self._slope * self.score(text) + self._offset)

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


def sigmoid(logit: float) -> float:
    """A probability, however large the logit is."""
    return 1 / (1 + exp(-logit)) if logit >= 0 else exp(logit) / (1 + exp(logit))
