"""Walking through the usage log as a person does: a page from where the last one ended, what is new above it, the
requests beside one, the greatest of the newest.

Nothing here costs more with the length of the log. A page begins behind a row and never after a number of rows. Where
no index leads to all of a filter, one of three ways is taken (`_way`): all rows that one of its parts has, if those are
few; else the next entries of the index in the order of time, which holds whatever is filtered by, so that no row is
read; or, for what is not even there, some rows. How many is bounded, and the page says how far that was: who wants
more goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from peewee import Select, fn

from hermes.storage.db import Database
from hermes.storage.models.usage import UsageRow
from hermes.storage.repositories import shown_rows
from hermes.storage.usage_filter import UsageFilter

MOST_LOOKED_AT: Final = 75_000
"""Entries of the index in the order of time: some 15 ms in SQLite, 30 in Postgres."""

GLANCE: Final = 10
"""What fits may be frequent: first a tenth of them is looked at."""

MOST_READ: Final = 5_000
"""Rows, in which each costs some 5 µs, and more where they lie far from each other."""

FEW: Final = 2_000
"""So many rows are read without a thought."""

MOST_SORTED: Final = 50_000
Sort = Literal["duration_ms", "estimated_cost_usd", "total_tokens"]
SORTS: Final[tuple[Sort, ...]] = ("duration_ms", "estimated_cost_usd", "total_tokens")

FILTERS: Final = (*UsageFilter.EXACT, "fallback", "min_duration_ms", "any_of")
SERVED: Final[Mapping[str, tuple[str, ...]]] = {
    "request_id": (),
    "session_key": (),
    "user_id": ("function_name", "model", "tier", "status"),
    "function_name": ("model", "tier", "status"),
    "key_id": (),
    "model": ("tier", "status"),
    "status": ("tier",),
    "tier": (),
}
"""Columns that lead an index in the order of time, and which others stand in it."""

IN_TIME: Final = frozenset(
    [
        "user_id",
        "function_name",
        "key_id",
        "model",
        "tier",
        "status",
        "decision",
        "fallback_level",
        "duration_ms",
        *SORTS,
    ]
)
"""What the index in the order of time holds."""


class Mark(NamedTuple):
    """A place in the log."""

    at: str
    """`created_at`."""

    number: int
    """`id`."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Mark:
        """Where a row is."""
        return cls(row["created_at"], row["id"])


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of the log."""

    rows: list[dict[str, Any]]
    behind: Mark | None
    """Where the next one begins; None: this was the last one."""

    looked_at: int = 0
    """How many rows were looked at, where not all could be; 0: all that mattered."""


@dataclass(frozen=True, slots=True)
class Greatest:
    """The first rows of an order."""

    rows: list[dict[str, Any]]
    among: int
    """How many rows were put in order at most, the newest ones."""

    all_fit: bool
    """Whether those were rows that fit; else all rows, of which those that fit were taken."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows there are."""

    number: int
    is_all: bool
    """False: there may be more, behind those that were looked at."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The requests next to one, of those that a filter means."""

    newer: str | None
    older: str | None


def page(database: Database, wanted: UsageFilter, behind: Mark | None, rows: int) -> Page:
    """The next rows, newest first."""
    return database.report(_page, wanted, behind, rows)


def greatest(database: Database, wanted: UsageFilter, by: Sort, rows: int) -> Greatest:
    """The rows with the most of something, among the newest; the greatest first."""
    return database.report(_greatest, wanted, by, rows)


def count(database: Database, wanted: UsageFilter, most: int) -> Counted:
    """How many rows a filter means, counted up to `most`."""
    return database.report(_count, wanted, most)


def count_some(database: Database, wanted: UsageFilter, most: int, above: Mark | None = None) -> int:
    """How many rows a filter means, counted up to `most`; with `above`, of those that are newer than a place."""
    return database.report(_count_some, wanted, most, above)


def beside(database: Database, wanted: UsageFilter, place: Mark) -> Beside:
    """Who stands next to a request."""
    return database.report(_beside, wanted, place)


@dataclass(frozen=True, slots=True)
class _Way:
    """How the rows of a filter are found."""

    conditions: list[Any]
    """What an index serves."""

    others: list[str]
    """The names of the filters that are left for what it gives."""

    most: int
    """So much of what it gives is looked at."""

    is_in_time: bool = False
    """Whether that is the index in the order of time, which holds all that is asked for; else rows are read."""


def _way(wanted: UsageFilter, place: Mark | None = None, *, up: bool = False) -> _Way:
    """For the rows behind a place, or (`up`) above it. Costs a read where it is not plain."""
    given = [name for name in FILTERS if wanted.meets(name, UsageRow) is not None]
    lead = next((name for name in SERVED if name in given and not _is_several(wanted, name)), None)
    served = () if lead is None else (lead, *(n for n in SERVED[lead] if not _is_several(wanted, n)))
    others = [name for name in given if name not in served]
    times = _times(wanted, place, up)
    led = [*(wanted.meets(name, UsageRow) for name in given if name in served), *times]
    if not others:
        return _Way(led, [], MOST_SORTED if not given else MOST_READ, not given)
    if lead is not None and _number_of(_where(UsageRow.select(UsageRow.id), led).limit(FEW + 1)) <= FEW:
        return _Way(led, others, FEW + 1)
    if all(column in IN_TIME for name in given for column in _columns(name, wanted)):
        return _Way(times, given, MOST_LOOKED_AT, is_in_time=True)
    return _Way(led, others, MOST_READ)


