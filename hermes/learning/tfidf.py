"""Fits the classifier that `hermes/routing/surrogate.py` serves: TF-IDF, surface features, logistic regression.

It is fitted twice. The first fit has every term; the terms that move scores most are kept, so that the file stays
small, and the second fit has only these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from hermes.routing.features import LONGEST, SHORTEST, WORD_PATTERN, clip, prepare, surface, words

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is chosen by cross-validation."""

    most_words: int = 15_000
    most_pieces: int = 25_000
    least_documents: int = 2
    inverse_regularisation: float = 10.0
    surface_share: float = 0.03
    """How much the surface weighs against the terms: each of its numbers has this standard deviation."""


class TfidfClassifier:
    """A fitted classifier, as scikit-learn sees it."""

    def __init__(self, shape: Shape = Shape()) -> None:
        self._shape = shape
        self._words, self._pieces = self._vectorizers(None, None)
        self._scaler = StandardScaler()
        self._regression = LogisticRegression()

    def fit(self, texts: Sequence[str], is_complex: NDArray[np.bool_], weights: Floats) -> TfidfClassifier:
        """Learns from texts; `weights` says how much each counts.

        Blocks: 20 s for 12,000 texts.
        """
        self._scaler.fit(surfaces(texts))
        matrix = self._matrix(texts, learn=True)
        self._regress(matrix, is_complex, weights)
        moves = np.abs(self._regression.coef_[0]) * np.asarray(matrix.mean(axis=0)).ravel()
        number = len(self._words.vocabulary_)
        kept_words = _strongest(self._words, moves[:number], self._shape.most_words)
        kept_pieces = _strongest(self._pieces, moves[number:], self._shape.most_pieces)
        self._words, self._pieces = self._vectorizers(kept_words, kept_pieces)
        self._regress(self._matrix(texts, learn=True), is_complex, weights)
        return self

    def scores(self, texts: Sequence[str]) -> Floats:
        """Shape (n,): above 0 leans to complex."""
        scores: Floats = self._regression.decision_function(self._matrix(texts, learn=False))
        return scores

    def tables(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """The vocabulary and the weights of an artifact."""
        number = len(self._words.vocabulary_)
        terms = number + len(self._pieces.vocabulary_)
        weight = self._regression.coef_[0]
        vocabulary = {"words": _terms(self._words), "pieces": _terms(self._pieces)}
        return vocabulary, {
            "words_idf": self._words.idf_.astype(np.float32),
            "words_weight": weight[:number].astype(np.float32),
            "pieces_idf": self._pieces.idf_.astype(np.float32),
            "pieces_weight": weight[number:terms].astype(np.float32),
            "surface_mean": self._scaler.mean_,
            "surface_scale": self._scaler.scale_,
            "surface_weight": weight[terms:] * self._shape.surface_share,
            "bias": self._regression.intercept_[0],
        }

    def _vectorizers(
        self, vocabulary: list[str] | None, pieces: list[str] | None
    ) -> tuple[TfidfVectorizer, TfidfVectorizer]:
        common: dict[str, Any] = {"preprocessor": _prepared, "sublinear_tf": True, "dtype": np.float64}
        least = {"min_df": self._shape.least_documents}
        return (
            TfidfVectorizer(ngram_range=(1, 2), token_pattern=WORD_PATTERN, vocabulary=vocabulary, **least, **common),
            TfidfVectorizer(
                analyzer="char_wb", ngram_range=(SHORTEST, LONGEST), vocabulary=pieces, **least, **common
            ),
        )  # fmt: skip

    def _matrix(self, texts: Sequence[str], *, learn: bool) -> csr_matrix:
        blocks = [
            vectorizer.fit_transform(texts) if learn else vectorizer.transform(texts)
            for vectorizer in (self._words, self._pieces)
        ]
        scaled = self._scaler.transform(surfaces(texts)) * self._shape.surface_share
        return csr_matrix(hstack([*blocks, csr_matrix(scaled)]))

    def _regress(self, matrix: csr_matrix, is_complex: NDArray[np.bool_], weights: Floats) -> None:
        self._regression = LogisticRegression(
            C=self._shape.inverse_regularisation, solver="liblinear", intercept_scaling=10, max_iter=500
        )
        self._regression.fit(matrix, is_complex, sample_weight=weights)


def surfaces(texts: Sequence[str]) -> Floats:
    """Shape (n, surface features)."""
    rows = []
    for text in map(clip, texts):
        prepared = prepare(text)
        rows.append(surface(text, prepared, words(prepared)))
    return np.array(rows)


def _prepared(text: str) -> str:
    return prepare(clip(text))


def _strongest(vectorizer: TfidfVectorizer, moves: Floats, most: int) -> list[str]:
    terms = np.array(_terms(vectorizer), dtype=object)
    strongest = np.argsort(-moves[: len(terms)], kind="stable")[:most]
    return sorted(terms[strongest])


def _terms(vectorizer: TfidfVectorizer) -> list[str]:
    return [str(term) for term in vectorizer.get_feature_names_out()]
