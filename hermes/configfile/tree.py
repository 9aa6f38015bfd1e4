"""YAML text to plain dicts and lists whose leaves keep the text and the line they were written with.

The tree is built from the parser's events, not by a constructor: nothing is resolved, so `502`, `on` and `1.50` stay
what the operator wrote until the schema says what they are for; no tag is executed; size, depth and what aliases expand
to are counted before anything is copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from hermes.configfile.findings import Path, dotted
from hermes.errors import ConfigurationInvalid, Problem

MAX_BYTES: Final = 1024 * 1024
MAX_NODES: Final = 20_000
"""Values in the file once its aliases are expanded."""

MAX_DEPTH: Final = 32

NULL_WORDS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf: its text as written, and whether it stood without quotes."""

    text: str
    plain: bool
    line: int

    @property
    def is_null(self) -> bool:
        """Nothing was written, or a word that means nothing; such a key counts as not given."""
        return self.plain and self.text in NULL_WORDS


@dataclass(slots=True)
class _Section:
    line: int
    entries: dict[str, tuple[int, _Node]] = field(default_factory=dict)
    """Line of the key, and its value."""

    size: int = 1
    height: int = 1


@dataclass(slots=True)
class _Series:
    line: int
    items: list[_Node] = field(default_factory=list)
    size: int = 1
    height: int = 1


_Node = Scalar | _Section | _Series


@dataclass(frozen=True, slots=True)
class Tree:
    """A file's values: dict, list and Scalar; with the line of every key and item."""

    values: Any
    """None: the file holds nothing."""

    lines: dict[Path, int]
    problems: list[Problem]
    """Faults beside which the rest can still be read: keys that stand twice."""


