"""The second look: sentence embeddings for what the words alone leave open.

The model runs in one native thread of its own, which holds no lock and lets go of the GIL while it computes, so streams
go on. The queue before it is short and nobody waits for long: whoever finds it full, or is not answered in time, is
left to the teacher, which takes longer still.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Final

from gevent.threadpool import ThreadPool

from hermes.embedding.models import Embedder, EmbedderMissing, Vector, open_embedder
from hermes.routing.artifact import Artifact, Embedding
from hermes.routing.surrogate import TfidfSurrogate, sigmoid
from hermes.types import Verdict

MOST_WAITING: Final = 8
WAIT_S: Final = 0.2
NICER: Final = 5
"""What the embedding thread's niceness is above the event loop's."""

KEPT_VECTORS: Final = 512
KEPT_CHARS: Final = 2000
"""A longer text is none that comes again."""


class EmbeddingThread:
    """An embedding model in a native thread. `embed` is for the event loop only."""

    def __init__(self, embedder: Embedder, wait_s: float = WAIT_S) -> None:
        self.skipped = 0
        """Texts for which there was no time."""

        self._embedder = embedder
        self._wait_s = wait_s
        self._pool: ThreadPool | None = None
        self._waiting = 0
        self._gives_way = False
        self._kept: OrderedDict[str, Vector] = OrderedDict()

    def embed(self, text: str) -> Vector | None:
        """The vector of a text; None: not in time.

        Blocks: 5 ms for a usual prompt, `wait_s` at most; other greenlets run meanwhile.
        """
        if (known := self._kept.get(text)) is not None:
            return known
        if self._waiting >= MOST_WAITING:
            self.skipped += 1
            return None
        if self._pool is None:  # made here, as it belongs to the hub of the thread that makes it
            self._pool = ThreadPool(1)
        self._waiting += 1
        asked = self._pool.spawn(self._attempt, text)
        asked.rawlink(self._ended)
        asked.wait(self._wait_s)
        vector: Vector | None = asked.get(block=False) if asked.ready() else None
        if vector is None:
            self.skipped += 1
        elif len(text) <= KEPT_CHARS:
            self._kept[text] = vector
            if len(self._kept) > KEPT_VECTORS:
                self._kept.popitem(last=False)
        return vector

    def _ended(self, _: object) -> None:
        self._waiting -= 1

    def _attempt(self, text: str) -> Vector | None:
        """In the native thread. An exception that left it would be printed by gevent."""
        if not self._gives_way:
            self._gives_way = True
            give_way()
        try:
            return self._embedder.embed(text)
        except Exception:  # noqa: BLE001  (an edge: whatever a model makes of a text, the request goes on without it)
            return None


def give_way() -> None:
    """Lets all other threads of the machine go before this one, where the system has it: on a core that both share, a
    piece of a stream shall not wait for a text to be embedded.
    """
    with suppress(OSError, AttributeError):  # Linux alone has it by thread
        me = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, me, os.getpriority(os.PRIO_PROCESS, me) + NICER)


class EmbeddingSurrogate(TfidfSurrogate):
    """A surrogate whose second look weighs the meaning of a text together with its words."""

    def __init__(self, artifact: Artifact, version: str, embedding: Embedding, embedder: Embedder) -> None:
        super().__init__(artifact, version)
        self._accept(artifact, artifact.accept_from, "points")
        self._embedder = embedder
        self._thread = EmbeddingThread(embedder)
        self._weight = embedding.weight.astype("float32")
        self._of_score, self._bias_of_both = embedding.of_score, embedding.bias

    def reconsider(self, text: str) -> Verdict | None:
        """The verdict of words and meaning together; None: not in time.

        Blocks: see `EmbeddingThread.embed`.
        """
        vector = self._thread.embed(text)
        return None if vector is None else self.verdict(self.probability_of_both(text, vector))

    def vector_of(self, text: str) -> Vector:
        """The vector of a text, in this very thread: for processes that serve nobody."""
        return self._embedder.embed(text)

    def reconsider_here(self, text: str) -> Verdict:
        """As `reconsider`, in this very thread."""
        return self.verdict(self.probability_of_both(text, self.vector_of(text)))

    def probability_of_both(self, text: str, vector: Vector) -> float:
        """That the text is complex, 0..1."""
        return sigmoid(self._of_score * self.score(text) + float(vector @ self._weight) + self._bias_of_both)


def with_second_look(artifact: Artifact, version: str) -> TfidfSurrogate:
    """The surrogate of an artifact, with the second look where it has one and the model is here.

    Blocks: 0.1 s, and 0.3 s more with a second look. It takes no lock and writes no log line.
    """
    embedding = artifact.embedding
    if embedding is None:
        return TfidfSurrogate(artifact, version)
    try:
        return EmbeddingSurrogate(artifact, version, embedding, open_embedder(embedding.model, embedding.sha256))
    except EmbedderMissing as missing:
        alone = TfidfSurrogate(artifact, version)
        alone.note = f"classifier.surrogate: {missing}; it decides by words alone, and less"
        return alone
