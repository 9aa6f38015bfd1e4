"""Makes `hermes/embedding/centres.npz`: the mean vector of each script, of questions and of passages.

    .venv/bin/python scripts/fit_centres.py

The texts are the project's own prompts, which are about everything, so that their mean is about nothing but the script.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from hermes.embedding.centred import CENTRES, OTHER
from hermes.embedding.models import MultilingualE5, Vector
from hermes.learning.templates import FOLDER

FILES: Final = {
    "latin": ("en_simple.txt", "de.txt", "es.txt", "fr.txt"),
    "arabic": ("ar.txt",),
    "han": ("zh.txt",),
}
TEXTS: Final = 320
"""Of a script at most, as many of each of its files."""

MOST_CHARS: Final = 500


def main() -> None:
    """Embeds some hundred texts, which takes a minute, and writes the file."""
    model = MultilingualE5()
    centres: dict[str, Vector] = {}
    for script, files in FILES.items():
        texts = [text for file in files for text in texts_of(FOLDER / file)[: TEXTS // len(files)]]
        print(f"{script}: {len(texts)} texts")
        centres[f"{script}_query"] = np.mean([model.query(text) for text in texts], axis=0)
        centres[f"{script}_passage"] = np.mean([model.passage(text) for text in texts], axis=0)
    for kind in ("query", "passage"):
        centres[f"{OTHER}_{kind}"] = np.mean([centres[f"{script}_{kind}"] for script in FILES], axis=0)
    np.savez(CENTRES, **{name: np.asarray(vector, np.float32) for name, vector in centres.items()})


def texts_of(path: Path) -> list[str]:
    """The patterns of a file in an order that is always the same, each slot filled with one of its words."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    slots = dict(line[1:].split("=", 1) for line in lines if line.startswith("@"))
    words = {name.strip(): values.split("|") for name, values in slots.items()}
    chance = random.Random(1)  # noqa: S311  (a choice, no secret)
    texts = []
    for line in lines:
        if line[0] not in "#@[":
            for name, values in words.items():
                line = line.replace(f"{{{name}}}", chance.choice(values).strip())
            texts.append(line.replace("\\n", "\n")[:MOST_CHARS])
    chance.shuffle(texts)
    return texts


if __name__ == "__main__":
    main()
