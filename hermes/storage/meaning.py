"""What a text that somebody has typed above the usage log may mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hermes.metadata import whole
from hermes.storage.db import Database
from hermes.storage.models.sums import NameRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.rollups import DAY_CHARS
from hermes.storage.usage_filter import UsageFilter

MOST_NAMES: Final = 20
ID_PREFIX: Final = "req_"
"""What our own ids begin with; pages show them without it."""

SHORTEST_ID: Final = 6
"""A shorter beginning of a request id is none."""

NAMED: Final[Mapping[str, str]] = {"user_id": "user", "function_name": "function", "key_id": "key"}


def meaning(database: Database, wanted: UsageFilter, text: str) -> UsageFilter:
    """The filter, narrowed to what a text may mean: the beginning of a request's id, a session, a part of the name of a
    user, function or key. Where it can only mean one thing, that is the filter.

    Blocks: for the names of a filter's days.
    """
    return database.report(_meaning, wanted, whole(text.replace("\0", "")))


def _meaning(wanted: UsageFilter, text: str) -> UsageFilter:
    found = {"request_id": _ids(text), "session_key": _exactly("session_key", text)}
    for column, dimension in NAMED.items():
        found[column] = list(dict.fromkeys([*_exactly(column, text), *_names(dimension, text, wanted)]))
    any_of = tuple((column, tuple(values)) for column, values in found.items() if values)
    if len(any_of) == 1 and len(any_of[0][1]) == 1 and getattr(wanted, any_of[0][0]) is None:
        only: dict[str, Any] = {any_of[0][0]: any_of[0][1][0]}
        return replace(wanted, **only)
    return replace(wanted, any_of=any_of)


def _ids(text: str) -> list[str]:
    if len(text) < SHORTEST_ID:
        return _exactly("request_id", text)
    return [found for start in (text, ID_PREFIX + text) for found in _beginning_with(start)]


def _beginning_with(start: str) -> list[str]:
    # A range, which an index serves; a collation may take more for it than what begins with the text.
    within = (UsageRow.request_id >= start) & (UsageRow.request_id < start + "\U0010ffff")
    query: Any = UsageRow.select(UsageRow.request_id).where(within).order_by(UsageRow.request_id).limit(MOST_NAMES)
    return [found for (found,) in query.tuples() if found.startswith(start)]


def _exactly(column: str, text: str) -> list[str]:
    field = getattr(UsageRow, column)
    query: Any = UsageRow.select(field).where(field == text).limit(1).tuples()
    return [found for (found,) in query]


def _names(dimension: str, text: str, wanted: UsageFilter) -> list[str]:
    query: Any = NameRow.select(NameRow.name).distinct().where(NameRow.dimension == dimension, NameRow.grain == "day")
    if wanted.since is not None:
        query = query.where(NameRow.at >= wanted.since[:DAY_CHARS])
    if wanted.until is not None:
        query = query.where(NameRow.at <= wanted.until[:DAY_CHARS])
    return [name for (name,) in query.where(NameRow.name.contains(text)).limit(MOST_NAMES).tuples()]
