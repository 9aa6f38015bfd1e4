"""What operators do with documents: give them, look for something in them, take them away.

The same for the admin API, the page and the command line. A document is read and cut, each passage gets its vector, and
only then does it take the place of the one before; until then that one is found.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import gevent
import numpy as np
from gevent.lock import BoundedSemaphore

from hermes.documents import Document, Hit, NewChunk, NewDocument
from hermes.errors import HermesError, InvalidRequest, NotFound
from hermes.knowledge import reader
from hermes.knowledge.chunking import Passage
from hermes.knowledge.reading import FORMATS, format_of
from hermes.knowledge.selection import SEPARATOR, Selection
from hermes.knowledge.shelf import Shelf, Stored
from hermes.knowledge.vectors import Embedder, Identity, breathe

MOST_NAME_CHARS: Final = 256
MOST_QUESTION_CHARS: Final = 4000
SOON_DIGESTED_BYTES: Final = 1024 * 1024
PROGRESS_EVERY_S: Final = 1.0
CUT_SHORT: Final = "Its reading was cut short; give it again."
STALE_S: Final = 60.0
"""A document whose reading has not gone on for so long was left by a process that has ended."""

Track = Callable[[int, int], None]
"""Told how many passages are done, and of how many."""


class Repository(Stored, Protocol):
    """`hermes.storage.knowledge.KnowledgeRepository`, as far as it changes something."""

    def document(self, document_id: int) -> Document: ...

    def texts(self, document_id: int) -> list[tuple[str, str]]: ...

    def begin(self, new: NewDocument, chunks: int, actor: str) -> int: ...

    def progress(self, document_id: int, done: int, chunks: int) -> None: ...

    def finish(
        self, document_id: int, chunks: Sequence[NewChunk], embedder: tuple[str, str], actor: str
    ) -> Document: ...

    def fail(self, document_id: int, note: str) -> None: ...

    def delete(self, ids: Collection[int], actor: str) -> list[Document]: ...


@dataclass(frozen=True, slots=True)
class Begun:
    """A document that has been read and waits for its vectors."""

    id: int
    passages: tuple[Passage, ...]


class Library:
    """The documents. Every method may raise `DatabaseUnavailable`."""

    def __init__(
        self,
        repository: Repository,
        shelf: Shelf,
        embedder: Callable[[], Embedder],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            embedder: the one in force.
        """
        self._repository = repository
        self._shelf = shelf
        self._embedder = embedder
        self._clock = clock
        self._working = BoundedSemaphore(1)
        """One document at a time gets its vectors; more of them at once would not be faster."""

    # -- giving -------------------------------------------------------------------------------------------

    def add(self, raw: bytes, name: NewDocument, actor: str, track: Track = lambda done, of: None) -> Document:
        """Takes a document in; when this returns it is found, in this process.

        Raises:
            InvalidRequest: it cannot be read.
            EmbedderFailed: there are no vectors for it.
        """
        return self.go_on(self.begin(raw, name, actor), actor, track)

    def begin(self, raw: bytes, name: NewDocument, actor: str) -> Begun:
        """Reads and cuts a document, and notes that it is on its way; `go_on` does the rest. Raises as `add`."""
        passages = reader.read(raw, name.format, name.source)
        self._embedder().identity()  # before anything is noted: without an embedder nothing can be taken in
        return Begun(self._repository.begin(name, len(passages), actor), tuple(passages))

    def take(self, raw: bytes, name: NewDocument, actor: str) -> None:
        """As `add`, for who does not wait for it: whatever is wrong is told in the document's own line.

        Raises nothing but `DatabaseUnavailable`, and that at the beginning only.
        """
        document_id = self._repository.begin(name, 0, actor)
        with suppress(HermesError):
            try:
                passages = reader.read(raw, name.format, name.source)
                self._repository.progress(document_id, 0, len(passages))
            except BaseException as error:
                self._repository.fail(document_id, error.message if isinstance(error, HermesError) else CUT_SHORT)
                raise
            self.go_on(Begun(document_id, tuple(passages)), actor)

    def go_on(self, begun: Begun, actor: str, track: Track = lambda done, of: None) -> Document:
        """Gives a document's passages their vectors, and puts it in the place of the one before. Raises as `add`."""
        try:
            with self._working:
                chunks = self._with_vectors(begun, track)
                embedder = self._embedder().identity()
            document = self._repository.finish(begun.id, chunks, (embedder.name, embedder.sha), actor)
        except HermesError as error:
            self._repository.fail(begun.id, error.message)
            raise
        except BaseException:  # the process ends, or the caller has left
            self._repository.fail(begun.id, CUT_SHORT)
            raise
        self._shelf.renew()
        return document

    def again(self, document_id: int, actor: str) -> Begun:
        """Begins to give a document the vectors of the embedder in force, from the passages that are kept.

        Raises:
            NotFound: there is no such document.
        """
        old = self._repository.document(document_id)
        texts = self._repository.texts(document_id)
        if not texts:
            raise InvalidRequest(f"{old.source} has no passages; give the document again.", param="id")
        self._embedder().identity()
        name = NewDocument(old.use_case, old.entity, old.source, old.format, old.digest)
        return Begun(
            self._repository.begin(name, len(texts), actor), tuple(Passage(heading, text) for heading, text in texts)
        )

    # -- looking ------------------------------------------------------------------------------------------

    def documents(self) -> tuple[Document, ...]:
        """All of them, those on their way included."""
        return self._repository.documents()

    def identity(self) -> Identity:
        """Of the embedder in force. Raises `EmbedderFailed`."""
        return self._embedder().identity()

    def has(self, name: NewDocument) -> bool:
        """Whether this very document can be found already."""
        return any(
            (one.use_case, one.entity, one.source, one.digest) == (name.use_case, name.entity, name.source, name.digest)
            and one.state == "ready"
            and not self.is_outdated(one)
            for one in self._repository.documents()
        )

    def is_outdated(self, document: Document) -> bool:
        """Whether its vectors are of another embedder than the one in force, so that it is never found."""
        identity = self.identity()
        return document.state == "ready" and (document.embedder, document.embedder_sha) != (identity.name, identity.sha)

    def search(self, question: str, selection: Selection, top_k: int, min_score: float) -> list[Hit]:
        """The nearest passages, the best first. Raises `EmbedderFailed`."""
        embedder = self._embedder()
        vector = embedder.question(question)
        return self._shelf.search(self._shelf.current(), vector, selection, embedder, top_k, min_score)

    def chunks_in(self, selection: Selection) -> int:
        """How many passages a search there looks at."""
        picture = self._shelf.current()
        usable = set(picture.usable(selection, self.identity()))
        return sum(document.chunks for document in picture.documents if document.id in usable)

    # -- taking away --------------------------------------------------------------------------------------

    def delete(self, use_case: str, entity: str | None, source: str | None, actor: str) -> list[Document]:
        """Removes documents by what they are called; those that were there.

        Args:
            entity: None: of every one.
            source: None: every document of the use case.

        Raises:
            NotFound: there is none.
        """
        wanted = [
            document.id
            for document in self._repository.documents()
            if document.use_case == use_case and entity in (None, document.entity) and source in (None, document.source)
        ]
        return self._gone(wanted, actor)

    def delete_one(self, document_id: int, actor: str) -> Document:
        """Removes a document by its number. Raises `NotFound`."""
        return self._gone([document_id], actor)[0]

    def _gone(self, ids: list[int], actor: str) -> list[Document]:
        gone = self._repository.delete(ids, actor) if ids else []
        if not gone:
            raise NotFound("There is no such document; GET /admin/knowledge lists those that are.")
        self._shelf.renew()
        return gone

    def _with_vectors(self, begun: Begun, track: Track) -> list[NewChunk]:
        chunks: list[NewChunk] = []
        told = self._clock()
        number = len(begun.passages)
        vectors = self._embedder().passages([passage.whole() for passage in begun.passages])
        for passage, vector in zip(begun.passages, vectors, strict=True):
            chunks.append(NewChunk(passage.heading, passage.text, np.asarray(vector, "<f4").tobytes()))
            track(len(chunks), number)
            if self._clock() - told > PROGRESS_EVERY_S:
                self._repository.progress(begun.id, len(chunks), number)
                told = self._clock()
            breathe()
        return chunks


