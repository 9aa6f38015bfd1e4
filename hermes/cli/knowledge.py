"""`knowledge`: takes documents in, looks for something in them, lists and removes them. No server need run.

A running one finds a new document within a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hermes.cli.directory import actor_here, say_json, say_table
from hermes.cli.start import read_start
from hermes.errors import DatabaseUnavailable, HermesError, InvalidRequest
from hermes.policy import KnowledgePolicy

if TYPE_CHECKING:
    from hermes.documents import Document, Hit
    from hermes.knowledge.library import Library

COLUMNS: Final = ("id", "use case", "entity", "document", "chunks", "state")
SHOWN_CHARS: Final = 240


@dataclass(frozen=True, slots=True)
class OpenLibrary:
    """The documents, while a command runs."""

    library: Library
    knowledge: KnowledgePolicy
    actor: str


@click.group()
def knowledge() -> None:
    """Give models documents to answer from."""


@knowledge.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--use-case", required=True, help="What they are for: calls name it in context_hint.")
@click.option("--entity", help="What within the use case they are about; else they are about all of it.")
@click.option("--again", is_flag=True, help="Also those that have not changed since they were taken in.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def ingest(paths: Sequence[Path], use_case: str, entity: str | None, again: bool, as_json: bool) -> int:
    """Take documents in, or in place of older ones.

    Markdown, text, HTML, PDF and CSV; of a folder everything in it that is one of these. A document is called by its
    file's name, in a folder by its path from there; one of the same name, use case and entity takes the older one's
    place. What has not changed is passed over.

    Example: knowledge ingest handbook/ prices.csv --use-case shop
    """
    files = list(_files(paths))
    if not files:
        raise InvalidRequest("There is no document in these folders that can be read.")
    done: list[dict[str, Any]] = []
    with _open_library() as opened, _bar() as bar:
        for number, (path, source) in enumerate(files, 1):
            with bar(f"{source} ({number} of {len(files)})") as track:
                done.append(_ingested(opened, path, source, (use_case, entity), again=again, track=track))
            if not as_json:
                click.echo(f"{done[-1]['result']:>9}  {source}{_about(done[-1])}", err=done[-1]["result"] == "failed")
    failed = sum(one["result"] == "failed" for one in done)
    if as_json:
        say_json({"documents": done})
    elif failed:
        click.echo(f"{failed} of {len(done)} documents could not be taken in.", err=True)
    return 1 if failed else 0


@knowledge.command()
@click.argument("question")
@click.option("--use-case", help="Only in its documents.")
@click.option("--entity", help="Only in its documents, and in those of the use case that are about no entity.")
@click.option("--top-k", type=click.IntRange(1, 50), help="How many passages; else knowledge.top_k.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="How near they must be; else knowledge.min_score.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def search(
    question: str, use_case: str | None, entity: str | None, top_k: int | None, min_score: float | None, as_json: bool
) -> int:
    """Show what a call with this question would get to know."""
    from hermes.knowledge.selection import Selection

    with _open_library() as opened:
        hits = opened.library.search(
            question,
            Selection(use_case, entity),
            opened.knowledge.top_k if top_k is None else top_k,
            opened.knowledge.min_score if min_score is None else min_score,
        )
    if as_json:
        say_json({"hits": [hit.shown() for hit in hits]})
        return 0
    for hit in hits:
        click.echo(_told(hit))
    if not hits:
        click.echo("Nothing is near enough.", err=True)
    return 0


@knowledge.command("list")
@click.option("--use-case", help="Only its documents.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def list_documents(use_case: str | None, as_json: bool) -> None:
    """Show every document."""
    with _open_library() as opened:
        found = [one for one in opened.library.documents() if use_case in (None, one.use_case)]
    if as_json:
        say_json({"documents": [one.shown() for one in found]})
    else:
        say_table([COLUMNS, *map(_row, found)])


@knowledge.command()
@click.option("--use-case", required=True, help="Whose documents.")
@click.option("--entity", help="Only those about this.")
@click.option("--source", help="Only the one of this name; else all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def delete(use_case: str, entity: str | None, source: str | None, as_json: bool) -> None:
    """Remove documents."""
    with _open_library() as opened:
        gone = opened.library.delete(use_case, entity, source, opened.actor)
    if as_json:
        say_json({"deleted": [one.shown() for one in gone]})
    else:
        for one in gone:
            click.echo(f"{one.source} is removed.")


@knowledge.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def reindex(as_json: bool) -> int:
    """Give documents the vectors of the embedder in force.

    After knowledge.embedder was changed: those of another one cannot be compared with its questions.
    """
    done: list[Document] = []
    with _open_library() as opened, _bar() as bar:
        outdated = [one for one in opened.library.documents() if opened.library.is_outdated(one)]
        for number, old in enumerate(outdated, 1):
            with bar(f"{old.source} ({number} of {len(outdated)})") as track:
                begun = opened.library.again(old.id, opened.actor)
                done.append(opened.library.go_on(begun, opened.actor, track))
    if as_json:
        say_json({"documents": [one.shown() for one in done]})
    else:
        click.echo(f"{len(done)} documents have new vectors." if done else "Every document has the right vectors.")
    return 0


@contextmanager
def _open_library() -> Iterator[OpenLibrary]:
    """The documents of the environment's database, which is made or brought up to date first.

    Raises:
        StartRefused, ConfigurationInvalid: they cannot be used; which embedder is in force must be known.
    """
    # Here, because other commands and their help must not wait for these libraries.
    from hermes.knowledge.library import Library
    from hermes.knowledge.shelf import Shelf
    from hermes.knowledge.vectors import LocalModel, RemoteModel
    from hermes.settings import ROOT
    from hermes.storage.db import Database, migrate
    from hermes.storage.knowledge import KnowledgeRepository
    from hermes.upstream.ask import Asker
    from hermes.upstream.transport import Transport

    start = read_start(os.environ)
    remote = start.policy.embedder if start.policy is not None else None
    migrate(start.settings.database_url, ROOT / "migrations")
    database = Database.open(start.settings.database_url)
    transport = Transport(start.settings.connect_timeout_s)
    embedder = LocalModel() if remote is None else RemoteModel(remote, Asker(transport).embed)
    repository = KnowledgeRepository(database)
    try:
        library = Library(repository, Shelf(repository), lambda: embedder)
        yield OpenLibrary(library, start.policy.knowledge if start.policy else KnowledgePolicy(), actor_here())
    finally:
        transport.close()
        database.close()


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Every document and what it is called; hidden files and formats that are not read are passed over in folders."""
    from hermes.knowledge.reader import MOST_BYTES, too_large
    from hermes.knowledge.reading import FORMATS

    endings = {ending for known in FORMATS.values() for ending in known}
    for path in paths:
        if not path.is_dir():
            if not path.is_file():
                raise InvalidRequest(f"{path} is no file and no folder: a device or a pipe may have no end.")
            if path.stat().st_size > MOST_BYTES:
                raise InvalidRequest(str(too_large(str(path))))
            yield path, path.name
            continue
        for file in sorted(path.rglob("*")):
            inside = file.relative_to(path)
            is_hidden = any(part.startswith(".") for part in inside.parts)
            if file.is_file() and file.suffix.lower() in endings and not is_hidden:
                yield file, inside.as_posix()


