"""What operators change while Hermes runs: API keys, pins, budgets, ends of sessions. Read as one picture,
changed one thing at a time.

Every change leaves an audit row in its own transaction. Secrets are nowhere: of a key there is only its digest, and not
even that is in an audit row or in a list.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import orjson

from hermes.directory import EACH, ApiKey, Budget, BudgetScope, Directory, NewKey, Period
from hermes.errors import InvalidRequest, NotFound
from hermes.storage import audit
from hermes.storage.audit import time_text
from hermes.storage.db import Database
from hermes.storage.models.operators import ApiKeyRow, BudgetRow, ConfigRow, EndedSessionRow
from hermes.types import RateLimits

Result = TypeVar("Result")

ID_BYTES = 6
SESSION_CHARS: Final = 8
"""How much of a session's name audit rows have."""

ENDS_KEPT_S: Final = 7 * 86400.0
"""Longer by far than a session may last, as that is counted by a clock that can be put forward or back."""


class DirectoryRepository:
    """`hermes_api_keys`, `hermes_config`, `ai_usage_budgets`, `ended_sessions` and `audit_log`.

    Every method may raise `DatabaseUnavailable`: the database does not work. The methods that change something take
    the actor, which is who does it, as audit rows have it.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    # -- the picture --------------------------------------------------------------------------------------

    def version(self) -> int:
        """The number of the last change; another one means that the picture is another."""
        return self._database.read(audit.last_number)

    def load(self) -> Directory:
        """Everything that is in force."""
        return self._database.read(_load)

    def audit(self, limit: int) -> list[dict[str, Any]]:
        """The last changes, newest first: id, at, actor, action, target, before, after."""
        return self._database.report(audit.newest, limit)

    def note(
        self, actor: str, action: str, target: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Puts on record what was done elsewhere; see `audit.note`."""
        self._change(audit.note, actor, action, target, before, after)

    # -- keys ---------------------------------------------------------------------------------------------

    def create_key(self, new: NewKey, digest: str, prefix: str, actor: str) -> dict[str, Any]:
        """Stores a key.

        Args:
            digest: the key's, in hex.
            prefix: its beginning, for people to recognise it.

        Returns:
            Its line as `list_keys` has it.
        """
        values = {
            "id": f"k_{secrets.token_hex(ID_BYTES)}",
            "name": new.name,
            "digest": digest,
            "prefix": prefix,
            "scopes": _json(sorted(new.scopes)),
            "roles": None if new.roles is None else _json(sorted(new.roles)),
            "limits": None if new.limits is None else _json(_limits_of(new.limits)),
            "created_by": actor,
            "expires_at": None if new.expires_at is None else time_text(new.expires_at),
        }
        return self._change(_create_key, actor, values)

    def revoke_key(self, key_id: str, actor: str) -> dict[str, Any]:
        """Revokes a key for ever; one that is revoked already stays as it is.

        Returns:
            Its line as `list_keys` has it.

        Raises:
            NotFound: there is no such key.
        """
        return self._change(_revoke_key, actor, key_id)

    def list_keys(self) -> list[dict[str, Any]]:
        """Every key that there ever was, newest first, as JSON knows it; never the key or its digest."""
        return self._database.report(_list_keys)

    def touch_keys(self, last_used: Mapping[str, float]) -> None:
        """Notes when keys were used last, in seconds since 1970, by their ids; an older time changes nothing."""
        if last_used:
            self._database.write(_touch_keys, {key_id: time_text(at) for key_id, at in last_used.items()})

    # -- pins ---------------------------------------------------------------------------------------------

    def get_pins(self) -> list[dict[str, Any]]:
        """Every pin, by key: key, value, updated_at, updated_by."""
        return self._database.read(_get_pins)

    def get_pin(self, key: str) -> dict[str, Any] | None:
        """One pin, or None where it is not set."""
        return next((pin for pin in self.get_pins() if pin["key"] == key), None)

    def set_pin(self, key: str, value: str, actor: str, reason: str = "") -> dict[str, Any]:
        """Sets a pin, whatever it was before; the pin as it is now. Key, value and reason must have been checked.

        Args:
            reason: is kept in the audit row.
        """
        return self._change(_set_pin, actor, key, value, reason)

    def delete_pin(self, key: str, actor: str) -> None:
        """Takes a pin away.

        Raises:
            NotFound: it is not set.
        """
        self._change(_delete_pin, actor, key)

    # -- budgets ------------------------------------------------------------------------------------------

    def list_budgets(self) -> tuple[Budget, ...]:
        """Every budget, in the order in which they were made."""
        return self._database.read(_list_budgets)

    def put_budget(self, budget: Budget, actor: str) -> None:
        """Sets the budget of a scope, id and period, whatever it was before.

        Raises:
            InvalidRequest: it is a key's, and there is no such key.
        """
        self._change(_put_budget, actor, budget)

    def delete_budget(self, scope: BudgetScope, scope_id: str, period: Period, actor: str) -> None:
        """Takes a budget away.

        Raises:
            NotFound: there is none.
        """
        self._change(_delete_budget, actor, scope, scope_id, period)

    # -- sessions of the dashboard ------------------------------------------------------------------------

    def end_session(self, name: str, actor: str) -> None:
        """Keeps that a session was signed out of; once more changes nothing."""
        self._change(_end_session, actor, name, time_text(self._clock() - ENDS_KEPT_S))

    def _change(self, change: Callable[..., Result], actor: str, *args: Any) -> Result:
        result: Result = self._database.write(audit.one_at_a_time, change, time_text(self._clock()), actor, *args)
        return result