def named(
    use_case: object, entity: object, source: object, raw: bytes, *, media_type: str = "", fmt: object = None
) -> NewDocument:
    """What a document is to be called, checked.

    Args:
        media_type: HTTP's, where the source's ending does not tell the format.
        fmt: the format, where somebody says it.

    Raises:
        InvalidRequest: naming the field.
    """
    name = clean_name(source, "source")
    found = format_of(name, media_type) if fmt in (None, "") else fmt
    if found not in FORMATS:
        raise InvalidRequest(
            f"{name} is of no format that is read; known are {reader.known_formats()}.",
            param="source" if fmt in (None, "") else "format",
        )
    place = clean_name(use_case, "use_case")
    if SEPARATOR in place:
        raise InvalidRequest("use_case must not hold a /, which divides it from the entity.", param="use_case")
    about = "" if entity in (None, "") else clean_name(entity, "entity")
    return NewDocument(place, about, name, str(found), _digest(raw))


def _digest(raw: bytes) -> str:
    """The SHA-256 of a document; a large one's in a native thread, where it holds nobody up."""
    if len(raw) <= SOON_DIGESTED_BYTES:
        return hashlib.sha256(raw).hexdigest()
    found: str = gevent.get_hub().threadpool.apply(lambda: hashlib.sha256(raw).hexdigest())
    return found


def clean_name(value: Any, field: str) -> str:
    """A name without blanks around it and without control characters. Raises `InvalidRequest`."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"{field} must be a text that is not empty.", param=field)
    text = value.strip()
    if len(text) > MOST_NAME_CHARS:
        raise InvalidRequest(f"{field} must have {MOST_NAME_CHARS} characters at most.", param=field)
    if not text.isprintable():
        raise InvalidRequest(f"{field} must be one line without control characters.", param=field)
    return text