class _Refused(Exception):
    """The text cannot be read on from here."""

    def __init__(self, line: int, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.problem = Problem(dotted(path), line, message)


def read(text: str, file: str) -> Tree:
    """Reads one YAML document.

    Raises:
        ConfigurationInvalid: it is not YAML, or more of it than a configuration needs.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ConfigurationInvalid(file, [Problem("", None, f"is larger than {MAX_BYTES // 1024} KiB")])
    builder = _Builder()
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except _Refused as refused:
        raise ConfigurationInvalid(file, [refused.problem]) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position or 0) + 1
        raise ConfigurationInvalid(file, [Problem("", line, "holds a character that YAML does not allow")]) from None
    except MarkedYAMLError as error:
        raise ConfigurationInvalid(file, [_syntax_problem(error)]) from None
    except (YAMLError, ValueError, OverflowError):
        # of an escape beyond Unicode ("\\UFFFFFFFF") the parser makes an error of Python's own
        raise ConfigurationInvalid(file, [Problem("", None, "is not valid YAML")]) from None
    lines: dict[Path, int] = {}
    values = None if builder.root is None else _spread(builder.root, (), lines)
    return Tree(values, lines, builder.problems)


def _syntax_problem(error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    parts = [part for part in (error.context, error.problem) if part]
    told = " ".join(" ".join(parts).split())[:200]
    place = f" (column {mark.column + 1})" if mark else ""
    return Problem("", mark.line + 1 if mark else None, f"is not valid YAML: {told}{place}")


def _spread(node: _Node, path: Path, lines: dict[Path, int]) -> Any:
    """A copy for every place, so that two places that share an anchor can be judged apart."""
    if isinstance(node, _Section):
        copied: dict[str, Any] = {}
        for key, (line, value) in node.entries.items():
            lines[(*path, key)] = line
            copied[key] = _spread(value, (*path, key), lines)
        return copied
    if isinstance(node, _Series):
        for index, item in enumerate(node.items):
            lines[(*path, index)] = item.line
        return [_spread(item, (*path, index), lines) for index, item in enumerate(node.items)]
    return node


@dataclass(slots=True)
class _Frame:
    """A collection that is still open."""

    node: _Section | _Series
    anchor: str | None
    key: tuple[int, str] | None = None
    """The key whose value comes next."""

    merged: list[_Section] = field(default_factory=list)
    """What `<<:` brings in, under the keys of its own."""


class _Builder:
    """Takes events one by one; keeps its own stack, so that depth costs no recursion."""

    def __init__(self) -> None:
        self.root: _Node | None = None
        self.problems: list[Problem] = []
        self._open: list[_Frame] = []
        self._anchors: dict[str, _Node] = {}
        self._documents = 0

    def take(self, event: Event) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _Refused(line, "holds a second document; one `---` is enough")
        elif isinstance(event, AliasEvent):
            self._place(self._alias(event, line), line)
        elif isinstance(event, NodeEvent):
            self._begin(event, line)
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            self._end(line)

    def _begin(self, event: NodeEvent, line: int) -> None:
        # `tag` is empty for what is written without one; `!` alone only says "not resolved"
        if getattr(event, "tag", None) not in (None, "!", "tag:yaml.org,2002:str"):
            raise _Refused(line, "a tag (`!…`) has no meaning here; leave it out", self._path())
        if isinstance(event, ScalarEvent):
            if any("\ud800" <= c <= "\udfff" for c in event.value):
                raise _Refused(line, "holds one half of a surrogate pair, which is no character", self._path())
            leaf = Scalar(event.value, plain=event.style in (None, "") and event.tag is None, line=line)
            if event.anchor:
                self._anchors[event.anchor] = leaf
            self._place(leaf, line)
        elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if len(self._open) >= MAX_DEPTH:
                raise _Refused(line, f"is nested more than {MAX_DEPTH} deep")
            self._check_key_is_text(line)
            is_mapping = isinstance(event, MappingStartEvent)
            self._open.append(_Frame(_Section(line) if is_mapping else _Series(line), event.anchor))

    def _alias(self, event: AliasEvent, line: int) -> _Node:
        # an anchor is known once its value is complete, so nothing can contain itself
        if event.anchor not in self._anchors:
            raise _Refused(line, "an alias (`*name`) whose anchor (`&name`) does not stand before it", self._path())
        return self._anchors[event.anchor]

    def _end(self, line: int) -> None:
        frame = self._open.pop()
        if isinstance(frame.node, _Section):
            for section in frame.merged:
                for key, entry in section.entries.items():
                    frame.node.entries.setdefault(key, entry)
        if frame.anchor:
            self._anchors[frame.anchor] = frame.node
        self._place(frame.node, line)

    def _place(self, node: _Node, line: int) -> None:
        """Puts a finished value where the open collection expects one."""
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        if isinstance(frame.node, _Section) and frame.key is None:
            frame.key = (line, self._key(node, line))
            return
        self._count(frame, node, line)
        if isinstance(frame.node, _Series):
            frame.node.items.append(node)
            return
        assert frame.key is not None
        self._enter(frame, frame.node, frame.key, node)
        frame.key = None

    def _enter(self, frame: _Frame, section: _Section, key: tuple[int, str], node: _Node) -> None:
        line, name = key
        if name == "<<":
            frame.merged.extend(_mergeable(node, line))
        elif name in section.entries:
            first = section.entries[name][0]
            self.problems.append(Problem(dotted(self._path()), line, f"stands twice; the first is on line {first}"))
        else:
            section.entries[name] = (line, node)

    def _count(self, frame: _Frame, node: _Node, line: int) -> None:
        size, height = (1, 0) if isinstance(node, Scalar) else (node.size, node.height)
        frame.node.size += size
        frame.node.height = max(frame.node.height, height + 1)
        if frame.node.size > MAX_NODES:
            raise _Refused(line, f"holds more than {MAX_NODES} values, its aliases expanded")
        if len(self._open) + height > MAX_DEPTH:
            raise _Refused(line, f"is nested more than {MAX_DEPTH} deep, its aliases expanded")

    def _key(self, node: _Node, line: int) -> str:
        if not isinstance(node, Scalar):
            raise _Refused(line, "a key must be a word", self._path())
        return node.text

    def _check_key_is_text(self, line: int) -> None:
        frame = self._open[-1] if self._open else None
        if frame is not None and isinstance(frame.node, _Section) and frame.key is None:
            raise _Refused(line, "a key must be a word", self._path())

    def _path(self) -> Path:
        parts: Iterator[list[str | int]] = (
            [len(frame.node.items)]
            if isinstance(frame.node, _Series)
            else ([] if frame.key is None else [frame.key[1]])
            for frame in self._open
        )
        return tuple(itertools.chain.from_iterable(parts))


def _mergeable(node: _Node, line: int) -> list[_Section]:
    """The sections that a `<<:` names, the strongest first."""
    named = node.items if isinstance(node, _Series) else [node]
    sections = [item for item in named if isinstance(item, _Section)]
    if len(sections) != len(named):
        raise _Refused(line, "`<<` takes an alias of a mapping, or a list of such")
    return sections
