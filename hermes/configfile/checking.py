"""Holds a file's values against the schema and finds all that is wrong, not the first.

What is wrong is told, cut out, and the rest is checked again, until it fits: so the later stages always get a `Root`,
and can find what only they can (a missing environment variable) in the same run.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hermes.configfile import schema
from hermes.configfile.findings import Findings, Path, nearest
from hermes.configfile.leaves import FAULT
from hermes.configfile.walk import every_key, known_keys

UNKNOWN_KEY: Final = "extra_forbidden"
MISSING: Final = "missing"

SENTENCES: Final = {
    MISSING: "is missing",
    "list_type": "must be a list",
    "dict_type": "must be a mapping: one `key: value` a line",
    "model_type": "must be a mapping: one `key: value` a line",
    "too_long": "has too many entries",
}

MAX_PASSES: Final = 50
MANY_PLACES: Final = 2
MANY_KEYS: Final = 12
"""A section with more keys than this is not listed in full; the documentation is."""


def checked(values: dict[str, Any], findings: Findings) -> schema.Root:
    """The part of the file that fits the schema; what does not is in `findings`. Cuts what is wrong out of `values`."""
    for _ in range(MAX_PASSES):
        try:
            return schema.Root.model_validate(values)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False, include_context=False)
        # unknown keys first: what one of them was meant to be is then not told as missing
        for found in sorted(faults, key=lambda found: found["type"] != UNKNOWN_KEY):
            path = _path(found)
            is_told = findings.is_broken(path) if found["type"] == MISSING else findings.is_cut(path)
            if not is_told:
                findings.problem(path, _sentence(found, path, findings))
            findings.broken.add(path)
            findings.broken.add(_cut(values, path))
    return schema.Root()


def _path(found: ErrorDetails) -> Path:
    path = found["loc"]
    # pydantic marks a fault in a mapping's key, not its value, in this way
    return path[:-1] if path[-1] == "[key]" and found["type"] == FAULT else path


def _sentence(found: ErrorDetails, path: Path, findings: Findings) -> str:
    if found["type"] == FAULT:
        return found["msg"]
    if found["type"] == UNKNOWN_KEY:
        return _unknown_key(path, findings)
    return SENTENCES.get(found["type"], "has a value of the wrong kind")


def _unknown_key(path: Path, findings: Findings) -> str:
    section, key = path[:-1], str(path[-1])
    known = known_keys(section)
    meant = nearest(key, known)
    if meant:
        findings.misspelt.add((*section, meant))
        return f"unknown key; did you mean {meant}?"
    if section[:1] == ("models",) and len(section) == 2 and key in schema.EndpointEntry.model_fields:
        return "unknown key in the flat form; it belongs to an entry of `endpoints`"
    elsewhere = [path for path, _ in every_key() if path.rpartition(".")[2] == key]
    if 0 < len(elsewhere) <= MANY_PLACES:
        return "unknown key here; it belongs to " + " or ".join(path.rpartition(".")[0] for path in elsewhere)
    if len(known) <= MANY_KEYS:
        return "unknown key; known here: " + ", ".join(sorted(known))
    return "unknown key; docs/configuration.md lists all that are known"


def _cut(values: dict[str, Any], path: Path) -> Path:
    """Removes the smallest mapping entry that contains the fault; gives its path.

    A list loses no single item: the items behind it would move, and with them their paths and lines. A faulty item
    becomes an empty mapping; only where none fits either, the whole list goes.
    """
    holder, place = values, path[:1]
    owner: Any = values
    for depth, part in enumerate(path):
        if isinstance(owner, list) and isinstance(part, int) and depth == len(path) - 1 and owner[part] != {}:
            owner[part] = {}
            return path
        if isinstance(owner, dict) and part in owner:
            holder, place = owner, path[: depth + 1]
        elif not isinstance(owner, list):
            break
        owner = owner[part]
    holder.pop(str(place[-1]), None)
    return place
