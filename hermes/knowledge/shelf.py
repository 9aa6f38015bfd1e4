"""The documents that can be searched, as this process sees them; renewed when somebody has changed one.

Where the database compares vectors itself (pgvector) only the list of documents is kept. Else the vectors are kept too:
new documents are read from the database in slices, those that are there already are taken over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gevent
import numpy as np
from gevent.lock import BoundedSemaphore

from hermes.documents import Chunk, Document, Hit
from hermes.knowledge.index import Ids, Index, Matrix, joined
from hermes.knowledge.selection import Selection
from hermes.knowledge.vectors import Embedder, Identity, Vector

log = logging.getLogger("hermes-router")


class Stored(Protocol):
    """`hermes.storage.knowledge.KnowledgeRepository`."""

    def changes_since(self, number: int) -> tuple[int, bool]: ...

    def documents(self) -> tuple[Document, ...]: ...

    def vectors(self, document_id: int, after: int) -> list[tuple[int, int, bytes]]: ...

    def chunks(self, ids: Sequence[int]) -> list[Chunk]: ...

    def has_pgvector(self) -> bool: ...

    def fill_pgvector(self) -> int: ...

    def nearest(self, vector: bytes, documents: Collection[int], top_k: int) -> list[tuple[int, float]]: ...


@dataclass(frozen=True, slots=True)
class Picture:
    """What can be searched at one moment."""

    version: int
    documents: tuple[Document, ...]
    """The ready ones."""

    indexes: Mapping[int, Index] | None
    """By the length of their vectors, as two embedders' differ. None: the database searches."""

    entities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of each use case."""

    def usable(self, selection: Selection, identity: Identity) -> list[int]:
        """The documents that are looked at: those whose vectors the model in force has made."""
        return [
            document.id
            for document in self.documents
            if selection.holds(document.use_case, document.entity)
            and (document.embedder, document.embedder_sha) == (identity.name, identity.sha)
        ]


class Shelf:
    """Keeps the picture, and searches in it."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._picture: Picture | None = None
        self._loading = BoundedSemaphore(1)
        self._has_pgvector: bool | None = None

    def current(self) -> Picture:
        """The picture; read from the database where there is none yet. Raises `DatabaseUnavailable`."""
        picture = self._picture
        if picture is None:
            self.renew()
            picture = self._picture
            assert picture is not None, "it was just read"
        return picture

    def renew(self) -> None:
        """Reads what has changed since; for a loop, and after a change of one's own. Raises `DatabaseUnavailable`."""
        with self._loading:
            old = self._picture
            number, has_changed = self._stored.changes_since(-1 if old is None else old.version)
            if old is not None and not has_changed:
                if number != old.version:
                    self._picture = Picture(number, old.documents, old.indexes, old.entities)
                return
            self._prepare()
            documents = tuple(one for one in self._stored.documents() if one.state == "ready")
            indexes = None if self._has_pgvector else self._indexes(documents, old)
            self._picture = Picture(number, documents, indexes, _entities(documents))

    def search(
        self, picture: Picture, vector: Vector, selection: Selection, embedder: Embedder, top_k: int, min_score: float
    ) -> list[Hit]:
        """The nearest passages, the best first. Raises `DatabaseUnavailable`."""
        documents = picture.usable(selection, embedder.identity())
        if not documents:
            return []
        if picture.indexes is None:
            found = self._stored.nearest(vector.astype("<f4").tobytes(), documents, top_k)
        else:
            index = picture.indexes.get(len(vector), Index())
            found = _in_thread(index.nearest, vector, documents, top_k)
        scores = {chunk: score for chunk, cosine in found if (score := embedder.score(cosine)) >= min_score}
        return [_hit(chunk, scores[chunk.id]) for chunk in self._stored.chunks(list(scores))]

    def _prepare(self) -> None:
        if self._has_pgvector is None:
            self._has_pgvector = self._stored.has_pgvector()
            while self._has_pgvector and self._stored.fill_pgvector():
                gevent.sleep(0)

    def _indexes(self, documents: Sequence[Document], old: Picture | None) -> dict[int, Index]:
        kept = (old.indexes if old is not None else None) or {}
        parts: dict[int, list[tuple[int, Ids, Matrix]]] = {}
        for document in documents:
            ids, vectors = self._part(document, kept)
            parts.setdefault(vectors.shape[1], []).append((document.id, ids, vectors))
        return {width: _in_thread(joined, found) for width, found in parts.items()}

    def _part(self, document: Document, kept: Mapping[int, Index]) -> tuple[Ids, Matrix]:
        for index in kept.values():
            if document.id in index.spans:
                return index.part(document.id)
        ids, matrix = np.empty(document.chunks, np.int64), np.empty((document.chunks, 0), np.float32)
        row = number = 0
        while rows := self._stored.vectors(document.id, number):
            number, end = rows[-1][1], row + len(rows)
            part = np.frombuffer(b"".join(raw for _, _, raw in rows), "<f4").reshape(len(rows), -1)
            if not row:
                matrix = np.empty((document.chunks, part.shape[1]), np.float32)
            ids[row:end], matrix[row:end] = [chunk_id for chunk_id, _, _ in rows], part
            row = end
            gevent.sleep(0)
        return ids[:row], matrix[:row]


def _entities(documents: Sequence[Document]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for document in documents:
        found.setdefault(document.use_case, set()).add(document.entity)
    return {use_case: frozenset(entities - {""}) for use_case, entities in found.items()}


def _hit(chunk: Chunk, score: float) -> Hit:
    return Hit(**{name: getattr(chunk, name) for name in Chunk.__dataclass_fields__}, score=score)


def _in_thread(fn: Callable[..., Any], *args: Any) -> Any:
    return gevent.get_hub().threadpool.apply(fn, args)
