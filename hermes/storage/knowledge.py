"""`hermes_documents` and `hermes_embeddings`: what the operator has given to be known.

A document that is being read has a row of its own; those that are searched stay as they are until it is ready and takes
their place, in one transaction. Every such change leaves an audit row, by whose number other processes see it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from peewee import fn

from hermes.documents import Chunk, Document, NewChunk, NewDocument
from hermes.errors import NotFound
from hermes.storage import audit, pgvector
from hermes.storage.audit import time_text
from hermes.storage.db import Database
from hermes.storage.models.binding import is_on_postgres
from hermes.storage.models.knowledge import DocumentRow, EmbeddingRow
from hermes.storage.models.operators import AuditRow

Result = TypeVar("Result")

log = logging.getLogger("hermes-router.storage")

ACTIONS: Final = "knowledge."
INSERTED_AT_ONCE: Final = 40
"""Rows of a statement: a few milliseconds' work, and fewer values than SQLite takes."""

READ_AT_ONCE: Final = 500
MOST_ID: Final = 2**63 - 1
"""Of a document. A database refuses to compare with what is larger than any number of its own."""


class KnowledgeRepository:
    """Documents, passages and vectors. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    # -- what is there ------------------------------------------------------------------------------------

    def changes_since(self, number: int) -> tuple[int, bool]:
        """The number of the last change of anything, and whether one since `number` was of knowledge."""
        return self._database.read(_changes_since, number)

    def documents(self) -> tuple[Document, ...]:
        """Every document, by use case, entity and source."""
        return self._database.read(_documents)

    def document(self, document_id: int) -> Document:
        """One document. Raises `NotFound`."""
        return self._database.read(_document, document_id)

    def vectors(self, document_id: int, after: int) -> list[tuple[int, int, bytes]]:
        """The next passages of a document after the one of this number: their ids, numbers and vectors."""
        return self._database.read(_vectors, document_id, after)

    def chunks(self, ids: Sequence[int]) -> list[Chunk]:
        """Passages by their ids, in that order; those that are no more are left out."""
        return self._database.read(_chunks, ids)

    def texts(self, document_id: int) -> list[tuple[str, str]]:
        """Heading and text of each passage of a document, in order."""
        return self._database.report(_texts, document_id)

    # -- what changes it ----------------------------------------------------------------------------------

    def begin(self, new: NewDocument, chunks: int, actor: str) -> int:
        """Notes that a document is being read; its number."""
        return self._database.write(_begin, time_text(self._clock()), new, chunks, actor)

    def progress(self, document_id: int, done: int, chunks: int) -> None:
        """So many of its passages have a vector."""
        self._database.write(_progress, time_text(self._clock()), document_id, done, chunks)

    def finish(self, document_id: int, chunks: Sequence[NewChunk], embedder: tuple[str, str], actor: str) -> Document:
        """Puts a document in the place of the one of the same use case, entity and source, if there is one.

        Raises:
            NotFound: it was removed while it was read.
        """
        return self._change(_finish, actor, document_id, chunks, embedder)

    def fail(self, document_id: int, note: str) -> None:
        """A document cannot be read, for this reason; what was in its place stays."""
        self._database.write(_fail, time_text(self._clock()), document_id, note)

    def delete(self, ids: Collection[int], actor: str) -> list[Document]:
        """Removes documents; those that were there."""
        return self._change(_delete, actor, ids)

    # -- pgvector -----------------------------------------------------------------------------------------

    def has_pgvector(self) -> bool:
        """Whether the database itself searches; it is made ready for that where it can be."""
        if not is_on_postgres():
            return False
        is_ready = self._database.write(pgvector.prepare)
        if not is_ready:
            log.info("Knowledge is searched in memory, as this Postgres has no extension vector that may be used")
        return is_ready

    def fill_pgvector(self) -> int:
        """Gives some passages that do not have it yet the database's own kind of vector; how many. 0: all have it."""
        return self._database.write(pgvector.fill)

    def nearest(self, vector: bytes, documents: Collection[int], top_k: int) -> list[tuple[int, float]]:
        """Where the database itself searches: ids of passages and their cosines, the nearest first."""
        return self._database.read(pgvector.nearest, vector, documents, top_k)

    def _change(self, change: Callable[..., Result], actor: str, *args: Any) -> Result:
        result: Result = self._database.write(audit.one_at_a_time, change, time_text(self._clock()), actor, *args)
        return result


# -- what runs inside `Database.read` and `Database.write` ------------------------------------------------


def _changes_since(number: int) -> tuple[int, bool]:
    last = audit.last_number()
    if last == number:
        return last, False
    query = AuditRow.select(AuditRow.id).where(AuditRow.action.startswith(ACTIONS))
    if last > number:  # else the record was cut, and nobody knows
        query = query.where(AuditRow.id > number)
    return last, bool(query.exists())


def _documents() -> tuple[Document, ...]:
    order = (DocumentRow.use_case, DocumentRow.entity, DocumentRow.source, DocumentRow.id)
    return tuple(_as_document(row) for row in DocumentRow.select().order_by(*order))


def _document(document_id: int) -> Document:
    row = DocumentRow.get_or_none(DocumentRow.id == document_id) if document_id <= MOST_ID else None
    if row is None:
        raise NotFound(f"There is no document {document_id}.")
    return _as_document(row)


