"""Fits the surrogate that ships: `python -m hermes.learning.fit_starter DATA OUT`.

DATA are labelled prompts, OUT is the directory that is written. Our templates join the data, and prompts that resemble
an evaluation prompt leave it. Families of prompts are folded; out-of-fold scores give the calibration and the
thresholds; then the model is fitted on everything.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sklearn.model_selection import StratifiedGroupKFold

from hermes.learning.rows import distinct, read_rows, weights, without_near
from hermes.learning.templates import FOLDER, Prompt, generate
from hermes.learning.tfidf import Floats, Shape, TfidfClassifier
from hermes.learning.thresholds import Quality, calibrate, choose_acceptance, choose_cut, measure
from hermes.routing import artifact
from hermes.settings import ROOT

EVALUATION = ROOT / "benchmarks" / "data" / "prompts_eval.jsonl"
METHOD = "TF-IDF of words (1, 2) and pieces of words (2 to 5), surface features, logistic regression"
SEED = 1

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def out_of_fold(rows: Sequence[Prompt], shape: Shape, folds: int, jobs: int, progress: Progress) -> Floats:
    """Each row's score by a model that saw neither it nor its family. Shape (n,).

    Blocks: half a minute for 12,000 rows.
    """
    texts = [row.text for row in rows]
    is_complex, weight = tiers(rows), weights(rows)
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=SEED)

    def score(fold: Fold) -> tuple[NDArray[np.intp], Floats]:
        seen, unseen = fold
        model = TfidfClassifier(shape).fit([texts[at] for at in seen], is_complex[seen], weight[seen])
        return unseen, model.scores([texts[at] for at in unseen])

    scores = np.zeros(len(rows))
    splits: Iterator[Fold] = splitter.split(texts, is_complex, [row.family for row in rows])
    done = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(score)(fold) for fold in splits)
    for unseen, of_fold in progress.track(done, total=folds, description="Cross-validation"):
        scores[unseen] = of_fold
    return scores


def fit(
    rows: Sequence[Prompt],
    out: Path,
    about: Mapping[str, Any],
    progress: Progress,
    *,
    shape: Shape,
    folds: int,
    jobs: int,
) -> Quality:
    """Fits on rows and writes the directory; the quality is that of out-of-fold verdicts."""
    is_complex, weight = tiers(rows), weights(rows)
    scores = out_of_fold(rows, shape, folds, jobs, progress)
    sigmoid = calibrate(scores, is_complex, weight)
    cut = choose_cut(sigmoid(scores), is_complex, weight)
    acceptance = choose_acceptance(sigmoid(scores), is_complex, weight, cut)
    quality = measure(sigmoid(scores), is_complex, weight, cut, acceptance)
    for _ in progress.track([0], description="Fit on all rows"):
        model = TfidfClassifier(shape).fit([row.text for row in rows], is_complex, weight)
    shares = {name: round(value, 4) for name, value in asdict(quality).items()}
    written = {
        "method": METHOD,
        "shape": asdict(shape),
        **about,
        "counts": _counts(rows),
        "licenses": dict(sorted(Counter(row.license for row in rows).items())),
        "cross_validation": {"folds": folds, "by": "family", **shares},
        "calibration": asdict(sigmoid),
        "thresholds": {"complex": cut, "accept": acceptance},
    }
    artifact.write(out, written, *model.tables())
    return quality


def tiers(rows: Sequence[Prompt]) -> NDArray[np.bool_]:
    """Whether each row is complex."""
    return np.array([row.tier == "complex" for row in rows])


def data_sha256(data: Path) -> str:
    """Of everything that is trained on: the rows and our templates."""
    digest = hashlib.sha256()
    for file in (data, *sorted(FOLDER.glob("*.txt"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


@click.command(help=__doc__)
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--leave-out", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=EVALUATION)
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True)
@click.option("--jobs", type=int, default=2, show_default=True, help="Folds that are fitted at the same time.")
def main(data: Path, out: Path, leave_out: Path, folds: int, jobs: int) -> None:
    """The command."""
    console = Console(stderr=True)
    evaluation = [row.text for row in read_rows(leave_out)]
    candidates = distinct([*read_rows(data), *generate()])
    rows = without_near(candidates, evaluation)
    about = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "data_sha256": data_sha256(data),
        "left_out_near_evaluation": len(candidates) - len(rows),
    }
    console.print(f"{len(rows)} rows; {about['left_out_near_evaluation']} left out, they resemble evaluation prompts")
    with Progress(console=console) as progress:
        quality = fit(rows, out, about, progress, shape=Shape(), folds=folds, jobs=jobs)
    for name, value in asdict(quality).items():
        console.print(f"{name.replace('_', ' ')}: {value:.3f}")
    console.print(f"written to {out}")


def _counts(rows: Sequence[Prompt]) -> dict[str, Any]:
    sources = Counter("/".join(row.source.split("/")[:2]) for row in rows)
    by_tier = Counter(row.tier for row in rows)
    return {"rows": len(rows), **dict(sorted(by_tier.items())), "sources": dict(sorted(sources.items()))}


if __name__ == "__main__":
    sys.exit(main())
