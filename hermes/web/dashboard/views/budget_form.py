"""The form of a budget as a browser sends it, turned into what the editor takes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from hermes.directory import EACH, Budget, Unit
from hermes.errors import InvalidRequest
from hermes.web.dashboard.views.limits import amount_text, name_of

NAMES: Final = ("scope", "id", "period", "unit", "limit", "action", "warn")
FIELD_OF: Final = {
    "limit_usd": "limit",
    "limit_tokens": "limit",
    "limit_requests": "limit",
    "warn_share": "warn",
}
"""The form's field, where the editor calls it otherwise."""

WORDS: Final = {
    "limit_usd": "The limit",
    "limit_tokens": "The limit",
    "limit_requests": "The limit",
    "id": "The name",
    "warn_share": "The warning",
}
MOST_CHARS: Final = 300
UNITS: Final[Mapping[str, Unit]] = {"usd": "usd", "tokens": "tokens", "requests": "requests"}


@dataclass(frozen=True, slots=True)
class Form:
    """What stands in the form's fields, as text; and what is wrong with it."""

    was: str = ""
    """The name of the budget that it changes; empty: a new one."""

    scope: str = "user"
    id: str = ""
    period: str = "day"
    unit: str = "usd"
    limit: str = ""
    action: str = "block"
    warn: str = "80"
    message: str = ""
    wrong: str = ""
    """The field that the message is about."""

    @classmethod
    def of(cls, budget: Budget) -> Form:
        """The form that changes a budget."""
        limit = Decimal(budget.limit).scaleb(-9).normalize() if budget.unit == "usd" else Decimal(budget.limit)
        warn = f"{budget.warn_share * 100:g}"
        return cls(
            name_of(budget), budget.scope, budget.id, budget.period, budget.unit, f"{limit:f}", budget.action, warn
        )

    @classmethod
    def parse(cls, sent: Mapping[str, str]) -> Form:
        """What a browser has sent."""
        return cls(sent.get("was", "")[:MOST_CHARS], **{name: sent.get(name, "")[:MOST_CHARS] for name in NAMES})

    def refused(self, error: InvalidRequest) -> Form:
        """The same with what is wrong."""
        message, param = error.message, error.param or ""
        if param in WORDS and message.startswith(param):
            message = WORDS[param] + message[len(param) :]
        values = {name: getattr(self, name) for name in ("was", *NAMES)}
        return Form(**values, message=message, wrong=FIELD_OF.get(param, param))

    def body(self) -> dict[str, Any]:
        """What the editor takes.

        Raises:
            InvalidRequest: a number is none.
        """
        limit = number_of(self.limit, f"limit_{self.unit}")
        if self.unit != "usd" and limit == int(limit):
            limit = int(limit)
        named = {} if self.scope == "global" else {"id": self.id}
        warn = number_of(self.warn, "warn_share") / 100
        more = {f"limit_{self.unit}": limit, "action": self.action, "warn_share": warn}
        return {"scope": self.scope, "period": self.period, **named, **more}

    @property
    def name(self) -> str:
        """Of the budget that it makes."""
        return f"{self.scope}:{'' if self.scope == 'global' else self.id.strip()}:{self.period}"

    @property
    def label(self) -> str:
        """Whose budget it is."""
        return "All traffic" if self.scope == "global" else f"Each {self.scope}" if self.id == EACH else self.id


def number_of(text: str, param: str) -> float:
    """A number as people write one: with a sign of money, commas between thousands, percent.

    >>> number_of(" $1,200.50 ", "limit_usd")
    1200.5
    """
    plain = text.strip().strip("$%").replace(",", "").strip()
    try:
        number = Decimal(plain)
    except InvalidOperation:
        number = Decimal("NaN")
    if not plain.isascii() or not number.is_finite():
        raise InvalidRequest(f"{param} must be a number.", param=param)
    return float(number)


def fits_text(form: Form, ahead: float | None) -> str:
    """What the limit in the form means for the period that runs; empty where nothing can be said."""
    if ahead is None or form.unit not in UNITS:
        return ""
    try:
        limit = number_of(form.limit, "limit")
    except InvalidRequest:
        return ""
    fits = "fits" if ahead < limit else "does not fit"
    return f"The forecast of {amount_text(ahead, UNITS[form.unit])} {fits}."
