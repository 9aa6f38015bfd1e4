"""What learning is worth: `.venv/bin/python benchmarks/surrogate.py [PART …]`, all parts without one.

    routellm   accuracy, AUC, APGR and CPT on Mixtral against GPT-4 (MMLU, GSM8K), by cross-validation
    prompts    a surrogate with sentence embeddings, fitted on the starter's rows, on prompts that were not trained on
    traffic    coverage at 95 % agreement after so many traces, and what the agreement is on untouched traffic
    noise      200 installations with teachers that err in 0, 5, 10 and 20 % of cases: does the guarantee hold?
    latency    of a decision, with and without the second look

`--rows` bounds what is fitted on, for a quick look. The exit code is 0 if every goal is reached.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from lab.routellm import judge  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import Progress  # noqa: E402
from rich.table import Table  # noqa: E402
from sklearn.decomposition import TruncatedSVD  # noqa: E402
from sklearn.feature_extraction.text import TfidfTransformer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from hermes.bounds import interval  # noqa: E402
from hermes.embedding.models import MINILM, open_embedder  # noqa: E402
from hermes.learning import candidates  # noqa: E402
from hermes.learning.acceptor import Certificate, Look, Looks, certify  # noqa: E402
from hermes.learning.candidates import Problem, Scored  # noqa: E402
from hermes.learning.counted import CountedClassifier, count  # noqa: E402
from hermes.learning.fitting import embed  # noqa: E402
from hermes.learning.rows import read_rows, without_near  # noqa: E402
from hermes.learning.templates import generate  # noqa: E402
from hermes.learning.thresholds import COMPLEX_MISTAKE_COST  # noqa: E402
from hermes.learning.traffic import Row  # noqa: E402
from hermes.routing.surrogates import starter  # noqa: E402

DATA = ROOT / "benchmarks" / "data"
STARTER = ROOT / "hermes" / "learning" / "data" / "starter.jsonl.gz"
ROUTELLM = DATA / "routellm_train.jsonl.gz"
EVALUATION = DATA / "prompts_eval.jsonl"

TARGET = 0.95
REPETITIONS = 200
TRACES = 2_000
"""Of each simulated installation."""

NOISE = ((0.0, 0.95), (0.05, 0.95), (0.05, 0.9), (0.1, 0.85), (0.2, 0.95), (0.2, 0.7))
"""How often the teacher errs, and the target: an honest one lies under the teacher's own consistency."""

MOST_BROKEN = 0.05
DIMENSIONS = 100
Floats = NDArray[np.float64]

console = Console()
goals: list[tuple[bool, str]] = []


