"""A fitted surrogate on disk: a directory of plain numbers and words, which can be checked and cannot run code.

    manifest.json    format, features, what it was made of, thresholds, and the SHA-256 of the two other files
    vocabulary.json  the terms, in the order of their weights
    weights.npz      arrays of floats, read without pickle
    embedding.npz    only where sentence embeddings look at what the words leave open: likewise

A folder may also hold many such directories, of which the text file `current` names one; so a refit is put in force,
and taken back, by writing one line. Every file is read once, checked, and only then parsed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hermes.errors import HermesError
from hermes.routing.features import SURFACE, fingerprint

FORMAT: Final = "hermes-surrogate/1"
MANIFEST: Final = "manifest.json"
POINTER: Final = "current"
STARTER: Final = "starter"
"""In `current`: none of these directories, but the one that ships with Hermes."""

DIMENSIONS: Final = 384
"""Of a sentence embedding."""

FILES: Final = ("vocabulary.json", "weights.npz")
EMBEDDING: Final = "embedding.npz"
EMBEDDING_ARRAYS: Final = ("weight", "mix")

MOST_BYTES = 64 * 1024 * 1024
"""Of a file, and of all arrays when unpacked; the starter has 2 MB."""

MOST_SIMPLE_COST: Final = 100

TABLES: Final = ("words", "pieces")
ARRAYS: Final = (
    *(f"{table}_{kind}" for table in TABLES for kind in ("idf", "weight")),
    *("surface_mean", "surface_scale", "surface_weight", "bias"),
)

_NAME = re.compile(r"[\w][\w.-]{0,99}")

Floats = NDArray[np.float64]


class ArtifactInvalid(HermesError):
    """A directory that is no sound surrogate; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """How a second look is made: the probability's logit is `score * of_score + vector @ weight + bias`."""

    model: str
    sha256: str
    """Of the embedding model's weights."""

    weight: Floats
    of_score: float
    """What the score of the words counts for."""

    bias: float
    alone_from: float
    """The assurance from which the words decide where the model is missing."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a directory holds, checked."""

    manifest: Mapping[str, Any]
    vocabulary: Mapping[str, list[str]]
    weights: Mapping[str, Floats]
    embedding: Embedding | None = None

    @property
    def slope(self) -> float:
        """Of the sigmoid that makes a probability of a score."""
        return float(self.manifest["calibration"]["slope"])

    @property
    def offset(self) -> float:
        """Of the same sigmoid."""
        return float(self.manifest["calibration"]["offset"])

    @property
    def complex_from(self) -> float:
        """The probability of *complex* from which that is the verdict."""
        return float(self.manifest["thresholds"]["complex"])

    @property
    def accept_from(self) -> float:
        """The assurance from which a verdict needs no teacher, see `hermes.routing.standing`."""
        return float(self.manifest["thresholds"]["accept"])

    @property
    def simple_cost(self) -> float:
        """How much a doubt counts in a verdict *simple*, beside one in a verdict *complex*."""
        return float(self.manifest["thresholds"].get("simple_cost", 1.0))


def locate(folder: Path) -> Path | None:
    """The directory that counts: the folder itself, or the one that its `current` names; None where there is none, or
    `current` names the starter.

    Raises:
        ArtifactInvalid: `current` names no directory beside it, or the folder holds something else.
    """
    if (folder / MANIFEST).is_file():
        return folder
    pointer = folder / POINTER
    if pointer.is_file():
        name = pointer.read_text(encoding="utf-8", errors="replace").strip()
        if name == STARTER:
            return None
        if _NAME.fullmatch(name) is None or not (folder / name / MANIFEST).is_file():
            raise ArtifactInvalid(f"{pointer} names no fitted surrogate beside it")
        return folder / name
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ArtifactInvalid(f"{folder} holds no {MANIFEST}")
    return None


def digest(directory: Path) -> str:
    """The SHA-256 of a directory's manifest, which stands for all of it.

    Raises:
        ArtifactInvalid: there is none.
    """
    return _sha256(_bytes(directory / MANIFEST))


def read(directory: Path) -> Artifact:
    """Reads and checks everything.

    Raises:
        ArtifactInvalid: a file is missing, changed, too large, or does not hold what it should.

    Blocks: 30 ms for the starter.
    """
    manifest = _manifest(directory)
    contents = {name: _verified(directory / name, manifest["files"][name]) for name in FILES}
    vocabulary = _vocabulary(contents["vocabulary.json"])
    weights = _weights(contents["weights.npz"])
    for table in TABLES:
        for kind in ("idf", "weight"):
            if weights[f"{table}_{kind}"].shape != (len(vocabulary[table]),):
                raise ArtifactInvalid(f"weights.npz: {table}_{kind} does not fit the vocabulary")
    embedding = None
    if EMBEDDING in manifest["files"]:
        embedding = _embedding(manifest, _verified(directory / EMBEDDING, manifest["files"][EMBEDDING]))
    return Artifact(manifest, vocabulary, weights, embedding)


