"""Sums of the usage log by hour, day and minute, added up in the very transaction that stores the rows.

A transaction that is rolled back takes its sums with it, and a row that is stored already is passed over and not
counted again: so the sums are those of the rows, whatever was retried or killed. The database does the adding: one
statement a table reads the new rows and adds them to what is there. Statements go through the tables in the same order,
and through each table in the order of its key, so that transactions that add to the same hours wait for each other and
never in a circle.

Tables stand beside each other instead of one cube of everything: `usage_hours` by what the server itself has named
(tier, decision, model, endpoint, status, stream), `usage_names` by user, function or key, `usage_latency` with how many
requests took how long, `usage_minutes` for the last days. Unknown is an empty text.

Money is summed as whole nano-USD, row by row: SQLite would add up binary fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from hermes.storage.models.binding import is_on_postgres, proxy
from hermes.storage.models.sums import LATENCY_BUCKETS, HourRow, LatencyRow, MinuteRow, NameRow

FIRST_BOUND: Final = 5.0
BOUND_FACTOR: Final = 1.45
BOUNDS: Final = tuple(FIRST_BOUND * BOUND_FACTOR**number for number in range(LATENCY_BUCKETS - 1))
"""Upper ends of all buckets but the last: from 5 ms to 8 minutes. A percentile read from them is right to a few
percent, and to 20 % at worst."""

SCALES: Final = {"duration": 1.0, "ttft": 1.0, "overhead": 100.0}
"""What a column's milliseconds are multiplied by before they meet the bounds: Hermes's own share is small."""

HOUR_CHARS, DAY_CHARS, MINUTE_CHARS = 13, 10, 16
TEXT_CHARS: Final = {"tier": 40, "decision": 40, "model": 150, "endpoint": 150, "status": 40}
"""How much of a text of the server's is a part of a key: an index takes 2.7 kB at most."""

NAME_COLUMNS: Final = {"user": "user_id", "function": "function_name", "key": "key_id"}

PLAUSIBLE_TOKENS: Final = 10**12
PLAUSIBLE_USD: Final = 10**7
"""What one row may add: a file may hold anything, and a sum that overflows would stop all that comes after it. Beyond,
it adds nothing."""


def _tokens(column: str) -> str:
    return f"SUM(CASE WHEN {column} BETWEEN 0 AND {PLAUSIBLE_TOKENS} THEN {column} ELSE 0 END)"


def _count(condition: str) -> str:
    return f"COUNT(CASE WHEN {condition} THEN 1 END)"


SUMS: Final = {
    "requests": "COUNT(*)",
    "failed": _count("status IN ('error', 'interrupted')"),
    "refused": _count("status = 'refused'"),
    "counted": "COUNT(total_tokens)",
    "unpriced": _count("total_tokens IS NOT NULL AND estimated_cost_usd IS NULL"),
    "total_tokens": _tokens("total_tokens"),
    "nanousd": f"SUM(CASE WHEN estimated_cost_usd BETWEEN 0 AND {PLAUSIBLE_USD} "
    "THEN CAST(ROUND(estimated_cost_usd * 1000000000) AS BIGINT) ELSE 0 END)",
    "fallbacks": _count("fallback_level > 0"),
    "attempts": "SUM(attempts)",
    **{name: _tokens(name) for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")},
}
"""What is summed, by its column."""

READ: Final = (
    "created_at, user_id, function_name, key_id, tier, decision, model, endpoint, status, stream, duration_ms, "
    "ttft_ms, overhead_ms, fallback_level, attempts, prompt_tokens, completion_tokens, total_tokens, cached_tokens, "
    "reasoning_tokens, estimated_cost_usd"
)


def add_new(request_ids: Sequence[str]) -> None:
    """Counts rows that this transaction has stored. Inside `Database.write`."""
    if not request_ids:
        return
    if is_on_postgres():
        _add("request_id = ANY(%s)", [list(request_ids)])
    else:
        _add("request_id IN (SELECT value FROM json_each(?))", [orjson.dumps(request_ids).decode()])


def add_between(behind_id: int, until_id: int) -> None:
    """Counts the rows whose numbers are greater than the first, up to the second. Inside `Database.write`."""
    _add(f"id > {proxy.param} AND id <= {proxy.param}", [behind_id, until_id])


def _add(condition: str, values: list[Any]) -> None:
    fresh = f"WITH fresh AS (SELECT {READ} FROM ai_usage_logs WHERE {condition})"  # noqa: S608  (no text of anybody else)
    for addition in ADDITIONS:
        proxy.execute_sql(f"{fresh}{addition}", values)


def _addition(model: Any, columns: dict[str, str], source: str, sums: dict[str, str], *, more: str = "") -> str:
    """What comes behind `WITH fresh AS (…)`: adds the source's rows to a table.

    Args:
        columns: what stands in each column of the table's key.
        sums: what is added to each of the others.
        more: further named queries.
    """
    table = model._meta.table_name
    names = ", ".join([*columns, *sums])
    selected = ", ".join([*columns.values(), *sums.values()])
    places = ", ".join(str(number) for number in range(1, len(columns) + 1))
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in sums)
    parts = (  # names of the models', nobody else's
        more,
        f"INSERT INTO {table} ({names})",
        f"SELECT {selected}",
        f"FROM {source} GROUP BY {places} ORDER BY {places}",
        f"ON CONFLICT ({', '.join(columns)}) DO UPDATE SET {added}",
    )
    return " ".join(parts)


