"""multilingual-e5-small without its languages: what is left of a vector is what the text means.

The model puts texts of one language near to each other, whatever they say: an Arabic question is nearer to any Arabic
passage than to the English one that answers it. So the mean vector of each script is taken away, of questions and of
passages, as both have their own. Then texts that have nothing in common have a cosine of about 0, and those that
belong together one of 0.3 to 0.8, within a language and across.

Source: Libovický, Rosa, Fraser 2020, "On the language neutrality of pre-trained multilingual representations". The
means are in `centres.npz`; `scripts/fit_centres.py` makes them of this project's own prompts.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

import numpy as np

from hermes.embedding.models import MultilingualE5, Vector

CENTRES: Final = Path(__file__).resolve().parent / "centres.npz"
SCRIPTS: Final = {
    "arabic": re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufeff]"),
    "han": re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
OTHER: Final = "other"
"""The mean of the three, for scripts that have none of their own."""

LOOKED_AT_CHARS: Final = 1000
HAN_WEIGHT: Final = 3
"""A sign of these scripts says as much as some letters do."""


class CentredE5:
    """The model, its vectors centred. Not for two threads at once."""

    def __init__(self, model: MultilingualE5 | None = None) -> None:
        self._model = MultilingualE5() if model is None else model
        raw = CENTRES.read_bytes()
        self.sha256 = hashlib.sha256(self._model.sha256.encode() + raw).hexdigest()
        """Of all that makes a vector what it is."""

        with np.load(CENTRES, allow_pickle=False) as found:
            self._centres = {name: found[name].astype(np.float32) for name in found.files}

    def query(self, text: str) -> Vector:
        """The vector of a question, of length 1. Blocks: 2 ms a word, without the GIL."""
        return self._centred(self._model.query(text), "query", text)

    def passage(self, text: str) -> Vector:
        """The vector of a passage, of length 1. Blocks alike."""
        return self._centred(self._model.passage(text), "passage", text)

    def plain(self, text: str, most_tokens: int) -> tuple[Vector | None, int]:
        """The vector of a text as the model itself makes it, and the number of its tokens.

        None: these are more than `most_tokens`, and the text could be shorter.
        """
        tokens = self._model.tokens(text)
        is_too_long = tokens > most_tokens and len(text) > 1
        return None if is_too_long else self._model.query(text), tokens

    def _centred(self, vector: Vector, kind: str, text: str) -> Vector:
        moved: Vector = vector - self._centres[f"{script_of(text)}_{kind}"]
        unit: Vector = moved / max(float(np.linalg.norm(moved)), 1e-12)
        return unit


def script_of(text: str) -> str:
    """The script that most of a text is written in.

    >>> script_of("How?"), script_of("متى يتم رد المبلغ؟ (PDF)"), script_of("退款 policy 需要多久"), script_of("Когда?")
    ('latin', 'arabic', 'han', 'other')
    """
    looked = text[:LOOKED_AT_CHARS]
    counts = {name: len(letters.findall(looked)) for name, letters in SCRIPTS.items()}
    counts["han"] *= HAN_WEIGHT
    letters = sum(char.isalpha() for char in looked)
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] * 2 >= letters > 0 or counts[best] > letters / 2 else OTHER