def write(
    directory: Path,
    about: Mapping[str, Any],
    vocabulary: Mapping[str, list[str]],
    weights: Mapping[str, NDArray[Any]],
    embedding: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Writes a directory; `about` is what the manifest says beside format, features and files.

    The same values give the same bytes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    contents = {
        "vocabulary.json": json.dumps(dict(vocabulary), ensure_ascii=False, separators=(",", ":")).encode(),
        "weights.npz": _packed({name: weights[name] for name in ARRAYS}),
    }
    if embedding is not None:
        contents[EMBEDDING] = _packed({name: embedding[name] for name in EMBEDDING_ARRAYS})
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    files = {name: {"sha256": _sha256(content), "bytes": len(content)} for name, content in contents.items()}
    manifest = {"format": FORMAT, "features": fingerprint(), **about, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _manifest(directory: Path) -> Mapping[str, Any]:
    manifest = _json(_bytes(directory / MANIFEST), MANIFEST)
    if manifest.get("format") != FORMAT:
        raise ArtifactInvalid(f"{MANIFEST}: the format is not {FORMAT}")
    if manifest.get("features") != fingerprint():
        raise ArtifactInvalid(f"{MANIFEST}: it was fitted with other features; fit it anew")
    for section, names in (("calibration", ("slope", "offset")), ("thresholds", ("complex", "accept"))):
        values = manifest.get(section)
        for name in names:
            value = values.get(name) if isinstance(values, dict) else None
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ArtifactInvalid(f"{MANIFEST}: {section}.{name} is no number")
    cost = manifest["thresholds"].get("simple_cost", 1.0)
    if not isinstance(cost, int | float) or not 1 <= cost <= MOST_SIMPLE_COST:
        raise ArtifactInvalid(f"{MANIFEST}: thresholds.simple_cost is no factor")
    files = manifest.get("files")
    if not isinstance(files, dict) or set(files) - {EMBEDDING} != set(FILES):
        raise ArtifactInvalid(f"{MANIFEST}: files are not {' and '.join(FILES)}")
    return manifest


def _verified(path: Path, listed: object) -> bytes:
    content = _bytes(path)
    if not isinstance(listed, dict) or listed.get("sha256") != _sha256(content):
        raise ArtifactInvalid(f"{path.name}: the SHA-256 is not the manifest's")
    return content


def _vocabulary(content: bytes) -> dict[str, list[str]]:
    vocabulary = _json(content, "vocabulary.json")
    for table in TABLES:
        terms = vocabulary.get(table)
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ArtifactInvalid(f"vocabulary.json: {table} is no list of terms")
        if len(set(terms)) != len(terms):
            raise ArtifactInvalid(f"vocabulary.json: {table} has a term twice")
    return {table: vocabulary[table] for table in TABLES}


def _weights(content: bytes) -> dict[str, Floats]:
    weights = _arrays("weights.npz", content, ARRAYS)
    for name, values in weights.items():
        if name.startswith("surface_") and values.shape != (len(SURFACE),):
            raise ArtifactInvalid(f"weights.npz: {name} does not fit the features")
    if weights["bias"].shape != () or not (weights["surface_scale"] > 0).all():
        raise ArtifactInvalid("weights.npz: bias or scale is none")
    return weights


def _embedding(manifest: Mapping[str, Any], content: bytes) -> Embedding:
    about = manifest.get("embedding")
    texts = [about.get(name) for name in ("model", "sha256")] if isinstance(about, dict) else []
    alone_from = about.get("alone_from") if isinstance(about, dict) else None
    if not all(isinstance(text, str) for text in texts) or not isinstance(alone_from, int | float):
        raise ArtifactInvalid(f"{MANIFEST}: embedding does not say what it is")
    arrays = _arrays(EMBEDDING, content, EMBEDDING_ARRAYS)
    if arrays["weight"].shape != (DIMENSIONS,) or arrays["mix"].shape != (2,):
        raise ArtifactInvalid(f"{EMBEDDING}: the arrays do not fit the model")
    model, sha256 = map(str, texts)
    of_score, bias = map(float, arrays["mix"])
    return Embedding(model, sha256, arrays["weight"], of_score, bias, float(alone_from))


def _arrays(file: str, content: bytes, names: tuple[str, ...]) -> dict[str, Floats]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                raise ArtifactInvalid(f"{file}: larger than any surrogate")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            found = {name: np.asarray(arrays[name], np.float64) for name in names}
    except (ValueError, KeyError, OSError, TypeError, zipfile.BadZipFile) as error:
        raise ArtifactInvalid(f"{file}: not the arrays of a surrogate ({type(error).__name__})") from error
    for name, values in found.items():
        if not np.isfinite(values).all():
            raise ArtifactInvalid(f"{file}: {name} is not finite")
    return found


def _packed(arrays: dict[str, Any]) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return packed.getvalue()


def _json(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtifactInvalid(f"{name}: not JSON") from error
    if not isinstance(value, dict):
        raise ArtifactInvalid(f"{name}: not a JSON object")
    return value


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ArtifactInvalid(f"{path.name}: cannot be read ({type(error).__name__})") from error
    if len(content) > MOST_BYTES:
        raise ArtifactInvalid(f"{path.name}: larger than any surrogate")
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
