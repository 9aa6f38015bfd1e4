"""Rows of the usage log: stored exactly once, found by filters, shown as JSON.

Storing is safe to repeat: a `request_id` that is there already is passed over. What is new is added to the sums of
`rollups.py` in the same transaction. Rows come from files that may hold
anything, and one that a database refuses must never cost its neighbours; so each value is first fitted to its column,
and a batch that is refused all the same is stored row by row.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import orjson
from peewee import (  # type: ignore[attr-defined]
    BigIntegerField,
    BooleanField,
    DataError,
    DecimalField,
    DoubleField,
    IntegerField,
    IntegrityError,
    __exception_wrapper__,
)

from hermes.storage import daysums, deep, residency, rollups
from hermes.storage.db import Database
from hermes.storage.models.binding import is_on_postgres
from hermes.storage.models.usage import UsageRow, WriterRow
from hermes.storage.usage_filter import UsageFilter, utc_text

__all__ = ["Inserted", "UsageFilter", "UsageRepository"]

CHUNK_ROWS: Final = 250
"""Rows of one transaction: the more there are, the fewer sums are added up one by one."""

POSTGRES_CHUNK_ROWS: Final = 100
"""There the event loop writes the statement down, which takes 3 ms for a hundred."""

INDEXED_CHARS_MAX: Final = 512
"""Postgres refuses to index texts over 2.7 kB; at four bytes a character this is the length that always fits."""

INDEXED: Final = frozenset({"user_id", "function_name", "key_id", "session_key"})
USD_MAX: Final = Decimal(10) ** 11

Record = Mapping[str, Any]


class Inserted(NamedTuple):
    """What became of the rows of an insert."""

    rows: int
    """New rows; those that were there already are not counted."""

    rejected: tuple[tuple[Record, str], ...] = ()
    """Records that can never be stored, each with the reason."""


class UsageRepository:
    """`ai_usage_logs`."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def insert(self, records: Sequence[Record], writer: str = "") -> Inserted:
        """Stores records that are not stored yet, some hundred a transaction.

        Args:
            writer: the process that has made them, for `stored_of`; empty: nobody asks.

        A key that is no column is left out. NUL characters and halves of surrogate pairs, which databases refuse, are
        cleaned away. A record that can never be stored is passed over and returned with the reason.

        Raises:
            DatabaseUnavailable: the database does not work; the same records may be given again.
        """
        new = 0
        rejected: list[tuple[Record, str]] = []
        chunk_rows = POSTGRES_CHUNK_ROWS if is_on_postgres() else CHUNK_ROWS
        for start in range(0, len(records), chunk_rows):
            inserted = self._database.write(_insert, records[start : start + chunk_rows], writer, self._clock())
            new += inserted.rows
            rejected.extend(inserted.rejected)
        return Inserted(new, tuple(rejected))

    def stored_of(self, writer: str) -> int:
        """How many rows of a process were ever stored; each counts once, with its own transaction."""
        return self._database.read(_stored_of, writer)

    def find(self, wanted: UsageFilter) -> list[dict[str, Any]]:
        """The rows of one page, newest first: the contract's columns in its order, as JSON knows them."""
        return self._database.report(_find, wanted)

    def get(self, request_id: str) -> dict[str, Any] | None:
        """The row of one request with its `details`, or None."""
        return self._database.report(_get, request_id)

    def ping(self) -> None:
        """Asks the log for nothing, to see whether the database answers.

        Raises:
            DatabaseUnavailable: it does not.
        """
        self._database.read(lambda: UsageRow.select(UsageRow.id).limit(1).tuples().first())


def _insert(records: Sequence[Record], writer: str, now: float) -> Inserted:
    """Runs inside `Database.write`."""
    database = UsageRow._meta.database
    rows: list[tuple[Record, dict[str, Any]]] = []
    rejected: list[tuple[Record, str]] = []
    for record in records:
        try:
            rows.append((record, _fitted(record)))
        except ValueError as error:
            rejected.append((record, str(error)))
    if not rows:
        return Inserted(0, tuple(rejected))
    new = _stored_at_once([row for _, row in rows])
    if new is None:
        new = []
        for record, row in rows:
            try:
                with database.atomic():
                    new += [row["request_id"]] if _store([row]) else []
            except (DataError, IntegrityError) as error:
                rejected.append((record, " ".join(str(error).split())))
    rollups.add_new(new)
    if new:
        daysums.note_late((row["created_at"] for _, row in rows), now)
    stored = {row["request_id"]: record for record, row in reversed(rows)}  # of two with one id the first was
    residency.add_new(stored[request_id] for request_id in new)
    if writer and new:
        _count_for(writer, len(new), utc_text(datetime.fromtimestamp(now, UTC)))
    return Inserted(len(new), tuple(rejected))


def _count_for(writer: str, rows: int, at: str) -> None:
    added = {WriterRow.stored: WriterRow.stored + rows, WriterRow.stored_at: at}
    query = WriterRow.insert(writer=writer, stored=rows, stored_at=at)
    query.on_conflict(conflict_target=[WriterRow.writer], update=added).execute()


def _stored_of(writer: str) -> int:
    return int(WriterRow.select(WriterRow.stored).where(WriterRow.writer == writer).scalar() or 0)


def _stored_at_once(rows: Sequence[dict[str, Any]]) -> list[str] | None:
    """Inserts the rows that are not there yet; the ids of those. None: nothing was done, they must go one by one, since
    one cannot be stored, or since some are there already, and the driver tells how many, but not which.
    """
    try:
        with UsageRow._meta.database.atomic() as savepoint:
            stored = _store(rows)
            if 0 < stored < len(rows):
                savepoint.rollback()
                return None
    except (DataError, IntegrityError):
        return None  # at least one row's own fault; anything else is the database's, and goes to the caller
    return [row["request_id"] for row in rows] if stored else []


