"""Reads a document: its bytes become passages. Run as a program, it does so for a process that serves others.

Parsers of files from anywhere may take for ever, or all of the memory, and they hold the interpreter's lock meanwhile.
So a server lets a process of its own do it, with bounds on its time and memory, which it may simply end.
"""

from __future__ import annotations

import codecs
import re
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from hermes.knowledge.blocks import Block, Unreadable
from hermes.knowledge.chunking import Passage, passages
from hermes.knowledge.markdown import read_markdown, read_text

MOST_CHARS: Final = 8_000_000
MOST_PASSAGES: Final = 20_000
MEMORY_BYTES: Final = 2 * 1024**3
CPU_S: Final[Mapping[str, int]] = {"pdf": 300}
"""How long the processor may work on a document of a format; what is not named, for a minute."""

USUAL_CPU_S: Final = 60

FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    "markdown": (".md", ".markdown", ".mdx"),
    "text": (".txt", ".text", ".log", ".rst"),
    "html": (".html", ".htm", ".xhtml"),
    "pdf": (".pdf",),
    "csv": (".csv", ".tsv"),
}
"""By the endings of their names."""

TYPES: Final[Mapping[str, str]] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
}
"""By HTTP's media type."""

META_WITHIN_BYTES: Final = 4096
_META = re.compile(
    rb"<meta\b[^>]{0,200}?charset\s*=\s*[\"']?((?:windows-|cp|iso-|koi8|shift|euc|gb|big5)[a-z0-9_-]{0,40})",
    re.IGNORECASE,
)

READ_HERE: Final = frozenset({"markdown", "text"})
"""Formats whose parsers are plain enough for a small document to be read at once."""


def format_of(source: str, media_type: str = "") -> str | None:
    """A document's format by its name, else by its media type; None: it is none that can be read.

    >>> format_of("Policy.PDF"), format_of("notes", "text/html; charset=utf-8"), format_of("x.docx"), format_of("notes")
    ('pdf', 'html', None, 'text')
    """
    ending = f".{source.rpartition('.')[2].lower()}" if "." in source.rpartition("/")[2] else ""
    named = next((name for name, endings in FORMATS.items() if ending in endings), None)
    if named is not None:
        return named
    if media_type:
        return TYPES.get(media_type.partition(";")[0].strip().lower())
    return None if 2 <= len(ending) <= 6 and ending[1:].isalnum() and not ending[1:].isdigit() else "text"


def read_passages(raw: bytes, fmt: str) -> list[Passage]:
    """The passages of a document.

    Raises:
        Unreadable: it is not of its format, has no text, or too much.
    """
    blocks = _reader(fmt)(raw)
    if sum(len(block.text) for block in blocks) > MOST_CHARS:
        raise Unreadable(f"it has more than {MOST_CHARS:,} characters of text; cut it into several documents")
    found = list(passages(blocks))
    if not found:
        hint = " (a scanned PDF holds pictures; have its text recognised first)" if fmt == "pdf" else ""
        raise Unreadable(f"no text was found in it{hint}")
    if len(found) > MOST_PASSAGES:
        raise Unreadable(f"it has more than {MOST_PASSAGES:,} passages; cut it into several documents")
    return found


def decoded(raw: bytes, charset: str = "cp1252") -> str:
    """The text of a file, whatever it was written with.

    Args:
        charset: where it is no Unicode.

    Raises:
        Unreadable: it is no text.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = raw.decode("utf-16", "replace")
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode(charset, "replace")
    if "\0" in text:
        raise Unreadable("it is no text, whatever its name says")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _charset(page: bytes) -> str:
    """What a page of HTML says of itself, where that is one of the usual ones; ASCII and Latin 1 are read as browsers
    do.
    """
    said = _META.search(page, 0, META_WITHIN_BYTES)
    name = said[1].decode().lower() if said else ""
    try:
        codecs.lookup(name or "ascii")
    except LookupError:
        return "cp1252"
    return name if name not in ("", "iso-8859-1") else "cp1252"


def _reader(fmt: str) -> Callable[[bytes], list[Block]]:
    """The parsers' libraries are imported only where one of their documents comes."""
    if fmt == "pdf":
        from hermes.knowledge.pdf import read_pdf

        return read_pdf
    if fmt == "html":
        from hermes.knowledge.html import read_html

        return lambda raw: read_html(decoded(raw, _charset(raw)))
    if fmt == "csv":
        from hermes.knowledge.table import read_csv

        return lambda raw: read_csv(decoded(raw))
    return lambda raw: (read_markdown if fmt == "markdown" else read_text)(decoded(raw))


def main() -> None:
    """Reads a document of the format `argv[1]` from standard input. Writes its passages as JSON, `[heading, text]` a
    line; why it cannot be read instead as a text.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    cpu_s = CPU_S.get(sys.argv[1], USUAL_CPU_S)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))  # first SIGXCPU, which says why; then SIGKILL
    try:
        told: list[object] = [list(passage) for passage in read_passages(sys.stdin.buffer.read(), sys.argv[1])]
    except Unreadable as error:
        told = [str(error)]
    except (MemoryError, RecursionError):
        told = ["reading it takes more memory than it may have"]
    sys.stdout.buffer.writelines(orjson.dumps(line) + b"\n" for line in told)


if __name__ == "__main__":
    main()
