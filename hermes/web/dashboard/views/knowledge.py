"""The knowledge page as values: the documents with their states, and what a question finds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hermes.documents import Document, Hit
from hermes.knowledge.library import STALE_S
from hermes.knowledge.vectors import Identity
from hermes.observe.tracewords import plain

MOST_ROWS: Final = 500
MOST_TEXT_CHARS: Final = 200
MOST_QUESTION_CHARS: Final = 2000
SHOWN_CHARS: Final = 480
LEAST_WORD_CHARS: Final = 4
WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    text: str = ""
    open_id: int = 0
    is_new: bool = False
    question: str = ""
    place: str = ""
    """Which use case is asked, empty: all."""

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """Reads a query; what makes no sense in it is as if it were not there."""
        number = args.get("open", "")
        return cls(
            args.get("q", "").strip()[:MOST_TEXT_CHARS],
            int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0,
            bool(args.get("new")),
            args.get("ask", "").strip()[:MOST_QUESTION_CHARS],
            args.get("in", "").strip()[:MOST_TEXT_CHARS],
        )

    def query(self, **changes: Any) -> dict[str, Any]:
        """As a query, with some of it changed; what says nothing is left out."""
        values = {"q": self.text, "open": self.open_id, "ask": self.question, "in": self.place, **changes}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class Line:
    """A document's row."""

    document: Document
    kind: str
    """`ok`, `warn`, `bad`, `idle`."""

    state: str
    uses: int
    at: float
    """When it was taken in, or its state changed, in seconds since 1970."""

    @property
    def is_moving(self) -> bool:
        """Whether it is being read."""
        return self.kind == "warn"

    @property
    def place(self) -> str:
        """Use case and entity."""
        document = self.document
        return plain(f"{document.use_case}/{document.entity}" if document.entity else document.use_case)

    @property
    def name(self) -> str:
        """Its source."""
        return plain(self.document.source)


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that a question finds."""

    hit: Hit
    title: str
    pieces: tuple[tuple[str, bool], ...]
    """Its text, and whether a piece is one of the question's words."""

    is_left_out: bool
    """A call would not get it: it is not near enough."""


@dataclass(frozen=True, slots=True)
class Tested:
    """What a question has found."""

    found: tuple[Found, ...]
    chunks: int
    """How many passages were looked at."""

    duration_ms: float
    min_score: float


@dataclass(frozen=True, slots=True)
class KnowledgeView:
    """All of the page."""

    wanted: Wanted
    lines: tuple[Line, ...]
    in_all: int
    ready: int
    chunks: int
    outdated: int
    places: tuple[str, ...]
    embedder: str
    is_enabled: bool
    trouble: str = ""
    embedder_trouble: str = ""
    now: float = 0.0

    @property
    def is_moving(self) -> bool:
        """Whether a document is being read."""
        return any(line.is_moving for line in self.lines)


def knowledge_view(
    documents: Sequence[Document],
    wanted: Wanted,
    *,
    identity: Identity | None,
    uses: Mapping[int, int],
    is_enabled: bool,
    now: float,
    trouble: str = "",
    embedder_trouble: str = "",
) -> KnowledgeView:
    """
    Args:
        identity: of the embedder in force; None: there is none.
        uses: how often passages of a document were given to a call, by its number.
        now: in seconds since 1970.
    """
    lines = [line_of(document, identity, uses.get(document.id, 0), now) for document in documents]
    ready = [line.document for line in lines if line.document.state == "ready"]
    return KnowledgeView(
        wanted,
        tuple(line for line in lines if _fits(line, wanted.text))[:MOST_ROWS],
        len(lines),
        len(ready),
        sum(document.chunks for document in ready),
        sum(line.kind == "idle" for line in lines),
        tuple(sorted({document.use_case for document in ready})),
        identity.name if identity is not None else "no embedder",
        is_enabled,
        trouble,
        embedder_trouble,
        now,
    )


def line_of(document: Document, identity: Identity | None, uses: int, now: float) -> Line:
    """A document's row."""
    at = datetime.fromisoformat(document.updated_at).timestamp()
    kind, state = "ok", "ready"
    if document.state == "failed":
        kind, state = "bad", "failed"
    elif document.state == "indexing":
        percent = 100 * document.done // document.chunks if document.chunks else 0
        kind, state = "warn", f"indexing {percent}%" if document.chunks else "reading"
        if now - at > STALE_S:
            kind, state = "bad", "interrupted"
    elif identity is not None and (document.embedder, document.embedder_sha) != (identity.name, identity.sha):
        kind, state = "idle", "other embedder"
    return Line(document, kind, state, uses, at)


def found_by(question: str, hits: Sequence[Hit], chunks: int, duration_ms: float, min_score: float) -> Tested:
    """What a question has found, its words marked in the passages."""
    words = {word.lower() for word in WORD.findall(question) if len(word) >= LEAST_WORD_CHARS}
    return Tested(
        tuple(
            Found(hit, f"{plain(hit.source)}, chunk {hit.number}", _pieces(hit.text, words), hit.score < min_score)
            for hit in hits
        ),
        chunks,
        duration_ms,
        min_score,
    )


def _pieces(text: str, words: set[str]) -> tuple[tuple[str, bool], ...]:
    """The beginning of a text, or what is around the first of the words in it.

    >>> _pieces("the notice period", {"notice"})
    (('the ', False), ('notice', True), (' period', False))
    """
    whole = plain(text)
    first = next((match.start() for match in WORD.finditer(whole) if match.group().lower() in words), 0)
    start = max(0, first - SHOWN_CHARS // 3) if len(whole) > SHOWN_CHARS else 0
    shown = whole[start : start + SHOWN_CHARS]
    pieces: list[tuple[str, bool]] = []
    at = 0
    for match in WORD.finditer(shown):
        if match.group().lower() in words:
            pieces += [(shown[at : match.start()], False), (match.group(), True)]
            at = match.end()
    pieces.append((shown[at:] + ("…" if start + SHOWN_CHARS < len(whole) else ""), False))
    return tuple((piece, is_word) for piece, is_word in pieces if piece)


def _fits(line: Line, text: str) -> bool:
    wanted = text.lower()
    return not wanted or wanted in line.name.lower() or wanted in line.place.lower()
