"""A budget's definition as operators write and read it: `{scope, id, period, limit_usd, action}`.

Money is a decimal there and whole nano-USD within, so it is read from its digits and never from a binary fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast, get_args

from hermes.admission.fields import Fields
from hermes.directory import EACH, Action, Budget, BudgetScope, Period, Unit
from hermes.errors import InvalidRequest

NANOUSD_PER_USD: Final = 10**9
USD_MAX: Final = 9_000_000
"""In nano-USD still exact in stores that count in floating point."""

COUNT_MAX: Final = 10**15
ID_CHARS: Final = 256
WARN_SHARE: Final = 0.8
LIMIT_FIELDS: Final[Mapping[str, Unit]] = {"limit_usd": "usd", "limit_tokens": "tokens", "limit_requests": "requests"}
NAMING: Final = ("scope", "id", "period")
FIELDS: Final = (*NAMING, *LIMIT_FIELDS, "action", "warn_share")


def parse_budget(body: object) -> Budget:
    """Reads a definition. The action is `block` where none is given.

    Raises:
        InvalidRequest: naming the field.
    """
    fields = Fields(body, FIELDS)
    scope, scope_id, period = _named(fields)
    unit, limit = _limit(fields)
    action = cast("Action", fields.choice("action", get_args(Action), "block"))
    return Budget(scope, scope_id, period, unit, limit, action, float(fields.number("warn_share", 1, WARN_SHARE)))


def parse_budget_name(args: object) -> tuple[BudgetScope, str, Period]:
    """Reads which budget is meant: scope, id, period.

    Raises:
        InvalidRequest: naming the field.
    """
    return _named(Fields(args, NAMING))


def shown_budget(budget: Budget) -> dict[str, Any]:
    """The definition in the form in which it is written."""
    name = next(name for name, unit in LIMIT_FIELDS.items() if unit == budget.unit)
    return {
        "scope": budget.scope,
        "id": budget.id,
        "period": budget.period,
        name: budget.limit / NANOUSD_PER_USD if budget.unit == "usd" else budget.limit,
        "action": budget.action,
        "warn_share": budget.warn_share,
    }


def _named(fields: Fields) -> tuple[BudgetScope, str, Period]:
    scope = cast("BudgetScope", fields.choice("scope", get_args(BudgetScope)))
    period = cast("Period", fields.choice("period", get_args(Period)))
    if scope != "global":
        return scope, fields.text("id", ID_CHARS), period
    if fields.get("id") not in (None, "", EACH):
        raise fields.wrong("id", "must be left out: the global budget is one for all")
    return scope, "", period


def _limit(fields: Fields) -> tuple[Unit, int]:
    given = [name for name in LIMIT_FIELDS if fields.has(name)]
    if len(given) != 1:
        names = ", ".join(LIMIT_FIELDS)
        raise InvalidRequest(f"Exactly one of {names} must be given.", param=given[1] if given else "limit_usd")
    (name,) = given
    if name != "limit_usd":
        return LIMIT_FIELDS[name], fields.whole_number(name, COUNT_MAX)
    return "usd", round(Decimal(str(fields.number(name, USD_MAX))) * NANOUSD_PER_USD)