def _named(column: str, chars: int) -> str:
    """A text of the server's as a part of a key: an index takes 2.7 kB at most."""
    return f"SUBSTR(COALESCE({column}, ''), 1, {chars})"


def _hours() -> str:
    columns = {"hour": f"SUBSTR(created_at, 1, {HOUR_CHARS})"}
    columns |= {name: _named(name, chars) for name, chars in TEXT_CHARS.items()}
    return _addition(HourRow, {**columns, "stream": "stream"}, "fresh", SUMS)


def _names() -> str:
    summed = ("requests", "failed", "refused", "counted", "unpriced", "total_tokens", "nanousd")
    parts = " UNION ALL ".join(
        f"SELECT '{dimension}' AS dimension, '{grain}' AS grain, SUBSTR(created_at, 1, {chars}) AS at,"  # noqa: S608
        f" COALESCE({column}, '') AS name, status, total_tokens, estimated_cost_usd FROM fresh"
        for dimension, column in NAME_COLUMNS.items()
        for grain, chars in (("hour", HOUR_CHARS), ("day", DAY_CHARS))
    )
    columns = {name: name for name in ("dimension", "grain", "at", "name")}
    sums = {name: SUMS[name] for name in summed}
    return _addition(NameRow, columns, "named", sums, more=f", named AS ({parts})")


def _latency() -> str:
    parts = " UNION ALL ".join(
        f"SELECT SUBSTR(created_at, 1, {HOUR_CHARS}) AS hour, {_named('tier', 40)} AS tier,"  # noqa: S608
        f" {_named('model', 150)} AS model, '{metric}' AS metric, {metric}_ms * {scale} AS ms FROM fresh"
        f" WHERE {metric}_ms IS NOT NULL"
        for metric, scale in SCALES.items()
    )
    ends = (None, *BOUNDS, None)
    buckets = {}
    for number in range(LATENCY_BUCKETS):
        low, high = ends[number], ends[number + 1]
        conditions = [f"ms > {low!r}"] if low is not None else []
        conditions += [f"ms <= {high!r}"] if high is not None else []
        buckets[f"b{number}"] = _count(" AND ".join(conditions))
    columns = {name: name for name in ("hour", "tier", "model", "metric")}
    return _addition(LatencyRow, columns, "taken", buckets, more=f", taken AS ({parts})")


def _minutes() -> str:
    columns = {"minute": f"SUBSTR(created_at, 1, {MINUTE_CHARS})", "tier": _named("tier", 40)}
    return _addition(MinuteRow, {**columns, "status": _named("status", 40)}, "fresh", {"requests": "COUNT(*)"})


ADDITIONS: Final = (_hours(), _names(), _latency(), _minutes())