def _ingested(
    opened: OpenLibrary, path: Path, source: str, place: tuple[str, str | None], *, again: bool, track: Any
) -> dict[str, Any]:
    """What has become of one file: `taken`, `unchanged` or `failed`."""
    from hermes.knowledge.library import named

    try:
        raw = _content(path, source)
        name = named(*place, source, raw)
        if not again and opened.library.has(name):
            return {"source": source, "result": "unchanged"}
        document = opened.library.add(raw, name, opened.actor, track)
    except DatabaseUnavailable:
        raise
    except (HermesError, OSError) as error:
        return {"source": source, "result": "failed", "reason": str(error)}
    return {"source": source, "result": "taken", "document": document.shown()}


def _content(path: Path, source: str) -> bytes:
    """All of a file, and no more than a document may have: some files have no end, and others grow.

    Raises:
        OSError: it cannot be read.
        PayloadTooLarge: it is too long.
    """
    from hermes.knowledge.reader import MOST_BYTES, too_large

    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise too_large(source)
    return raw


def _about(done: dict[str, Any]) -> str:
    if done["result"] == "taken":
        return f", {done['document']['chunks']} passages"
    return f": {done['reason']}" if "reason" in done else ""


@contextmanager
def _bar() -> Iterator[Any]:
    """A bar for each document, where there is a terminal to show it on."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:

        @contextmanager
        def one(title: str) -> Iterator[Any]:
            task = progress.add_task(title, total=None)
            try:
                yield lambda done, of: progress.update(task, completed=done, total=of)
            finally:
                progress.remove_task(task)

        yield one


def _row(document: Document) -> tuple[str, ...]:
    state = f"{document.state}: {document.note}" if document.note else document.state
    return (
        str(document.id), document.use_case, document.entity or "-", document.source, str(document.chunks), state,
    )  # fmt: skip


def _told(hit: Hit) -> str:
    place = f"{hit.use_case}/{hit.entity}" if hit.entity else hit.use_case
    text = " ".join(hit.text.split())
    shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
    heading = f" ({hit.heading})" if hit.heading else ""
    return f"{hit.score:.2f}  {place}: {hit.source} #{hit.number}{heading}\n      {_printable(shown)}"


def _printable(text: str) -> str:
    """A document's text must not steer the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