# -- what runs inside `Database.read` and `Database.write` ------------------------------------------------


def _load() -> Directory:
    # The version first: a change that comes in between is then read again, and never missed.
    version = audit.last_number()
    keys = {row.digest: _api_key(row) for row in ApiKeyRow.select().where(ApiKeyRow.revoked_at.is_null())}
    pins = {row.key: row.value for row in ConfigRow.select()}
    ended = frozenset(row.name for row in EndedSessionRow.select())
    return Directory(version, keys, pins, _list_budgets(), ended)


def _create_key(at: str, actor: str, values: dict[str, Any]) -> dict[str, Any]:
    ApiKeyRow.insert(**values, created_at=at).execute()
    line = _line(ApiKeyRow.get_by_id(values["id"]))
    after = {name: line[name] for name in ("name", "scopes", "roles", "limits", "expires_at")}
    audit.note(at, actor, "key.create", line["id"], None, after)
    return line


def _revoke_key(at: str, actor: str, key_id: str) -> dict[str, Any]:
    row = None if not key_id.isprintable() else ApiKeyRow.get_or_none(ApiKeyRow.id == key_id)
    if row is None:
        raise NotFound(f"There is no API key {key_id[:100]!r}.")
    if row.revoked_at is None:
        row.revoked_at = at
        row.save(only=[ApiKeyRow.revoked_at])
        audit.note(at, actor, "key.revoke", row.id, {"name": row.name}, None)
    return _line(row)


def _list_keys() -> list[dict[str, Any]]:
    return [_line(row) for row in ApiKeyRow.select().order_by(ApiKeyRow.created_at.desc(), ApiKeyRow.id)]


def _touch_keys(last_used: Mapping[str, str]) -> None:
    for key_id, at in sorted(last_used.items()):  # in one order: two workers must not wait for each other's rows
        older = ApiKeyRow.last_used_at.is_null() | (ApiKeyRow.last_used_at < at)
        ApiKeyRow.update(last_used_at=at).where((ApiKeyRow.id == key_id) & older).execute()


def _get_pins() -> list[dict[str, Any]]:
    names = ("key", "value", "updated_at", "updated_by")
    return [{name: getattr(row, name) for name in names} for row in ConfigRow.select().order_by(ConfigRow.key)]


def _set_pin(at: str, actor: str, key: str, value: str, reason: str) -> dict[str, Any]:
    before = _pin_value(key)
    values = {"value": value, "updated_at": at, "updated_by": actor}
    if before is None:
        ConfigRow.insert(key=key, **values).execute()
    else:
        ConfigRow.update(**values).where(ConfigRow.key == key).execute()
    audit.note(at, actor, "pin.set", key, before, {"value": value, **({"reason": reason} if reason else {})})
    return {"key": key, **values}


