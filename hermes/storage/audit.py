"""The record of what people and scripts have changed: one row a change, in the change's own transaction.

The number of the last row is the directory's version, so rows must become visible in the order of their numbers. SQLite
has one writer at a time; in Postgres a change that began first could be committed last, and those who had read the
later number would miss it. Hence changes wait for each other there too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import orjson
from peewee import fn

from hermes.storage.models.binding import is_on_postgres, proxy
from hermes.storage.models.operators import AuditRow
from hermes.storage.usage_filter import utc_text

CHANGES_LOCK: Final = 0x41756469  # "Audi"; another number than the migrations'

Result = TypeVar("Result")
Values = Mapping[str, Any]


def one_at_a_time(change: Callable[..., Result], *args: Any) -> Result:
    """Runs a change of the directory while no other one runs. Inside `Database.write`."""
    if is_on_postgres():
        proxy.execute_sql("SELECT pg_advisory_xact_lock(%s)", (CHANGES_LOCK,))  # released with the transaction
    return change(*args)


def note(at: str, actor: str, action: str, target: str, before: Values | None, after: Values | None) -> None:
    """Adds a row. Inside `Database.write`, within `one_at_a_time`.

    Args:
        at: when, as `time_text` writes it.
        before: what held until now; None where there was nothing.
        after: what holds from now on; None where there is nothing any more. Never a key, nor its digest.
    """
    AuditRow.insert(
        at=at, actor=actor, action=action, target=target, before=_json(before), after=_json(after)
    ).execute()


def last_number() -> int:
    """The number of the last row; 0 without any."""
    return int(AuditRow.select(fn.MAX(AuditRow.id)).scalar() or 0)


def newest(limit: int, before: int | None = None, action: str | None = None) -> list[dict[str, Any]]:
    """The last changes, newest first, as JSON knows them.

    Args:
        before: only those with a smaller number.
        action: only those of this kind.
    """
    query = AuditRow.select().order_by(AuditRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(AuditRow.id < before)
    if action is not None:
        query = query.where(AuditRow.action == action)
    return [_line(row) for row in query]


def number_of(action: str) -> int:
    """How many changes of a kind there were."""
    return int(AuditRow.select().where(AuditRow.action == action).count())


def last_of_each(action: str) -> dict[str, str]:
    """When each actor did something of a kind last."""
    query: Any = AuditRow.select(AuditRow.actor, fn.MAX(AuditRow.at)).where(AuditRow.action == action)
    return dict(query.group_by(AuditRow.actor).tuples())


def time_text(seconds: float) -> str:
    """Seconds since 1970 as the tables have times."""
    return utc_text(datetime.fromtimestamp(seconds, UTC))


def _line(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": row.at,
        "actor": row.actor,
        "action": row.action,
        "target": row.target,
        "before": _read(row.before),
        "after": _read(row.after),
    }


def _json(values: Values | None) -> str | None:
    return None if values is None else orjson.dumps(values).decode()


def _read(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
