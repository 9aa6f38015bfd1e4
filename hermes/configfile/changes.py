"""What differs between two configurations as operators are shown them: for the record of who has changed what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hermes.configfile.findings import Path, dotted

MAX_CHANGES: Final = 100
"""More than these help nobody."""

MAX_CHARS: Final = 200
ABSENT: Final = object()


def changes(before: Any, after: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that differ, by their paths, as they were and as they are; a list of plain values counts as one.

    >>> changes({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": [5]})
    ({'a.c': 2}, {'a.c': 3, 'd': [5]})
    """
    old, new = dict(_leaves(before, ())), dict(_leaves(after, ()))
    differing = [path for path in {**old, **new} if old.get(path, ABSENT) != new.get(path, ABSENT)][:MAX_CHANGES]
    return _shown(old, differing), _shown(new, differing)


def leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """Every value with its path, in the order of the document.

    >>> list(leaves({"a": {"b": 1, "c": [2, 3]}}))
    [('a.b', 1), ('a.c', [2, 3])]
    """
    return ((dotted(path), value) for path, value in _leaves(document, ()))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))
    else:
        yield path, value


def _shown(values: dict[Path, Any], paths: list[Path]) -> dict[str, Any]:
    return {dotted(path): _cut(values[path]) for path in paths if path in values}


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(item) for item in value]
    return f"{value[:MAX_CHARS]}…" if isinstance(value, str) and len(value) > MAX_CHARS else value
