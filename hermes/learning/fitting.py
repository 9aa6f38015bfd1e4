"""A whole fit: from rows of traffic to a version that may be put in force, or to the sentence why there is none.

Candidates are compared by cross-validation, the better one's acceptor is certified, the gate compares it with the live
surrogate, and only then it is fitted on everything and written. What was written is read back by the code that serves,
and must decide alike. Runs in a process of its own, never in one that serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from hermes.bounds import DELTA, ceiling, upper_bound
from hermes.embedding.models import MINILM, Embedder, EmbedderMissing, open_embedder
from hermes.errors import HermesError
from hermes.learning import candidates, gate
from hermes.learning.acceptor import Certificate, Look, Looks, certify
from hermes.learning.candidates import Bools, Floats, Problem, Scored, Track
from hermes.learning.counted import DEFAULT_SHAPE, CountedClassifier
from hermes.learning.gate import NotBetter, Outcome, share
from hermes.learning.thresholds import COMPLEX_MISTAKE_COST, choose_cut
from hermes.learning.traffic import LEAST_DOUBTED, Traffic, TrafficUnusable
from hermes.routing import artifact
from hermes.routing.second import EmbeddingSurrogate, with_second_look
from hermes.routing.standing import NOTHING
from hermes.routing.surrogate import TfidfSurrogate
from hermes.types import TIERS

LEAST_ROWS: Final = 100
LEAST_OF_A_TIER: Final = 10
NEAR: Final = 0.02
"""A target so near to what the teacher's own wavering allows, or above it, is named as what stands in the way."""

WITHIN: Final = 0.05
"""`--prefer-embeddings`: so much accuracy is given up for them."""

COMPARED: Final = 50
TOLERANCE: Final = 1e-3
"""Between the probabilities of scikit-learn and of the serving code, which rounds weights to 32 bits."""

