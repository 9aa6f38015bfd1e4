"""What might become the surrogate: the words of a text, their meaning as a sentence embedding, and both together.

Each has a linear head. They are compared by cross-validation: variations of one text stay on one side, and what a
verdict's probability was calibrated on never includes the text itself.
"""

from __future__ import annotations

import hashlib
from collections import Counter
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
from hermes.learning.families import families_of
from hermes.learning.traffic import Row, TrafficUnusable
from hermes.learning.weights import balanced
from hermes.types import TIERS

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Folds = NDArray[np.intp]

FOLDS: Final = 5
MOST_WEIGHT: Final = 4.0
"""While fitting; a single audited text that stands for a hundred must not turn the whole model."""

EMBEDDING_C: Final = 3.0
WORTH_PROCESSES: Final = 1500
"""Rows from which folds are fitted in processes of their own: starting these takes a second."""


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
    """How much each row counts while judging: in proportion to the requests that it stands for, see `balanced`."""

    fit_weights: Floats
    """How much each row counts while fitting."""

    fold: Folds
    """Which fold each row is in."""

    counted: Counted
    """Their terms."""

    vectors: Floats | None = None
    """Sentence embeddings. Shape (n, 384)."""


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
    """The arrays of rows, which stand in the order of time; a family shares a fold.

    Raises:
        TrafficUnusable: nothing can be held back to test on.
    """
    texts = [row.text for row in rows]
    is_complex = np.array([row.tier == "complex" for row in rows])
    fold = _folds(families_of(rows), is_complex, folds)
    for tier, of_tier in zip(TIERS, (~is_complex, is_complex), strict=True):
        if len(set(fold[of_tier].tolist())) < 2:
            raise TrafficUnusable(
                f"All {int(of_tier.sum())} texts that the teacher called {tier} are variations of one text, or come "
                "from one conversation: none can be held back to test on. Let more various traffic come."
            )
    weights = [row.weight for row in rows]
    fit_weights = np.minimum(weights, MOST_WEIGHT)
    return Problem(texts, is_complex, balanced(weights), fit_weights, fold, count(texts), vectors)


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
    """Deals families out, those of each tier one after the other, each to the fold that has the fewest rows of that
    tier, in an order that only their texts give.
    """
    tier_of: dict[str, bool] = {}
    sizes = Counter(families)
    for family, tier in zip(families, is_complex, strict=True):
        tier_of.setdefault(family, bool(tier))
    in_order = sorted(
        tier_of, key=lambda family: (tier_of[family], hashlib.sha256(family.encode("utf-8", "replace")).digest())
    )
    filled = {tier: [0] * folds for tier in (False, True)}
    fold_of = {}
    for family in in_order:
        rows = filled[tier_of[family]]
        fold_of[family] = rows.index(min(rows))
        rows[fold_of[family]] += sizes[family]
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
