"""What was spent in a period: for budgets whose counters are missing, and for operators.

Periods begin and end with an hour almost everywhere, so the sums of `rollups.py` tell it, however many rows there are.
Where a timezone is off by half an hour, and while rows from before an upgrade are not in the sums yet, the rows
themselves are added up.

A row counts when tokens were counted for it, so refusals and failures that have cost nothing do not; one whose price is
unknown counts nothing but its tokens. Both ways add up in the same manner, that of `rollups.SUMS`.

Rows that are still in the spool are moved to the database before it is asked. Whoever asks waits for two seconds at
most, whatever the database does, and not at all while it is known to be away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

import gevent
from peewee import SQL, fn

from hermes.directory import BudgetScope, Spent, Unit
from hermes.errors import BooksUnreadable, DatabaseUnavailable
from hermes.storage import rollups
from hermes.storage.db import Database
from hermes.storage.models.sums import NameRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.repositories import COLUMNS
from hermes.storage.spans import is_on_the_hour, name_within, names_within
from hermes.storage.usage_filter import utc_text

Result = TypeVar("Result")

WAIT_S: Final = 2.0
RETRY_AFTER_S: Final = 5.0

NAMES: Final[dict[BudgetScope, Any]] = {
    "key": UsageRow.key_id,
    "user": UsageRow.user_id,
    "function": UsageRow.function_name,
}
"""The column that says whose use a row is; a global budget needs none."""

NANOUSD: Final = fn.COALESCE(SQL(rollups.SUMS["nanousd"]), 0)
TOKENS: Final = fn.COALESCE(SQL(rollups.SUMS["total_tokens"]), 0)
REQUESTS: Final = SQL(rollups.SUMS["counted"])
"""Of the rows what the sums would add of them: no more than is plausible."""

SPENT: Final[dict[Unit, Any]] = {"usd": NANOUSD, "tokens": TOKENS, "requests": REQUESTS}

SUMMED: Final[dict[Unit, Any]] = {
    "usd": fn.COALESCE(fn.SUM(NameRow.nanousd), 0),
    "tokens": fn.COALESCE(fn.SUM(NameRow.total_tokens), 0),
    "requests": fn.COALESCE(fn.SUM(NameRow.counted), 0),
}
"""The same of the sums."""


class Spending:
    """What `ai_usage_logs` comes to."""

    def __init__(
        self,
        database: Database,
        flush: Callable[[], bool],
        wait_s: float = WAIT_S,
        is_summed: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            flush: moves the spool to the database and says whether it is there.
            is_summed: whether every row is in the sums.
        """
        self._database = database
        self._flush = flush
        self._wait_s = wait_s
        self._is_summed = is_summed

    def spent(self, scope: BudgetScope, name: str, start: datetime, end: datetime) -> Spent:
        """What one of a scope has used from a moment until another; for the global scope, all together.

        A few ms; where rows must be added up, with 240,000 in the period 100 ms for all, 20 ms for one of twenty.

        Raises:
            BooksUnreadable: the database does not answer, or does not take the rows of the spool.
        """
        return self._ask(_summed_of, _spent, scope, name, start, end)

    def most(self, scope: BudgetScope, unit: Unit, start: datetime, end: datetime) -> tuple[str, Spent] | None:
        """Who of a scope has used most, by the unit, and what; None where nobody has used anything. Raises alike."""
        return self._ask(_summed_most, _most, scope, unit, start, end)

    def _ask(self, of_sums: Callable[..., Result], of_rows: Callable[..., Result], *args: Any) -> Result:
        """The answer of the one or the other; the last two arguments are the period's begin and end."""
        try:
            self._database.check()
        except DatabaseUnavailable as away:
            raise BooksUnreadable("The usage log cannot be read at the moment.", retry_after_s=RETRY_AFTER_S) from away
        if not self._flush():
            raise BooksUnreadable("The usage log does not take rows at the moment.", retry_after_s=RETRY_AFTER_S)
        # The reading is not interrupted when its time is over: a connection in the midst of an answer is of no use.
        reading = gevent.spawn(self._outcome, of_sums, of_rows, args)
        reading.join(self._wait_s)
        if not reading.ready():
            raise BooksUnreadable("The usage log does not answer in time.", retry_after_s=RETRY_AFTER_S)
        result, error = reading.value
        if error is not None:
            raise BooksUnreadable("The usage log cannot be read at the moment.", retry_after_s=RETRY_AFTER_S) from error
        found: Result = result
        return found

    def _outcome(
        self, of_sums: Callable[..., Result], of_rows: Callable[..., Result], args: tuple[Any, ...]
    ) -> tuple[Result | None, Exception | None]:
        try:
            read = of_sums if all(map(is_on_the_hour, args[-2:])) and self._is_summed() else of_rows
            return self._database.read(read, *args), None
        except Exception as error:  # noqa: BLE001  (an edge: whatever the database does; raised again by who asked)
            return None, error


def _summed_of(scope: BudgetScope, name: str, start: datetime, end: datetime) -> Spent:
    if scope == "global":
        wanted = names_within("function", start, end)  # any dimension comes to all rows; of functions there are few
    else:
        wanted = name_within(scope, COLUMNS[NAMES[scope].name](name), start, end)
    query: Any = NameRow.select(*SUMMED.values()).where(wanted)
    return _as_of_now(query)


def _summed_most(scope: BudgetScope, unit: Unit, start: datetime, end: datetime) -> tuple[str, Spent] | None:
    query = NameRow.select(NameRow.name, *SUMMED.values()).where(names_within(scope, start, end), NameRow.name != "")
    query = query.group_by(NameRow.name).having(SUMMED["requests"] > 0)
    found = query.order_by(SUMMED[unit].desc(), NameRow.name).limit(1).tuples().first()
    return None if found is None else (found[0], Spent(*map(int, found[1:])))


def _spent(scope: BudgetScope, name: str, start: datetime, end: datetime) -> Spent:
    query = _within(UsageRow.select(NANOUSD, TOKENS, REQUESTS), start, end)
    if scope != "global":
        column = NAMES[scope]
        query = query.where(column == COLUMNS[column.name](name))
    return _as_of_now(query)


def _as_of_now(query: Any) -> Spent:
    asked_s = time.time()
    return replace(Spent(*map(int, query.tuples().get())), asked_s=asked_s)


def _most(scope: BudgetScope, unit: Unit, start: datetime, end: datetime) -> tuple[str, Spent] | None:
    column = NAMES[scope]
    query = _within(UsageRow.select(column, NANOUSD, TOKENS, REQUESTS), start, end)
    query = query.where(column.is_null(False), column != "", UsageRow.total_tokens.is_null(False))
    found = query.group_by(column).order_by(SPENT[unit].desc(), column).limit(1).tuples().first()
    return None if found is None else (found[0], Spent(*map(int, found[1:])))


def _within(query: Any, start: datetime, end: datetime) -> Any:
    return query.where(UsageRow.created_at >= utc_text(start), UsageRow.created_at < utc_text(end))
