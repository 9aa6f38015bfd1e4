"""The classifier of `tfidf.py`, fitted many times on parts of the same texts: their terms are counted once.

Counting takes most of the time of a fit. Cross-validation fits six times on nearly the same texts, so it works on rows
of one matrix of counts. The result is that of `TfidfClassifier`; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

from hermes.learning.tfidf import Shape, surfaces
from hermes.routing.features import LONGEST, SHORTEST, WORD_PATTERN, clip, prepare

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DEFAULT_SHAPE: Final = Shape()


@dataclass(frozen=True, slots=True)
class Table:
    """How often each term stands in each text, logarithmically. One kind of terms."""

    terms: NDArray[Any]
    frequencies: csr_matrix
    """Shape (texts, terms): 1 + log(count)."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Texts, counted."""

    words: Table
    pieces: Table
    surfaces: Floats


@dataclass(frozen=True, slots=True)
class Part:
    """What a fitted classifier kept of one kind of terms."""

    kept: NDArray[np.intp]
    """The columns, in the order of the terms."""

    idf: Floats


def count(texts: Sequence[str], shape: Shape = DEFAULT_SHAPE) -> Counted:
    """Counts the terms of texts.

    Blocks: 2 s for 4,000 texts.
    """
    prepared = [prepare(clip(text)) for text in texts]
    common: dict[str, Any] = {"preprocessor": str, "min_df": min(shape.least_documents, len(texts))}
    return Counted(
        _table(CountVectorizer(ngram_range=(1, 2), token_pattern=WORD_PATTERN, **common), prepared),
        _table(CountVectorizer(analyzer="char_wb", ngram_range=(SHORTEST, LONGEST), **common), prepared),
        surfaces(texts),
    )


class CountedClassifier:
    """A classifier that is fitted on some of the counted texts, and scores others of them."""

    def __init__(self, counted: Counted, shape: Shape = DEFAULT_SHAPE) -> None:
        self._counted = counted
        self._shape = shape
        self._parts: list[Part] = []
        self._scaler = StandardScaler()
        self._regression = LogisticRegression()

    def fit(self, seen: Bools, is_complex: Bools, weights: Floats) -> CountedClassifier:
        """Learns from the texts that are seen; the other arguments have a value for every text.

        Blocks: 1 s for 4,000 texts.
        """
        self._scaler.fit(self._counted.surfaces[seen])
        tables = (self._counted.words, self._counted.pieces)
        self._parts = [_part(table, seen, self._shape.least_documents) for table in tables]
        matrix = self._matrix(seen)
        self._regress(matrix, is_complex[seen], weights[seen])
        moves = np.abs(self._regression.coef_[0]) * np.asarray(matrix.mean(axis=0)).ravel()
        number = len(self._parts[0].kept)
        most = (self._shape.most_words, self._shape.most_pieces)
        slices = (moves[:number], moves[number : number + len(self._parts[1].kept)])
        self._parts = [_strongest(*each) for each in zip(self._parts, slices, most, strict=True)]
        self._regress(self._matrix(seen), is_complex[seen], weights[seen])
        return self

    def scores(self, rows: Bools) -> Floats:
        """Of some of the texts: above 0 leans to complex."""
        scores: Floats = self._regression.decision_function(self._matrix(rows))
        return scores

    def tables(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """The vocabulary and the weights of an artifact."""
        words, pieces = self._parts
        number, terms = len(words.kept), len(words.kept) + len(pieces.kept)
        weight = self._regression.coef_[0]
        vocabulary = {
            "words": [str(term) for term in self._counted.words.terms[words.kept]],
            "pieces": [str(term) for term in self._counted.pieces.terms[pieces.kept]],
        }
        return vocabulary, {
            "words_idf": words.idf.astype(np.float32),
            "words_weight": weight[:number].astype(np.float32),
            "pieces_idf": pieces.idf.astype(np.float32),
            "pieces_weight": weight[number:terms].astype(np.float32),
            "surface_mean": self._scaler.mean_,
            "surface_scale": self._scaler.scale_,
            "surface_weight": weight[terms:] * self._shape.surface_share,
            "bias": self._regression.intercept_[0],
        }

    def _matrix(self, rows: Bools) -> csr_matrix:
        blocks = [
            normalize(table.frequencies[rows][:, part.kept] @ diags(part.idf))
            for table, part in zip((self._counted.words, self._counted.pieces), self._parts, strict=True)
        ]
        scaled = self._scaler.transform(self._counted.surfaces[rows]) * self._shape.surface_share
        return csr_matrix(hstack([*blocks, csr_matrix(scaled)]))

    def _regress(self, matrix: csr_matrix, is_complex: Bools, weights: Floats) -> None:
        self._regression = LogisticRegression(
            C=self._shape.inverse_regularisation, solver="liblinear", intercept_scaling=10, max_iter=500
        )
        self._regression.fit(matrix, is_complex, sample_weight=weights)


def _table(vectorizer: CountVectorizer, prepared: Sequence[str]) -> Table:
    try:
        counts = csr_matrix(vectorizer.fit_transform(prepared), dtype=np.float64)
    except ValueError:  # no term stands in two texts
        return Table(np.array([], dtype=object), csr_matrix((len(prepared), 0)))
    counts.data = 1 + np.log(counts.data)
    return Table(np.array(vectorizer.get_feature_names_out(), dtype=object), counts)


def _part(table: Table, seen: Bools, least: int) -> Part:
    """The terms that enough of the seen texts have."""
    documents = np.asarray((table.frequencies[seen] > 0).sum(axis=0)).ravel()
    kept = np.flatnonzero(documents >= least)
    return Part(kept, np.log((1 + seen.sum()) / (1 + documents[kept])) + 1)


def _strongest(part: Part, moves: Floats, most: int) -> Part:
    chosen = np.sort(np.argsort(-moves, kind="stable")[:most])
    return Part(part.kept[chosen], part.idf[chosen])
