"""JSON Schema (2020-12, which OpenAPI 3.1 speaks) in few words, for `shapes` and `routes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WORD: Final[Schema] = {"type": "string", "minLength": 1}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
ANYTHING: Final[Schema] = {}


def between(least: int, most: int) -> Schema:
    """A whole number from `least` to `most`."""
    return {"type": "integer", "minimum": least, "maximum": most}


def one_of(*values: str) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(values)}


def some(schema: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": schema}


def several(schema: Schema) -> Schema:
    """A list of at least one."""
    return {"type": "array", "items": schema, "minItems": 1}


def by_name(schema: Schema) -> Schema:
    """An object whose members have names of their own, and values of one shape."""
    return {"type": "object", "additionalProperties": schema}


def maybe(schema: Schema) -> Schema:
    """The same, or null.

    >>> maybe(TEXT), maybe({"$ref": "#"})
    ({'type': ['string', 'null']}, {'anyOf': [{'$ref': '#'}, {'type': 'null'}]})
    """
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    """One of `shapes.SHAPES`."""
    return {"$ref": f"#/components/schemas/{name}"}


def said(schema: Schema, description: str) -> Schema:
    """The same, with a sentence about it."""
    return {**schema, "description": description}


def fields(members: Mapping[str, Schema]) -> Schema:
    """An object of these members; a name that ends in `?` may be missing.

    >>> fields({"a": TEXT, "b?": WHOLE})["required"]
    ['a']
    """
    return {
        "type": "object",
        "properties": {name.rstrip("?"): schema for name, schema in members.items()},
        "required": [name for name in members if not name.endswith("?")],
    }


def open_object(members: Mapping[str, Schema]) -> Schema:
    """An object of these members, and of any others."""
    return {**fields(members), "additionalProperties": True}


def closed(members: Mapping[str, Schema]) -> Schema:
    """What a caller sends: a member that is not known is refused."""
    return {**fields(members), "additionalProperties": False}