def main() -> int:
    """The parts that are wanted."""
    parts: dict[str, Callable[[int | None], None]] = {
        "routellm": routellm,
        "prompts": prompts,
        "traffic": traffic,
        "noise": noise,
        "latency": latency,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to measure; everything without one")
    parser.add_argument("--rows", type=int, default=None, help="at most so many rows to fit on")
    options = parser.parse_args()
    unknown = set(options.parts) - set(parts)
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are: {', '.join(parts)}")
    with threadpool_limits(1):
        for name in options.parts or parts:
            parts[name](options.rows)
    for is_reached, text in goals:
        console.print(f"{'ok  ' if is_reached else 'FAIL'}  {text}", highlight=False)
    return int(not all(is_reached for is_reached, _ in goals))


# -- RouteLLM ------------------------------------------------------------------------------------------------------


def routellm(most: int | None) -> None:
    """Who answers right is predicted for both models; the difference ranks the prompts."""
    rows = [json.loads(line) for line in gzip.decompress(ROUTELLM.read_bytes()).splitlines()]
    rows = _some(rows, most)
    weak, strong = (np.array([bool(row[name]) for row in rows]) for name in ("weak_correct", "strong_correct"))
    is_math = np.array(["gsm" in row["source"].lower() for row in rows])
    texts = [row["prompt"] for row in rows]
    vectors = _vectors(texts)
    as_rows = [Row(text, "simple" if right else "complex", "") for text, right in zip(texts, weak, strict=True)]
    problem = candidates.problem_of(as_rows, vectors)
    scored = _scored(problem)
    of_strong = _scored(_relabelled(problem, strong))  # here too `complex` means: right
    weak_right = {name: 1 - p for name, p in _named(scored).items()}
    chance = np.random.default_rng(1)
    ways = {
        "random": (chance.uniform(size=len(rows)), None),
        "prompt length": (np.array([float(len(text)) for text in texts]), 1 - candidates.by_length(problem)),
        **{name: (_named(of_strong)[name] - p, p) for name, p in weak_right.items()},
    }
    table = _table(
        "RouteLLM", "router", "accuracy", "AUC", "MMLU APGR", "CPT50", "CPT80", "GSM8K APGR", "CPT50", "CPT80"
    )
    for name, (ranks, p_weak_right) in ways.items():
        exam, math = (judge(ranks[part], weak[part], strong[part]) for part in (~is_math, is_math))
        quality = ("", "") if p_weak_right is None else _quality(p_weak_right, problem)
        table.add_row(
            name, *quality, f"{exam.apgr:.3f}", f"{exam.cpt50:.1f}", f"{exam.cpt80:.1f}",
            f"{math.apgr:.3f}", f"{math.cpt50:.1f}", f"{math.cpt80:.1f}",
        )  # fmt: skip
        if name == "both":
            goals.append((exam.apgr >= 0.64, f"APGR on MMLU with both: {exam.apgr:.3f} (goal: 0.64)"))
    console.print(table)


def _relabelled(problem: Problem, labels: Any) -> Problem:
    return replace(problem, is_complex=labels)


def _quality(p_weak_right: Floats, problem: Problem) -> tuple[str, str]:
    p_wrong = 1 - p_weak_right
    return f"{candidates.accuracy(p_wrong, problem):.3f}", f"{candidates.auc(p_wrong, problem):.3f}"


# -- prompts that were not trained on ------------------------------------------------------------------------------


def prompts(most: int | None) -> None:
    """Fits on the starter's rows and our templates, decides the evaluation prompts."""
    asked = read_rows(EVALUATION)
    rows = _some(without_near([*read_rows(STARTER), *generate()], [row.text for row in asked]), most)
    everything = [Row(row.text, row.tier, "") for row in (*rows, *asked)]
    texts = [row.text for row in everything]
    seen = np.arange(len(texts)) < len(rows)
    problem = Problem(
        texts, np.array([row.tier == "complex" for row in everything]), np.ones(len(texts)), np.ones(len(texts)),
        np.arange(len(texts)) % candidates.FOLDS, count(texts), _vectors(texts),
    )  # fmt: skip
    assert problem.vectors is not None
    words = CountedClassifier(problem.counted).fit(seen, problem.is_complex, problem.weights)
    meaning = candidates.meaning_head(problem, seen)
    logits = {
        "words": words.scores(~seen),
        "meaning": meaning.decision_function(problem.vectors[~seen]),
    }
    logits["both"] = (logits["words"] + logits["meaning"]) / 2
    is_complex = problem.is_complex[~seen]
    table = _table(
        "138 prompts that were not trained on", "surrogate", "right", "complex to simple", "simple to complex"
    )
    ways = {name: scores >= 0 for name, scores in logits.items()}
    ways["the one that ships"] = np.array([starter().judge(row.text).tier == "complex" for row in asked])
    for name, verdict in ways.items():
        right, to_simple = float((verdict == is_complex).mean()), float((~verdict[is_complex]).mean())
        table.add_row(name, f"{right:.3f}", f"{to_simple:.3f}", f"{float(verdict[~is_complex].mean()):.3f}")
        if name == "both":
            goals.append((right >= 0.93, f"right on unseen prompts with embeddings: {right:.3f} (goal: 0.93)"))
            goals.append((to_simple <= 0.1, f"complex sent to simple: {to_simple:.3f} (goal: 0.10 at most)"))
    console.print(table)


# -- traffic -------------------------------------------------------------------------------------------------------


def traffic(most: int | None) -> None:
    """The starter's rows are traffic here, and their labels what a teacher says."""
    rows = read_rows(STARTER)
    table = _table(
        "Traffic of one's own, target 95 %", "traces", "candidate", "coverage", "certified", "agreement elsewhere",
        "between", "seconds of CPU",
    )  # fmt: skip
    for number, goal in ((1_000, 0.6), (4_000, 0.78)):
        if most is not None and number > most:
            continue
        chosen = _shuffled(rows, seed=3)
        began = time.process_time()
        seen = [Row(row.text, row.tier, "") for row in chosen[:number]]
        problem = candidates.problem_of(seen)
        scored = _scored(problem)
        certificate = _certified(scored.probabilities.words, problem.is_complex, problem.weights)
        took_s = time.process_time() - began
        elsewhere = chosen[number : number + 2_000]
        accepted, right = _elsewhere(problem, scored, elsewhere, certificate)
        coverage, agreement, bounds = accepted / len(elsewhere), right / max(accepted, 1), interval(right, accepted)
        table.add_row(
            f"{number:,}", "words", f"{coverage:.3f}", f"{certificate.lower if certificate else 0:.3f}",
            f"{agreement:.3f}", f"{bounds.lower:.3f} to {bounds.upper:.3f}", f"{took_s:.1f}",
        )  # fmt: skip
        goals.append((coverage >= goal, f"coverage after {number:,} traces: {coverage:.2f} (goal: {goal})"))
        goals.append((bounds.upper >= TARGET, f"agreement elsewhere: {agreement:.3f} (target: {TARGET})"))
    console.print(table)


def _elsewhere(
    problem: Problem, scored: Scored, rows: Sequence[Any], certificate: Certificate | None
) -> tuple[int, int]:
    """How many other rows are accepted, and how many of these verdicts are right."""
    if certificate is None:
        return 0, 0
    texts = [*problem.texts, *(row.text for row in rows)]
    is_complex = np.array([*problem.is_complex, *(row.tier == "complex" for row in rows)])
    seen = np.arange(len(texts)) < len(problem.texts)
    model = CountedClassifier(count(texts)).fit(seen, is_complex, np.ones(len(texts)))
    (slope,), offset = candidates.head(scored.words[:, None], problem)
    look = _look(1 / (1 + np.exp(-(slope * model.scores(~seen) + offset))), is_complex[~seen])
    accepted = look.assurance >= certificate.level
    return int(accepted.sum()), int((accepted & look.right).sum())


# -- noisy teachers ------------------------------------------------------------------------------------------------


def noise(most: int | None) -> None:
    """The acceptor is on trial here and not the classifier, so a quick one will do: words in a hundred dimensions."""
    rows = _shuffled(read_rows(STARTER), seed=5)
    truth = np.array([row.tier == "complex" for row in rows])
    words = count([row.text for row in rows]).words.frequencies
    matrix = TruncatedSVD(DIMENSIONS, random_state=1).fit_transform(TfidfTransformer().fit_transform(words))
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    table = _table(
        f"{REPETITIONS} installations with {TRACES:,} traces each", "teacher errs", "target", "deployed", "coverage",
        "agreement elsewhere", "least", "guarantee broken",
    )  # fmt: skip
    repetitions = REPETITIONS if most is None else max(10, most // 100)
    for errs, target in NOISE:
        runs = []
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for seed in progress.track(range(repetitions), description=f"Teacher errs in {errs:.0%}"):
                runs.append(_installation(matrix, truth, errs, target, seed))
        coverage, agreement = np.array([run[0] for run in runs]), np.array([run[1] for run in runs])
        deployed = coverage > 0
        broken = float((deployed & (agreement < target)).mean())
        mean, least = (agreement[deployed].mean(), agreement[deployed].min()) if deployed.any() else (np.nan, np.nan)
        table.add_row(
            f"{errs:.0%}", f"{target:.2f}", f"{deployed.mean():.0%}", f"{coverage.mean():.2f}", f"{mean:.3f}",
            f"{least:.3f}", f"{broken:.1%}",
        )  # fmt: skip
        goals.append(
            (
                broken <= MOST_BROKEN,
                f"teacher errs in {errs:.0%}, target {target}: broken in {broken:.1%} of {repetitions}",
            )
        )
    console.print(table)


def _installation(matrix: Floats, truth: Any, errs: float, target: float, seed: int) -> tuple[float, float]:
    """Coverage of one installation, and its agreement with the same teacher on the traffic that it has not seen."""
    chance = np.random.default_rng(seed)
    taught = truth ^ (chance.uniform(size=len(truth)) < errs)
    order = chance.permutation(len(truth))
    seen, unseen = order[:TRACES], order[TRACES:]
    fold = np.arange(TRACES) % candidates.FOLDS
    scores = np.zeros(TRACES)
    for number in range(candidates.FOLDS):
        model = _fitted(matrix[seen[fold != number]], taught[seen[fold != number]])
        scores[fold == number] = model.decision_function(matrix[seen[fold == number]])
    p_complex = np.zeros(TRACES)
    for number in range(candidates.FOLDS):
        others = _fitted(scores[fold != number][:, None], taught[seen[fold != number]])
        p_complex[fold == number] = others.predict_proba(scores[fold == number][:, None])[:, 1]
    certificate = _certified(p_complex, taught[seen], np.ones(TRACES), target)
    if certificate is None:
        return 0.0, 1.0
    calibration = _fitted(scores[:, None], taught[seen])
    final = _fitted(matrix[seen], taught[seen]).decision_function(matrix[unseen])
    look = _look(calibration.predict_proba(final[:, None])[:, 1], taught[unseen])
    accepted = look.assurance >= certificate.level
    return float(accepted.mean()), float(look.right[accepted].mean()) if accepted.any() else 1.0


def _fitted(matrix: Floats, labels: Any) -> LogisticRegression:
    return LogisticRegression(C=10, solver="newton-cholesky").fit(matrix, labels)


# -- latency -------------------------------------------------------------------------------------------------------


def latency(most: int | None) -> None:
    """Of the evaluation prompts, in this thread, on whatever this machine is."""
    texts = [row.text for row in read_rows(EVALUATION)]
    embedder = open_embedder(MINILM)
    table = _table("Latency in ms", "what", "CPU p50", "CPU p99", "wall p50", "wall p99")
    for name, act in (("words", starter().judge), ("sentence embedding", embedder.embed)):
        for text in texts:
            act(text)
        cpu, wall = [], []
        for text in texts * 3:
            began, began_cpu = time.perf_counter(), time.thread_time()
            act(text)
            cpu.append((time.thread_time() - began_cpu) * 1000)
            wall.append((time.perf_counter() - began) * 1000)
        table.add_row(name, *(f"{np.percentile(times, q):.2f}" for times in (cpu, wall) for q in (50, 99)))
    console.print(table)


# -- what they share -----------------------------------------------------------------------------------------------


def _certified(p_complex: Floats, is_complex: Any, weights: Floats, target: float = TARGET) -> Certificate | None:
    return certify(Looks(weights, _look(p_complex, is_complex)), target)


def _look(p_complex: Floats, is_complex: Any) -> Look:
    verdict = p_complex >= 0.5
    doubt = np.where(verdict, 1 - p_complex, COMPLEX_MISTAKE_COST * p_complex)
    return Look(1 - doubt, verdict == is_complex)


def _named(scored: Scored) -> dict[str, Floats]:
    p = scored.probabilities
    found = {"words": p.words, "meaning": p.meaning, "both": p.both}
    return {name: values for name, values in found.items() if values is not None}


def _scored(problem: Problem) -> Scored:
    with Progress(console=Console(stderr=True), transient=True) as progress:
        return candidates.score(problem, _track(progress), jobs=1)


def _vectors(texts: list[str]) -> Floats:
    with Progress(console=Console(stderr=True), transient=True) as progress:
        return embed(texts, open_embedder(MINILM), _track(progress))


def _track(progress: Progress) -> candidates.Track:
    def track(steps: Iterator[Any], total: int, description: str) -> Iterator[Any]:
        return iter(progress.track(steps, total=total, description=description))

    return track


def _some(rows: list[Any], most: int | None) -> list[Any]:
    return rows if most is None else _shuffled(rows, seed=1)[:most]


def _shuffled(rows: list[Any], seed: int) -> list[Any]:
    return [rows[at] for at in np.random.default_rng(seed).permutation(len(rows))]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


if __name__ == "__main__":
    sys.exit(main())