def _store(rows: Sequence[dict[str, Any]]) -> int:
    """Inserts the rows that are not there yet, and says how many."""
    # The driver repeats one statement: four times as fast as a statement of peewee's for all rows. The conflict names
    # its column, because SQLite's INSERT OR IGNORE would swallow rows for any other fault as well.
    database = UsageRow._meta.database
    marks = ", ".join([database.param] * len(COLUMNS))
    into = f"INSERT INTO {UsageRow._meta.table_name} ({', '.join(COLUMNS)})"  # names of the model's, nobody else's
    statement = f"{into} VALUES ({marks}) ON CONFLICT (request_id) DO NOTHING"
    cursor = database.cursor()
    with __exception_wrapper__:
        cursor.executemany(statement, [tuple(row.values()) for row in rows])
    stored: int = cursor.rowcount
    return stored


def _find(wanted: UsageFilter) -> list[dict[str, Any]]:
    query = matching(wanted)
    start = deep.start_of(wanted, lambda first: query.where(UsageRow.created_at >= first).count())
    if start is None:
        return []
    if start.before:
        query = query.where(UsageRow.created_at < start.before)
    return shown_rows(query.limit(wanted.limit).offset(start.offset))


def matching(wanted: UsageFilter) -> Any:
    """The query for the ids of all rows that a filter means, newest first; its page and limit are not applied yet.

    For the ids alone, as an index holds all that is asked for then: what does not match, and what stands before a deep
    page, is passed over there. Asked for whole rows, a database reads each of them to see that it does not match.
    """
    query = UsageRow.select(UsageRow.id)
    for name in (*UsageFilter.EXACT, "fallback", "min_duration_ms", "any_of"):
        condition = wanted.meets(name, UsageRow)
        if condition is not None:
            query = query.where(condition)
    if wanted.since is not None:
        query = query.where(UsageRow.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(UsageRow.created_at <= wanted.until)
    return query.order_by(*NEWEST_FIRST)


def shown_rows(ids: Any) -> list[dict[str, Any]]:
    """The rows of a query for ids, newest first, as JSON knows them."""
    rows = UsageRow.select(*SHOWN).where(UsageRow.id.in_(ids)).order_by(*NEWEST_FIRST)
    return [shown_row(values) for values in rows.tuples()]


def _get(request_id: str) -> dict[str, Any] | None:
    if "\0" in request_id:  # Postgres would refuse the question
        return None
    found = UsageRow.select(*SHOWN, UsageRow.details).where(UsageRow.request_id == request_id).tuples().first()
    return None if found is None else {**shown_row(found[:-1]), "details": orjson.loads(found[-1])}


def shown_row(values: Any) -> dict[str, Any]:
    """The values of `SHOWN`, in its order, as JSON knows them."""
    row = dict(zip(SHOWN_NAMES, values, strict=True))
    if row["estimated_cost_usd"] is not None:
        row["estimated_cost_usd"] = float(row["estimated_cost_usd"])
    return row


def _fitted(record: Record) -> dict[str, Any]:
    """The record's values, each in its column's type.

    Raises:
        ValueError: one cannot be, or one that must be there is missing.
    """
    row = {}
    for name, fit in COLUMNS.items():
        try:
            row[name] = fit(record.get(name))
        except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
            raise ValueError(f"{name}: {error}") from None
    for name, most in (("request_id", INDEXED_CHARS_MAX), ("route", None), ("status", None)):
        if not row[name] or (most is not None and len(row[name]) > most):
            raise ValueError(f"{name} is missing" if not row[name] else f"{name} is too long")
    return row


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = str(value).replace("\0", "")
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _indexed_text(value: object) -> str | None:
    text = _text(value)
    return text[:INDEXED_CHARS_MAX] if text is not None else None


def _whole_number(bits: int) -> Callable[[Any], int | None]:
    def fit(value: Any) -> int | None:
        if value is None:
            return None
        number = int(value)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f"{number} is out of range")
        return number

    return fit


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None


def _usd(value: Any) -> Decimal | None:
    if value is None:
        return None
    try:
        amount = round(Decimal(str(value)), 9)
    except InvalidOperation:
        raise ValueError(f"{str(value)[:40]!r} is no amount") from None
    if not amount.is_finite() or abs(amount) >= USD_MAX:
        raise ValueError(f"{amount} is out of range")
    return amount


def _moment(value: Any) -> str:
    return utc_text(datetime.fromisoformat(str(value)))


def _details(value: Any) -> str:
    return _text(orjson.dumps(value or {}).decode()) or "{}"


def _fit_of(name: str) -> Callable[[Any], Any]:
    special = {"created_at": _moment, "details": _details, "attempts": lambda value: _whole_number(32)(value or 0)}
    if name in special:
        return special[name]
    if name in INDEXED:
        return _indexed_text
    kinds: dict[type, Callable[[Any], Any]] = {
        BigIntegerField: _whole_number(64),
        IntegerField: _whole_number(32),
        DoubleField: _number,
        BooleanField: bool,
        DecimalField: _usd,
    }
    return kinds.get(type(UsageRow._meta.fields[name]), _text)


NEWEST_FIRST = (UsageRow.created_at.desc(), UsageRow.id.desc())
SHOWN = tuple(field for field in UsageRow._meta.sorted_fields if field.name != "details")
SHOWN_NAMES: Final = tuple(field.name for field in SHOWN)
"""The contract's columns, in its order: what a row shows."""

COLUMNS: Final = {name: _fit_of(name) for name in UsageRow._meta.sorted_field_names if name != "id"}
"""What makes a value fit, for each column that is stored."""