def _vectors(document_id: int, after: int) -> list[tuple[int, int, bytes]]:
    query: Any = (
        EmbeddingRow.select(EmbeddingRow.id, EmbeddingRow.number, EmbeddingRow.vector)
        .where((EmbeddingRow.document_id == document_id) & (EmbeddingRow.number > after))
        .order_by(EmbeddingRow.number)
        .limit(READ_AT_ONCE)
    )
    return [(chunk_id, number, bytes(vector)) for chunk_id, number, vector in query.tuples()]


def _chunks(ids: Sequence[int]) -> list[Chunk]:
    fields = [getattr(EmbeddingRow, name) for name in Chunk.__dataclass_fields__]
    query: Any = EmbeddingRow.select(*fields).where(EmbeddingRow.id.in_(list(ids)))
    found = {row[0]: Chunk(*row) for row in query.tuples()}
    return [found[chunk_id] for chunk_id in ids if chunk_id in found]


def _texts(document_id: int) -> list[tuple[str, str]]:
    query: Any = EmbeddingRow.select(EmbeddingRow.heading, EmbeddingRow.text)
    return list(query.where(EmbeddingRow.document_id == document_id).order_by(EmbeddingRow.number).tuples())


def _begin(at: str, new: NewDocument, chunks: int, actor: str) -> int:
    is_same = (
        (DocumentRow.use_case == new.use_case) & (DocumentRow.entity == new.entity) & (DocumentRow.source == new.source)
    )
    DocumentRow.delete().where(is_same & (DocumentRow.state == "failed")).execute()
    values: Mapping[str, Any] = {name: getattr(new, name) for name in NewDocument.__dataclass_fields__}
    return int(
        DocumentRow.insert(
            **values, state="indexing", note="", chunks=chunks, done=0, chars=0, embedder="", embedder_sha="",
            created_at=at, updated_at=at, created_by=actor,
        ).execute()
    )  # fmt: skip


def _progress(at: str, document_id: int, done: int, chunks: int) -> None:
    DocumentRow.update(done=done, chunks=chunks, updated_at=at).where(DocumentRow.id == document_id).execute()


def _fail(at: str, document_id: int, note: str) -> None:
    DocumentRow.update(state="failed", note=note, updated_at=at).where(DocumentRow.id == document_id).execute()


def _finish(at: str, actor: str, document_id: int, chunks: Sequence[NewChunk], embedder: tuple[str, str]) -> Document:
    document = _document(document_id)
    is_same = (
        (DocumentRow.use_case == document.use_case)
        & (DocumentRow.entity == document.entity)
        & (DocumentRow.source == document.source)
        & (DocumentRow.id != document_id)
    )
    # One that was begun later is newer; it will take this one's place.
    is_over = is_same & ((DocumentRow.state != "indexing") | (DocumentRow.id < document_id))
    before = [_as_document(row) for row in DocumentRow.select().where(is_over)]
    _remove([row.id for row in before])
    name, sha = embedder
    shared = {
        "document_id": document_id, "use_case": document.use_case, "entity": document.entity,
        "source": document.source, "embedder": name, "embedder_sha": sha, "created_at": at,
    }  # fmt: skip
    rows = [
        {**shared, "number": number, "heading": chunk.heading, "text": chunk.text, "vector": chunk.vector}
        for number, chunk in enumerate(chunks, 1)
    ]
    for start in range(0, len(rows), INSERTED_AT_ONCE):
        EmbeddingRow.insert_many(rows[start : start + INSERTED_AT_ONCE]).execute()
    if is_on_postgres():
        pgvector.fill_document(document_id)
    DocumentRow.update(
        state="ready", note="", chunks=len(chunks), done=len(chunks), chars=sum(len(chunk.text) for chunk in chunks),
        embedder=name, embedder_sha=sha, updated_at=at,
    ).where(DocumentRow.id == document_id).execute()  # fmt: skip
    after = _document(document_id)
    replaced = next((row for row in before if row.state == "ready"), None)
    audit.note(at, actor, "knowledge.ingest", _target(after), _told(replaced), _told(after))
    return after


def _delete(at: str, actor: str, ids: Collection[int]) -> list[Document]:
    known = [document_id for document_id in ids if document_id <= MOST_ID]
    gone = [_as_document(row) for row in DocumentRow.select().where(DocumentRow.id.in_(known))]
    _remove([document.id for document in gone])
    for document in gone:
        audit.note(at, actor, "knowledge.delete", _target(document), _told(document), None)
    return gone


def _remove(ids: Sequence[int]) -> None:
    if ids:
        EmbeddingRow.delete().where(EmbeddingRow.document_id.in_(ids)).execute()
        DocumentRow.delete().where(DocumentRow.id.in_(ids)).execute()


def _as_document(row: Any) -> Document:
    return Document(**{name: getattr(row, name) for name in Document.__dataclass_fields__})


def _target(document: Document) -> str:
    """A document as audit rows call it."""
    place = f"{document.use_case}/{document.entity}" if document.entity else document.use_case
    return f"{place}: {document.source}"


def _told(document: Document | None) -> dict[str, Any] | None:
    if document is None:
        return None
    return {"document": document.id, "chunks": document.chunks, "digest": document.digest[:12]}


def number_of_chunks() -> int:
    """How many passages there are. Inside `Database.read`."""
    return int(EmbeddingRow.select(fn.COUNT(EmbeddingRow.id)).scalar() or 0)
