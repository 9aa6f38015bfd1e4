"""What might become the surrogate: the words of a text, their meaning as a sentence embedding, and both together.

Each has a linear head. They are compared by cross-validation: variations of one text stay on one side, and what a
verdict's probability was calibrated on never includes the text itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from hermes.learning.counted import Counted, CountedClassifier, count
from hermes.learning.traffic import Row

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Folds = NDArray[np.intp]

FOLDS: Final = 5
MOST_WEIGHT: Final = 4.0
"""While fitting; a single audited text that stands for a hundred must not turn the whole model."""

EMBEDDING_C: Final = 3.0
WORTH_PROCESSES: Final = 1500
"""Rows from which folds are fitted in processes of their own: starting these takes a second."""

_DIGITS = re.compile(r"\d+")


class Track(Protocol):
    """Shows how far something is."""

    def __call__(self, steps: Iterator[Any], total: int, description: str) -> Iterator[Any]:
        """The same steps."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows as arrays."""

    texts: list[str]
    is_complex: Bools
    weights: Floats
    """For how many requests each row stands."""

    fold: Folds
    """Which fold each row is in."""

    counted: Counted
    """Their terms."""

    vectors: Floats | None = None
    """Sentence embeddings. Shape (n, 384)."""

    @property
    def fit_weights(self) -> Floats:
        """How much each row counts while fitting."""
        return np.minimum(self.weights, MOST_WEIGHT)


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Of *complex*, each given without having seen the text. Shape (n,)."""

    words: Floats
    meaning: Floats | None
    both: Floats | None


@dataclass(frozen=True, slots=True)
class Scored:
    """Out-of-fold scores, and the probabilities made of them."""

    words: Floats
    meaning: Floats | None
    probabilities: Probabilities


def problem_of(rows: Sequence[Row], vectors: Floats | None = None, folds: int = FOLDS) -> Problem:
    """The arrays of rows; texts that differ in numbers only share a fold."""
    texts = [row.text for row in rows]
    is_complex = np.array([row.tier == "complex" for row in rows])
    fold = _folds([_DIGITS.sub("0", text.casefold()) for text in texts], is_complex, folds)
    return Problem(texts, is_complex, np.array([row.weight for row in rows]), fold, count(texts), vectors)


def score(problem: Problem, track: Track, jobs: int = 2) -> Scored:
    """Scores every row by models that have not seen it.

    Blocks: 10 s for 4,000 rows.
    """
    with threadpool_limits(1):  # threads that wait for each other by spinning took three times as long
        return _scored(problem, track, jobs)


def _scored(problem: Problem, track: Track, jobs: int) -> Scored:
    words = _out_of_fold(problem, lambda seen, unseen: _words(problem, seen, unseen), track, jobs, "Words")
    p_words = _probabilities(problem, words[:, None])
    if problem.vectors is None:
        return Scored(words, None, Probabilities(p_words, None, None))
    meaning = _out_of_fold(problem, lambda seen, unseen: _meaning(problem, seen, unseen), track, 1, "Meaning")
    p_meaning = _probabilities(problem, meaning[:, None])
    p_both = _probabilities(problem, np.column_stack([words, meaning]))
    return Scored(words, meaning, Probabilities(p_words, p_meaning, p_both))


def head(scores: Floats, problem: Problem) -> tuple[list[float], float]:
    """Platt's sigmoid over one score or several: a factor for each, and the offset. `scores`: shape (n, scores)."""
    fitted = LogisticRegression(C=1e6).fit(scores, problem.is_complex, sample_weight=problem.fit_weights)
    return [float(value) for value in fitted.coef_[0]], float(fitted.intercept_[0])


def meaning_head(problem: Problem, rows: Bools | None = None) -> LogisticRegression:
    """The linear head over sentence embeddings, fitted on some rows or all."""
    assert problem.vectors is not None
    chosen = np.ones(len(problem.texts), np.bool_) if rows is None else rows
    model = LogisticRegression(C=EMBEDDING_C, max_iter=500)
    return model.fit(problem.vectors[chosen], problem.is_complex[chosen], sample_weight=problem.fit_weights[chosen])


def by_length(problem: Problem) -> Floats:
    """The probabilities of the simplest idea of all: long texts are complex."""
    return _probabilities(problem, np.log1p([[len(text)] for text in problem.texts]))


def accuracy(p_complex: Floats, problem: Problem) -> float:
    """How often the likelier tier is the teacher's, 0..1."""
    return float(np.average((p_complex >= 0.5) == problem.is_complex, weights=problem.weights))


def auc(p_complex: Floats, problem: Problem) -> float:
    """How well complex texts are ranked before simple ones, 0..1."""
    return float(roc_auc_score(problem.is_complex, p_complex, sample_weight=problem.weights))


def _folds(families: Sequence[str], is_complex: Bools, folds: int) -> Folds:
    """Deals families out, those of each tier one after the other, in an order that only their texts give."""
    first: dict[str, bool] = {}
    for family, tier in zip(families, is_complex, strict=True):
        first.setdefault(family, bool(tier))
    in_order = sorted(
        first, key=lambda family: (first[family], hashlib.sha256(family.encode("utf-8", "replace")).digest())
    )
    fold_of = {family: number % folds for number, family in enumerate(in_order)}
    return np.array([fold_of[family] for family in families], np.intp)


def _out_of_fold(
    problem: Problem, predict: Callable[[Bools, Bools], Floats], track: Track, jobs: int, description: str
) -> Floats:
    numbers = sorted({int(number) for number in problem.fold})
    processes = jobs if len(problem.texts) >= WORTH_PROCESSES else 1
    asked = (delayed(predict)(problem.fold != number, problem.fold == number) for number in numbers)
    done = Parallel(n_jobs=processes, return_as="generator")(asked)
    scores = np.zeros(len(problem.texts))
    found = track(done, total=len(numbers), description=description)
    for number, of_fold in zip(numbers, found, strict=True):
        scores[problem.fold == number] = of_fold
    return scores


def _words(problem: Problem, seen: Bools, unseen: Bools) -> Floats:
    model = CountedClassifier(problem.counted).fit(seen, problem.is_complex, problem.fit_weights)
    return model.scores(unseen)


def _meaning(problem: Problem, seen: Bools, unseen: Bools) -> Floats:
    assert problem.vectors is not None
    scores: Floats = meaning_head(problem, seen).decision_function(problem.vectors[unseen])
    return scores


def _probabilities(problem: Problem, scores: Floats) -> Floats:
    """Calibrates each fold by the others."""
    found = np.zeros(len(problem.texts))
    for number in sorted({int(number) for number in problem.fold}):
        unseen = problem.fold == number
        model = LogisticRegression(C=1e6).fit(
            scores[~unseen], problem.is_complex[~unseen], sample_weight=problem.fit_weights[~unseen]
        )
        found[unseen] = model.predict_proba(scores[unseen])[:, 1]
    return found
