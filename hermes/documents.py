"""The nouns of knowledge: documents, their passages, and what was found in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

State = Literal["indexing", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class NewDocument:
    """What is to be read: where it belongs and what it is called."""

    use_case: str
    entity: str
    """Empty: it is about the whole use case."""

    source: str
    format: str
    digest: str
    """SHA-256 of what was sent, in hex."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as lists show it."""

    id: int
    use_case: str
    entity: str
    source: str
    format: str
    digest: str
    state: State
    note: str
    chunks: int
    done: int
    chars: int
    embedder: str
    embedder_sha: str
    created_at: str
    updated_at: str
    created_by: str

    def shown(self) -> dict[str, Any]:
        """As the admin API has it."""
        return {
            "id": self.id,
            "use_case": self.use_case,
            "entity": self.entity or None,
            "source": self.source,
            "format": self.format,
            "state": self.state,
            "note": self.note or None,
            "chunks": self.chunks,
            "done": self.done,
            "chars": self.chars,
            "embedder": self.embedder or None,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "created_by": self.created_by,
        }


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A passage that is to be kept."""

    heading: str
    text: str
    vector: bytes
    """float32, little-endian, of length 1."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage that is kept."""

    id: int
    document_id: int
    use_case: str
    entity: str
    source: str
    number: int
    """In its document, from 1."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit(Chunk):
    """A passage that was found."""

    score: float
    """0..1."""

    def shown(self) -> dict[str, Any]:
        """As the admin API has it."""
        return {
            "id": self.id,
            "document_id": self.document_id,
            "use_case": self.use_case,
            "entity": self.entity or None,
            "source": self.source,
            "chunk": self.number,
            "heading": self.heading or None,
            "score": round(self.score, 4),
            "text": self.text,
        }

    def noted(self) -> dict[str, Any]:
        """As usage rows have it: which passage, never what it says."""
        return {
            "id": self.id,
            "document": self.document_id,
            "source": self.source,
            "chunk": self.number,
            "score": round(self.score, 4),
        }