def _delete_pin(at: str, actor: str, key: str) -> None:
    before = _pin_value(key)
    if before is None:
        raise NotFound(f"The pin {key} is not set.")
    ConfigRow.delete().where(ConfigRow.key == key).execute()
    audit.note(at, actor, "pin.delete", key, before, None)


def _pin_value(key: str) -> dict[str, str] | None:
    row = ConfigRow.get_or_none(ConfigRow.key == key)
    return None if row is None else {"value": row.value}


def _list_budgets() -> tuple[Budget, ...]:
    return tuple(_budget(row) for row in BudgetRow.select().order_by(BudgetRow.id))


def _put_budget(at: str, actor: str, budget: Budget) -> None:
    if budget.scope == "key" and budget.id != EACH and not ApiKeyRow.select().where(ApiKeyRow.id == budget.id).exists():
        raise InvalidRequest("id must be the id of an API key, or * for each key by itself.", param="id")
    row = _budget_row(budget.scope, budget.id, budget.period)
    values = {
        "unit": budget.unit,
        "limit_value": budget.limit,
        "warn_share": budget.warn_share,
        "action": budget.action,
        "updated_at": at,
    }
    if row is None:
        naming = {"scope": budget.scope, "scope_id": budget.id, "period": budget.period}
        BudgetRow.insert(**naming, **values, created_at=at).execute()
    else:
        BudgetRow.update(**values).where(BudgetRow.id == row.id).execute()
    before = None if row is None else _told(_budget(row))
    audit.note(at, actor, "budget.set", _budget_name(budget.scope, budget.id, budget.period), before, _told(budget))


def _delete_budget(at: str, actor: str, scope: str, scope_id: str, period: str) -> None:
    row = _budget_row(scope, scope_id, period)
    if row is None:
        raise NotFound("There is no such budget.")
    row.delete_instance()
    audit.note(at, actor, "budget.delete", _budget_name(scope, scope_id, period), _told(_budget(row)), None)


def _end_session(at: str, actor: str, name: str, forget_before: str) -> None:
    if EndedSessionRow.get_or_none(EndedSessionRow.name == name) is not None:
        return
    EndedSessionRow.delete().where(EndedSessionRow.ended_at < forget_before).execute()
    EndedSessionRow.insert(name=name, ended_at=at).execute()
    audit.note(at, actor, "dashboard.sign_out", name[:SESSION_CHARS], None, None)


def _budget_row(scope: str, scope_id: str, period: str) -> Any:
    return BudgetRow.get_or_none(
        (BudgetRow.scope == scope) & (BudgetRow.scope_id == scope_id) & (BudgetRow.period == period)
    )


# -- rows and values --------------------------------------------------------------------------------------


def _api_key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        scopes=frozenset(orjson.loads(row.scopes)),
        roles=None if row.roles is None else frozenset(orjson.loads(row.roles)),
        expires_at=None if row.expires_at is None else datetime.fromisoformat(row.expires_at).timestamp(),
        limits=None if row.limits is None else RateLimits(**orjson.loads(row.limits)),
    )


def _line(row: Any) -> dict[str, Any]:
    """A key as lists show it."""
    return {
        "id": row.id,
        "name": row.name,
        "prefix": row.prefix,
        "scopes": orjson.loads(row.scopes),
        "roles": None if row.roles is None else orjson.loads(row.roles),
        "limits": None if row.limits is None else orjson.loads(row.limits),
        "created_at": row.created_at,
        "created_by": row.created_by,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
        "last_used_at": row.last_used_at,
    }


def _budget(row: Any) -> Budget:
    return Budget(row.scope, row.scope_id, row.period, row.unit, row.limit_value, row.action, row.warn_share)


def _told(budget: Budget) -> dict[str, Any]:
    """A budget as audit rows have it."""
    return {"unit": budget.unit, "limit": budget.limit, "action": budget.action, "warn_share": budget.warn_share}


def _budget_name(scope: str, scope_id: str, period: str) -> str:
    """A budget as audit rows call it.

    >>> _budget_name("user", "alice", "month"), _budget_name("global", "", "day")
    ('user:alice:month', 'global::day')
    """
    return f"{scope}:{scope_id}:{period}"


def _limits_of(limits: RateLimits) -> dict[str, int]:
    return {name: getattr(limits, name) for name in RateLimits.__dataclass_fields__}


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
