"""Looks around in the schema: which keys a place may have, and every key that there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from hermes.configfile.schema import Part, Root


def known_keys(path: Sequence[str | int]) -> tuple[str, ...]:
    """The keys that the mapping at `path` may have; empty where names are free or nothing is known."""
    kind: Any = Root
    for part in path:
        kind = _inside(kind, part)
    part_class = _part_class(kind)
    return tuple(part_class.model_fields) if part_class else ()


def every_key(kind: type[Part] = Root, above: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted path of every leaf key and its default, an entry of a list as `[]`."""
    for name, info in kind.model_fields.items():
        inner = _part_class(info.annotation)
        is_list = inner is not None and _part_class(_inside(info.annotation, 0)) is inner
        path = f"{above}{name}" + ("[]" if is_list else "")
        if inner is None:
            yield path, ... if info.is_required() else info.get_default(call_default_factory=True)
        else:
            yield from every_key(inner, f"{path}.")


def _inside(kind: Any, part: str | int) -> Any:
    """The kind of what stands under a key, or at an index, of `kind`."""
    part_class = _part_class(kind)
    for choice in _choices(kind):
        origin = get_origin(choice)
        if origin is list and isinstance(part, int):
            return get_args(choice)[0]
        if origin is dict:
            return get_args(choice)[1]
    if part_class is not None and part in part_class.model_fields:
        return part_class.model_fields[str(part)].annotation
    return None


def _part_class(kind: Any) -> type[Part] | None:
    for choice in _choices(kind):
        if isinstance(choice, type) and issubclass(choice, Part):
            return choice
        if get_origin(choice) is list:
            return _part_class(get_args(choice)[0])
    return None


def _choices(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield from _choices(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for choice in get_args(kind):
            yield from _choices(choice)
    else:
        yield kind
