"""Fills a small value that satisfies a JSON schema, for `response_format` and for the arguments of tools.

Takes the first of every choice. Below `DEEP` levels only what is required is filled, so that a recursive schema ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

DEEP: Final = 4
BOTTOM: Final = 12
MOST_HOPS: Final = 16
MOST_ITEMS: Final = 20
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def filled(schema: Any, text: str = "demo") -> Any:
    """A value for the schema; strings in it are the name of their property after `text`."""
    return _Filler(schema, text).value(schema, "value", 0)


class _Filler:
    def __init__(self, root: Any, text: str) -> None:
        self._root = root
        self._text = text
        self._makers: dict[str, Callable[[Mapping[str, Any], str, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._number,
            "number": self._number,
            "boolean": lambda schema, name, depth: True,
        }

    def value(self, schema: Any, name: str, depth: int) -> Any:
        whole = self._resolved(schema, depth)
        if "const" in whole:
            return whole["const"]
        if isinstance(whole.get("enum"), list) and whole["enum"]:
            return whole["enum"][0]
        maker = self._makers.get(_kind(whole))
        return maker(whole, name, depth) if maker and depth <= BOTTOM else None

    def _resolved(self, schema: Any, depth: int) -> Mapping[str, Any]:
        """The schema behind references and choices."""
        whole: dict[str, Any] = dict(schema) if isinstance(schema, Mapping) else {}
        for _ in range(MOST_HOPS):
            if "$ref" in whole:
                whole = self._target(whole.pop("$ref")) | whole
                continue
            parts = whole.pop("allOf", None)
            if isinstance(parts, list):
                for part in parts:
                    whole = _merged(whole, part)
                continue
            choices = whole.pop("anyOf", None) or whole.pop("oneOf", None)
            if not isinstance(choices, list):
                return whole
            whole = _merged(whole, _chosen(choices, depth))
        return {}

    def _target(self, reference: Any) -> dict[str, Any]:
        found = self._root
        for part in str(reference).removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return dict(found) if isinstance(found, Mapping) else {}

    def _object(self, schema: Mapping[str, Any], name: str, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        required = schema.get("required")
        if not isinstance(properties, Mapping):
            return {}
        wanted = properties if depth < DEEP else [key for key in properties if key in (required or ())]
        return {key: self.value(properties[key], key, depth + 1) for key in wanted}

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        fewest = schema.get("minItems", 1 if depth < DEEP else 0)
        count = min(fewest, MOST_ITEMS) if isinstance(fewest, int) else 1
        return [self.value(schema.get("items", {"type": "string"}), name, depth + 1) for _ in range(max(count, 0))]

    def _string(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        known = FORMATS.get(str(schema.get("format")))
        if known is not None:
            return known
        text = f"{self._text} {name}"
        shortest, longest = schema.get("minLength"), schema.get("maxLength")
        if isinstance(shortest, int):
            text = text.ljust(min(shortest, 1000), ".")
        return text[:longest] if isinstance(longest, int) and longest >= 0 else text

    def _number(self, schema: Mapping[str, Any], name: str, depth: int) -> float:
        """The smallest allowed number from 1 on, else the largest allowed one."""
        bounds: dict[str, float] = {key: schema[key] for key in BOUNDS if type(schema.get(key)) in (int, float)}
        number: float = max(1, bounds.get("minimum", 1), bounds.get("exclusiveMinimum", 0) + 1)
        step = bounds.get("multipleOf", 0)
        if step > 0:
            number = -(-number // step) * step
        return min(number, bounds.get("maximum", number), bounds.get("exclusiveMaximum", number + 1) - 1)


def _kind(schema: Mapping[str, Any]) -> str:
    """The type; of several the first that is not null; guessed where there is none."""
    given = schema.get("type")
    if isinstance(given, list):
        given = next((kind for kind in given if kind != "null"), "null")
    if isinstance(given, str):
        return given
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _chosen(choices: list[Any], depth: int) -> Any:
    """The first choice that is not null; deep down null, if that is one."""
    nulls = [choice for choice in choices if isinstance(choice, Mapping) and choice.get("type") == "null"]
    others = [choice for choice in choices if choice not in nulls]
    ordered = nulls + others if depth >= DEEP else others + nulls
    return ordered[0] if ordered else {}


def _merged(first: Mapping[str, Any], second: Any) -> dict[str, Any]:
    if not isinstance(second, Mapping):
        return dict(first)
    merged = {**first, **second}
    if isinstance(first.get("properties"), Mapping) and isinstance(second.get("properties"), Mapping):
        merged["properties"] = {**first["properties"], **second["properties"]}
    return merged