def _is_several(wanted: UsageFilter, name: str) -> bool:
    return name == "status" and wanted.status == "failed"


def _times(wanted: UsageFilter, place: Mark | None, up: bool) -> list[Any]:
    conditions: list[Any] = []
    if wanted.since is not None:
        conditions.append(UsageRow.created_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(UsageRow.created_at <= wanted.until)
    if place is not None:
        at, number = place
        # The first condition alone is what an index serves, in SQLite and in Postgres.
        if up:
            conditions += [UsageRow.created_at >= at, (UsageRow.created_at > at) | (UsageRow.id > number)]
        else:
            conditions += [UsageRow.created_at <= at, (UsageRow.created_at < at) | (UsageRow.id < number)]
    return conditions


def _fitting(wanted: UsageFilter, way: _Way, *, up: bool = False, most: int = 0) -> Any:
    """The ids of the rows that fit, in order: where an index does not serve it all, of the next that it gives.

    Args:
        most: looks at so many at most; 0: at as many as the way allows.
    """
    if not way.others:
        return _where(UsageRow.select(UsageRow.id), way.conditions).order_by(*_order(UsageRow, up))
    looked_at = _looked_at(wanted, way, most or way.most, up=up)
    query = Select([looked_at], [looked_at.c.id])
    return query.where(*_left(wanted, way, looked_at.c)).order_by(*_order(looked_at.c, up))


def _looked_at(wanted: UsageFilter, way: _Way, most: int, *columns: str, up: bool = False) -> Any:
    left = [column for name in way.others for column in _columns(name, wanted)]
    names = dict.fromkeys(["id", "created_at", *left, *columns])
    rows = UsageRow.select(*(getattr(UsageRow, name) for name in names))
    if way.is_in_time:
        return _where(rows, way.conditions).order_by(*_order(UsageRow, up)).limit(most).alias("looked_at")
    # The ids by themselves: else the one index that holds every column is searched through instead of the leading one.
    ids = _where(UsageRow.select(UsageRow.id), way.conditions).order_by(*_order(UsageRow, up)).limit(most)
    return rows.where(UsageRow.id.in_(ids)).alias("looked_at")


def _left(wanted: UsageFilter, way: _Way, columns: Any) -> list[Any]:
    return [wanted.meets(name, columns) for name in way.others]


def _number_of(query: Any) -> int:
    some = query.alias("some")
    return int(Select([some], [fn.COUNT(some.c.id)]).scalar(UsageRow._meta.database) or 0)


def _where(query: Any, conditions: list[Any]) -> Any:
    return query.where(*conditions) if conditions else query


def _order(columns: Any, up: bool) -> tuple[Any, Any]:
    keys = (columns.created_at, columns.id)
    return (keys[0].asc(), keys[1].asc()) if up else (keys[0].desc(), keys[1].desc())


def _columns(name: str, wanted: UsageFilter) -> list[str]:
    if name == "any_of":
        return [column for column, _ in wanted.any_of or ()]
    return [{"fallback": "fallback_level", "min_duration_ms": "duration_ms"}.get(name, name)]


def _page(wanted: UsageFilter, behind: Mark | None, rows: int) -> Page:
    way = _way(wanted, behind)
    for most in (way.most // GLANCE, way.most) if way.is_in_time and way.others else (way.most,):
        found = shown_rows(_fitting(wanted, way, most=most).limit(rows + 1))
        if len(found) > rows:
            return Page(found[:rows], Mark.of(found[rows - 1]))
    # Where the looking ended: beyond that there may be more.
    last = _end(wanted, way)
    return Page(found, None) if last is None else Page(found, last, way.most)


def _end(wanted: UsageFilter, way: _Way) -> Mark | None:
    """The last that can be looked at, where there may be others behind it."""
    if not way.others or wanted.any_of == ():
        return None
    query = _where(UsageRow.select(UsageRow.created_at, UsageRow.id), way.conditions)
    last = query.order_by(*_order(UsageRow, up=False)).offset(way.most - 1).limit(1).tuples().first()
    return None if last is None else Mark(*last)


def _greatest(wanted: UsageFilter, by: Sort, rows: int) -> Greatest:
    way = _way(wanted)
    among = min(way.most, MOST_SORTED if way.is_in_time else MOST_READ)
    newest = _looked_at(wanted, way, among, by)
    value = fn.COALESCE(getattr(newest.c, by), -1)  # unknown is last, in either database
    query = Select([newest], [newest.c.id]).order_by(value.desc(), newest.c.id.desc()).limit(rows)
    if way.others:
        query = query.where(*_left(wanted, way, newest.c))
    found = shown_rows(query)
    found.sort(key=lambda row: -1.0 if row[by] is None else float(row[by]), reverse=True)
    return Greatest(found, among, not way.others or not way.is_in_time)


def _count_some(wanted: UsageFilter, most: int, above: Mark | None) -> int:
    up = above is not None
    return _number_of(_fitting(wanted, _way(wanted, above, up=up), up=up).limit(most))


def _count(wanted: UsageFilter, most: int) -> Counted:
    way = _way(wanted)
    number = _number_of(_fitting(wanted, way).limit(most))
    return Counted(number, number >= most or _end(wanted, way) is None)


def _beside(wanted: UsageFilter, place: Mark) -> Beside:
    newer, older = (
        next((row["request_id"] for row in shown_rows(_fitting(wanted, way, up=up).limit(1))), None)
        for up, way in ((up, _way(wanted, place, up=up)) for up in (True, False))
    )
    return Beside(newer, older)
