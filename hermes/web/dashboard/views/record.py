"""The record of changes in people's words: who did what, and from what to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

ADMIN: Final = "admin"
ADMIN_NAME: Final = "Admin key"
KEY_PREFIX: Final = "key:"
SHOWN_CHARS: Final = 160
SHOWN_CHANGES: Final = 3

WORDS: Final = {
    "key.create": "API key created",
    "key.revoke": "API key revoked",
    "pin.set": "Pin set",
    "pin.delete": "Pin removed",
    "budget.set": "Budget set",
    "budget.delete": "Budget removed",
    "config.reload": "Configuration loaded",
    "circuit.reset": "Circuit closed",
    "session.evict": "Session evicted",
    "session.restore": "Session brought back",
    "session.evict_all": "All sessions evicted",
    "dashboard.sign_in": "Signed in",
    "dashboard.sign_out": "Signed out",
}
"""What the actions of audit rows are called."""


@dataclass(frozen=True, slots=True)
class Done:
    """One change."""

    id: int
    at: float
    """Seconds since 1970."""

    who: str
    what: str
    target: str
    difference: str


def done(entries: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> tuple[Done, ...]:
    """Audit rows in words.

    Args:
        names: of API keys, by their ids.
    """
    return tuple(
        Done(
            entry["id"],
            seconds_of(entry["at"]),
            who(entry["actor"], names),
            WORDS.get(entry["action"], entry["action"]),
            names.get(entry["target"], entry["target"]),
            difference(entry["before"], entry["after"]),
        )
        for entry in entries
    )


def who(actor: str, names: Mapping[str, str]) -> str:
    """An actor's name.

    >>> who("admin", {}), who("key:k_1", {"k_1": "ops"}), who("cli:root", {})
    ('Admin key', 'ops', 'cli:root')
    """
    if actor == ADMIN:
        return ADMIN_NAME
    return names.get(actor.removeprefix(KEY_PREFIX), actor)


def difference(before: Any, after: Any) -> str:
    """What was changed, as far as it fits into a line.

    >>> difference({"value": "a"}, {"value": "b", "reason": "c"})
    'a → b, reason c'
    >>> difference({"x.y": 30, "z": 1}, {"x.y": 20, "z": 1})
    'x.y 30 → 20'
    """
    old, new = _mapping(before), _mapping(after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    told = ", ".join(_told(name, old, new) for name in names[:SHOWN_CHANGES])
    if len(names) > SHOWN_CHANGES:
        told += f", and {len(names) - SHOWN_CHANGES} more"
    return told if len(told) <= SHOWN_CHARS else f"{told[: SHOWN_CHARS - 1]}…"


def _told(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    label = "" if name == "value" else f"{name} "
    if name in old and name in new:
        return f"{label}{_text(old[name])} → {_text(new[name])}"
    return f"{label}{_text(new[name])}" if name in new else f"{label}{_text(old[name])} removed"


def _mapping(values: Any) -> Mapping[str, Any]:
    return values if isinstance(values, Mapping) else {}


def _text(value: Any) -> str:
    """A value as people write it; null is no word of theirs."""
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def seconds_of(text: str) -> float:
    """A time as the tables have it, in seconds since 1970.

    >>> seconds_of("2026-05-10T13:33:00.500Z")
    1778419980.5
    """
    return datetime.fromisoformat(text).timestamp()
