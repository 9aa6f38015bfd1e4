"""A provider's JSON, as clients would read it."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from hermes.skim import is_deeper

MOST_NESTED: Final = 100
"""Answers have ten. Whoever goes through a value calls itself, and a thousand calls deep the interpreter gives up."""


def tolerantly(data: bytes) -> Any:
    """Data as JSON; None where it is none, or is nested as no answer is. NaN and half surrogate pairs pass clients'
    parsers, so they pass here.
    """
    if is_deeper(data, MOST_NESTED):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