METHODS: Final = {
    "words": "TF-IDF of words (1, 2) and pieces of words (2 to 5), surface features, logistic regression",
    "both": "the same, and sentence embeddings with a linear head for what the words leave open",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator may say."""

    target: float = 0.95
    prefer_embeddings: bool = False
    embeddings: str | None = MINILM
    """The model; None: words alone."""

    jobs: int = 2


@dataclass(frozen=True, slots=True)
class Fitted:
    """A surrogate that has passed the gate, ready to be written."""

    manifest: Mapping[str, Any]
    vocabulary: Mapping[str, list[str]]
    weights: Mapping[str, Any]
    embedding: Mapping[str, Any] | None
    sample: tuple[tuple[str, float], ...]
    """Texts, and the probability that each is complex."""

    note: str | None = None
    """What the operator should know beside."""

    def write(self, directory: Path) -> None:
        """Writes the directory."""
        artifact.write(directory, self.manifest, self.vocabulary, self.weights, self.embedding)

    def check(self, directory: Path) -> None:
        """Reads it as a server does, and compares.

        Raises:
            SmokeFailed, ArtifactInvalid: it must not be put in force.
        """
        served = with_second_look(artifact.read(directory), directory.name)
        for text, expected in self.sample:
            found = served.probability(text)
            if isinstance(served, EmbeddingSurrogate):
                found = served.probability_of_both(text, served.vector_of(text))
            if abs(found - expected) > TOLERANCE:
                raise SmokeFailed(f"What was written decides otherwise than what was fitted ({found} for {expected})")


class SmokeFailed(HermesError):
    """A version that does not do what it should; the one before stays, or comes back."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A candidate with its acceptor."""

    name: str
    p_complex: Floats
    cut: float
    certificate: Certificate
    alone: Certificate | None
    """Of the words alone, where embeddings take part."""

    accepted: Bools
    right: Bools


def fit(traffic: Traffic, live: TfidfSurrogate, options: Options, track: Track) -> Fitted:
    """Fits on traffic, and compares with the surrogate that decides at the moment.

    Raises:
        TrafficUnusable: there is too little, or it says nothing.
        NotBetter: it passes no gate.

    Blocks: 10 s for 4,000 rows, and 5 ms for each row's embedding.
    """
    check_traffic(traffic, options.target)
    new = new_rows(traffic, live)
    embedder, note = _embedder(options)
    vectors = None if embedder is None else embed([row.text for row in traffic.rows], embedder, track)
    problem = candidates.problem_of(traffic.rows, vectors)
    scored = candidates.score(problem, track, options.jobs)
    chosen = _choose(problem, scored, options, _wavering(traffic, options.target))
    outcome = _gate(problem, chosen, live, new)
    gate.check(outcome, options.target)
    with threadpool_limits(1):
        return _final(traffic, problem, scored, chosen, outcome, embedder, note)


def check_traffic(traffic: Traffic, target: float) -> None:
    """
    Raises:
        TrafficUnusable: nothing can be fitted on it.
    """
    counts = traffic.counts
    if counts["rows"] < LEAST_ROWS:
        raise TrafficUnusable(
            f"There are {counts['rows']} texts with the teacher's verdict, and {LEAST_ROWS} are needed (about 1,000 to "
            "decide much): let the teacher decide for a while, with logging.store_prompts at full."
        )
    for tier in TIERS:
        if counts[tier] < LEAST_OF_A_TIER:
            raise TrafficUnusable(
                f"The teacher called {counts[tier]} of {counts['rows']} texts {tier}: there is nothing to tell apart. "
                f"At least {LEAST_OF_A_TIER} of each tier are needed."
            )
    again, changed = traffic.doubted
    most = ceiling(upper_bound(again - changed, again)) if again >= LEAST_DOUBTED else 1.0
    if most < target:
        raise TrafficUnusable(
            f"Of {again} texts that the teacher judged again it judged {again - changed} as before: nobody can agree "
            f"with such a teacher in more than {most:.1%} of cases, and the target is {target:.1%}. Mend "
            "classifier.system_prompt, take another model, or lower the target."
        )


def new_rows(traffic: Traffic, live: TfidfSurrogate) -> Bools:
    """The rows that the live surrogate was not fitted on.

    Raises:
        NotBetter: these are too few to judge it by.
    """
    until = str(live.manifest.get("trained_until", ""))
    new = np.array([row.created_at > until for row in traffic.rows])
    if new.sum() < gate.LEAST_NEW_ROWS:
        raise NotBetter(
            f"Nothing was replaced: only {new.sum()} texts have come since the live surrogate {live.version} was "
            f"fitted, and {gate.LEAST_NEW_ROWS} are needed to compare another one with it."
        )
    return new


def embed(texts: Sequence[str], embedder: Embedder, track: Track) -> Floats:
    """The vectors of texts. Shape (n, 384). Blocks: 5 ms a text."""
    steps = track(iter(texts), total=len(texts), description="Embeddings")
    return np.array([embedder.embed(text) for text in steps], np.float64)


def _embedder(options: Options) -> tuple[Embedder | None, str | None]:
    if options.embeddings is None:
        return None, None
    try:
        return open_embedder(options.embeddings), None
    except EmbedderMissing as missing:
        return None, f"Fitted on words alone, as {missing}."


def _wavering(traffic: Traffic, target: float) -> str:
    """A sentence where the teacher itself is what makes the target hard to reach; else nothing."""
    again, changed = traffic.doubted
    most = ceiling(1 - changed / again) if again >= LEAST_DOUBTED else 1.0
    if most >= target + NEAR:
        return ""
    return (
        f" The teacher itself judged {changed} of {again} texts otherwise when it judged them again, so that even who "
        f"is always right would agree with it in some {most:.1%} only."
    )


def _choose(problem: Problem, scored: Scored, options: Options, wavering: str) -> _Chosen:
    """The better candidate with its acceptor. `wavering`: what to say of the teacher, where none can be found.

    Raises:
        NotBetter: there is no level at which it can be shown to keep the target.
    """
    p, target = scored.probabilities, options.target
    name = "words"
    if p.both is not None:
        head_start = WITHIN if options.prefer_embeddings else 0.0
        if candidates.accuracy(p.both, problem) + head_start > candidates.accuracy(p.words, problem):
            name = "both"
    p_complex = p.both if name == "both" and p.both is not None else p.words
    cut = choose_cut(p_complex, problem.is_complex, problem.weights)
    first = _look(p.words, cut, problem.is_complex)
    second = None if name == "words" else _look(p_complex, cut, problem.is_complex)
    # Where words decide by themselves on a machine without the model, that is a second claim: they share the risk.
    risk = DELTA if second is None else DELTA / 2
    looks = Looks(problem.weights, first, second)
    certificate = certify(looks, target, risk)
    if certificate is None:
        raise NotBetter(
            f"Nothing was replaced: with {len(problem.texts)} texts it cannot be shown for any threshold that "
            f"{target:.0%} of the accepted verdicts are the teacher's. More traffic helps, or a lower target.{wavering}"
        )
    alone = None if second is None else certify(Looks(problem.weights, first), target, risk)
    accepted, right = looks.decided(certificate.level)
    return _Chosen(name, p_complex, cut, certificate, alone, accepted, right)


def _look(p_complex: Floats, cut: float, is_complex: Bools) -> Look:
    verdict = p_complex >= cut
    doubt = np.where(verdict, 1 - p_complex, COMPLEX_MISTAKE_COST * p_complex)
    return Look(1 - doubt, verdict == is_complex)


def _gate(problem: Problem, chosen: _Chosen, live: TfidfSurrogate, new: Bools) -> Outcome:
    texts = [text for text, is_new in zip(problem.texts, new, strict=True) if is_new]
    reconsider = live.reconsider_here if isinstance(live, EmbeddingSurrogate) else live.reconsider
    accepted, right = gate.decisions(texts, problem.is_complex[new], live.judge, live.threshold_of, reconsider)
    weights = problem.weights
    common = float(np.average(problem.is_complex, weights=weights))
    return Outcome(
        rows=int(new.sum()),
        live=live.version,
        live_share=share(accepted, right, weights[new]),
        new_share=share(chosen.accepted[new], chosen.right[new], weights[new]),
        accuracy=candidates.accuracy(chosen.p_complex, problem),
        by_length=candidates.accuracy(candidates.by_length(problem), problem),
        majority=max(common, 1 - common),
    )


def _final(
    traffic: Traffic,
    problem: Problem,
    scored: Scored,
    chosen: _Chosen,
    outcome: Outcome,
    embedder: Embedder | None,
    note: str | None,
) -> Fitted:
    """The chosen candidate, fitted on everything."""
    everything = np.ones(len(problem.texts), np.bool_)
    classifier = CountedClassifier(problem.counted).fit(everything, problem.is_complex, problem.fit_weights)
    vocabulary, weights = classifier.tables()
    (slope,), offset = candidates.head(scored.words[:, None], problem)
    words = classifier.scores(everything)
    logits = slope * words + offset
    embedding = about_embedding = None
    if chosen.name == "both" and embedder is not None and scored.meaning is not None and problem.vectors is not None:
        (of_score, of_meaning), bias = candidates.head(np.column_stack([scored.words, scored.meaning]), problem)
        meaning = candidates.meaning_head(problem)
        weight = of_meaning * meaning.coef_[0]
        bias += of_meaning * float(meaning.intercept_[0])
        embedding = {"weight": weight.astype(np.float32), "mix": np.array([of_score, bias])}
        alone_from = NOTHING if chosen.alone is None else chosen.alone.level
        about_embedding = {"model": embedder.name, "sha256": embedder.sha256, "alone_from": alone_from}
        logits = of_score * words + problem.vectors @ weight + bias
    manifest = {
        "method": METHODS[chosen.name],
        "shape": asdict(DEFAULT_SHAPE),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "trained_until": max(row.created_at for row in traffic.rows),
        **({"learned_since": traffic.since} if traffic.since else {}),
        "data_sha256": traffic.sha256,
        "counts": traffic.counts,
        "cross_validation": _quality(problem, scored, chosen),
        "calibration": {"slope": slope, "offset": offset},
        "thresholds": {
            "complex": chosen.cut,
            "accept": chosen.certificate.level,
            "simple_cost": COMPLEX_MISTAKE_COST,
        },
        "certificate": _certificate(chosen),
        "gate": outcome.shown(),
        **({"embedding": about_embedding} if about_embedding is not None else {}),
    }
    probabilities = 1 / (1 + np.exp(-logits))
    sample = tuple(zip(problem.texts, map(float, probabilities), strict=True))[:COMPARED]
    return Fitted(manifest, vocabulary, weights, embedding, sample, note)


def _quality(problem: Problem, scored: Scored, chosen: _Chosen) -> dict[str, Any]:
    p = scored.probabilities
    named = {"words": p.words, "meaning": p.meaning, "both": p.both}
    quality = {
        name: {
            "accuracy": round(candidates.accuracy(values, problem), 4),
            "auc": round(candidates.auc(values, problem), 4),
        }
        for name, values in named.items()
        if values is not None
    }
    return {
        "folds": candidates.FOLDS,
        "by": "text, numbers apart",
        "accuracy": quality[chosen.name]["accuracy"],
        "candidates": quality,
    }


def _certificate(chosen: _Chosen) -> dict[str, Any]:
    certificate = chosen.certificate
    shown: dict[str, Any] = {
        "target": certificate.target,
        "confidence": 1 - DELTA,
        "coverage": round(certificate.coverage, 4),
        "agreement": round(certificate.agreement, 4),
        "lower": round(certificate.lower, 4),
        "points": [[round(value, 6) for value in point] for point in certificate.points],
    }
    if chosen.alone is not None:
        shown["alone"] = [[round(value, 6) for value in point] for point in chosen.alone.points]
    return shown
