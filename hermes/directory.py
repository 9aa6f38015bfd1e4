"""What operators change while Hermes runs: API keys, pins, budgets, the kill switch; and who has signed out. One
immutable picture, swapped whole.

The configuration file makes a `Policy`, which only a reload changes; a `Directory` lives in the database, is changed by
the admin API, the command line and the dashboard, and reaches every worker within a second. Each change leaves an audit
row in the same transaction, and the number of the last audit row is the directory's version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hermes.types import RateLimits as RateLimits

Scope = Literal["router", "gateway", "admin"]
BudgetScope = Literal["global", "key", "user", "function"]
Period = Literal["day", "week", "month"]
Action = Literal["block", "downgrade", "warn"]
Unit = Literal["usd", "tokens", "requests"]

ENABLED_KEY = "ai.gateway.enabled"
EACH = "*"
"""A budget's id that means: each one of the scope by itself."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A caller's key, as it is checked; the key itself is nowhere."""

    id: str
    name: str
    scopes: frozenset[Scope]
    roles: frozenset[str] | None = None
    """None: every role."""

    expires_at: float | None = None
    """Seconds since 1970; None: never."""

    limits: RateLimits | None = None
    """None: those of the configuration."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """What somebody says who makes a key."""

    name: str
    scopes: frozenset[Scope]
    roles: frozenset[str] | None = None
    expires_at: float | None = None
    limits: RateLimits | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be used in a calendar period."""

    scope: BudgetScope
    id: str
    """Whose; `*` for each one by itself, empty for the global scope."""

    period: Period
    unit: Unit
    limit: int
    """In nano-USD, tokens or requests."""

    action: Action = "block"
    warn_share: float = 0.8


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used in a period."""

    nanousd: int = 0
    tokens: int = 0
    requests: int = 0
    asked_s: float = field(default=0.0, compare=False)
    """When the usage log was asked, in seconds since 1970; 0 where it was not."""

    def of(self, unit: Unit) -> int:
        """The figure in a budget's unit."""
        return self.nanousd if unit == "usd" else self.tokens if unit == "tokens" else self.requests


@dataclass(frozen=True, slots=True)
class Directory:
    """Everything that operators change while Hermes runs."""

    version: int = 0
    keys: Mapping[str, ApiKey] = field(default_factory=dict)
    """By the digest of the key, in hex; revoked ones are not in it."""

    pins: Mapping[str, str] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    ended: frozenset[str] = frozenset()
    """Names of the dashboard's sessions that were signed out of, as long as their cookies could be shown again."""

    @property
    def is_enabled(self) -> bool:
        """False while the kill switch is thrown."""
        return self.pins.get(ENABLED_KEY, "true").strip().lower() not in ("false", "0", "no", "off")


class DirectoryBox:
    """Holds the directory in force; a swap is one assignment."""

    def __init__(self, directory: Directory | None = None) -> None:
        self._directory = directory or Directory()
        self._listeners: list[Callable[[Directory], None]] = []

    def current(self) -> Directory:
        """The directory in force now."""
        return self._directory

    def swap(self, directory: Directory) -> None:
        """Puts a directory in force."""
        self._directory = directory
        for listener in self._listeners:
            listener(directory)

    def on_swap(self, listener: Callable[[Directory], None]) -> None:
        """Calls `listener` now and after every swap."""
        self._listeners.append(listener)
        listener(self._directory)
