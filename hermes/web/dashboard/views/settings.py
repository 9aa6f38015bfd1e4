"""Pins and keys: which model answers a name, whether the gateway serves, who may call, who has changed what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hermes.admission.pins import MODEL, SAMPLE_RATE, TARGET, model_key, remark
from hermes.directory import ENABLED_KEY, Directory
from hermes.policy import Policy
from hermes.types import Endpoint, Tier
from hermes.upstream.catalog import pinned
from hermes.web.dashboard.views.record import ADMIN, KEY_PREFIX, Done, done, seconds_of, who

DAY_S: Final = 86_400.0
IDLE_DAYS: Final = 30
"""A key that nobody has used for so long deserves a look."""

SOON_S: Final = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class Node:
    """One endpoint of a pin's chain."""

    model: str
    place: str
    state: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A role, and who answers it."""

    key: str
    role: str
    tier: Tier
    value: str
    """Empty: the configuration decides."""

    target: str
    rate: str
    chain: tuple[Node, ...]
    remark: str
    updated_at: float | None
    updated_by: str


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, as the list shows it."""

    id: str
    name: str
    prefix: str
    scopes: str
    roles: str
    limits: str
    requests: int
    """Of the last 24 hours."""

    used_at: float | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    note: str
    """What deserves a look: it has expired, or nobody uses it."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who may sign in."""

    name: str
    role: str
    seen_at: float | None


@dataclass(frozen=True, slots=True)
class Switch:
    """The kill switch."""

    is_on: bool
    file: str
    """What stops the gateway even without a database."""

    is_by_file: bool
    changed_at: float | None
    """When somebody used it last."""

    changed_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stored:
    """What the page reads from the database."""

    keys: Sequence[Mapping[str, Any]] = ()
    pins: Sequence[Mapping[str, Any]] = ()
    seen: Mapping[str, str] = field(default_factory=dict)
    """When each actor has signed in last."""

    record: Sequence[Mapping[str, Any]] = ()
    loads: int = 0
    load: Mapping[str, Any] | None = None
    """The last time that somebody has loaded the configuration."""

    pinned: Sequence[Mapping[str, Any]] = ()
    """The last changes of pins, for the reason of the kill switch."""

    requests: Mapping[str, int] = field(default_factory=dict)
    """Of the last 24 hours, by key."""

    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the page's address asks for."""

    edit: str = ""
    """The pin that is being edited."""

    new_key: bool = False
    revoked: bool = False
    """Whether revoked keys are listed too."""

    before: int | None = None
    """The record, from before the change of this number."""

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """From a query; what cannot be is not wanted."""
        before = args.get("before", "")
        is_number = before.isascii() and before.isdecimal() and len(before) < 19
        return cls(
            args.get("edit", "")[:200],
            args.get("new") == "key",
            args.get("revoked") == "1",
            int(before) if is_number else None,
        )

    def query(self) -> dict[str, str]:
        """As an address has it."""
        return {
            "edit": self.edit,
            "new": "key" if self.new_key else "",
            "revoked": "1" if self.revoked else "",
            "before": "" if self.before is None else str(self.before),
        }

    @property
    def is_still(self) -> bool:
        """Whether the page shall not refresh itself: a form is open, or older changes are being read."""
        return bool(self.edit or self.new_key or self.before is not None)


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The whole page."""

    wanted: Wanted
    pins: tuple[Pin, ...]
    orphans: tuple[tuple[str, str], ...]
    """Pins of roles that the configuration does not have any more, with their values."""

    models: tuple[str, ...]
    roles: tuple[str, ...]
    switch: Switch
    keys: tuple[Key, ...]
    active: int
    revoked: int
    people: tuple[Person, ...]
    record: tuple[Done, ...]
    has_older: bool
    loads: int
    loaded_at: float | None
    loaded_by: str
    trouble: str
    now: float


def settings_view(
    policy: Policy,
    directory: Directory,
    stored: Stored,
    wanted: Wanted,
    switch: Switch,
    state_of: Callable[[Endpoint], str],
    now: float,
    page_rows: int,
) -> SettingsView:
    """
    Args:
        switch: as it stands; when and why is taken from what is stored.
        state_of: an endpoint's circuit.
        now: seconds since 1970.
        page_rows: how many changes are shown; `stored` holds one more where there are older ones.
    """
    names = {str(key["id"]): str(key["name"]) for key in stored.keys}
    lines = {str(pin["key"]): pin for pin in stored.pins}
    every = tuple(_key(line, stored.requests, now) for line in stored.keys)
    active = [key for key in every if key.revoked_at is None]
    shown = every if wanted.revoked else active
    roles = policy.gateway.roles
    return SettingsView(
        wanted=wanted,
        pins=tuple(_pin(role, tier, policy, directory, lines, names, state_of) for role, tier in roles.items()),
        orphans=tuple((key, value) for key, value in sorted(directory.pins.items()) if _is_orphan(key, policy)),
        models=tuple(dict.fromkeys(endpoint.model for endpoint in policy.endpoints().values())),
        roles=tuple(roles),
        switch=_told(switch, lines, stored.pinned, names),
        keys=tuple(shown),
        active=len(active),
        revoked=len(every) - len(active),
        people=tuple(_people(policy, stored, now)),
        record=done(stored.record[:page_rows], names),
        has_older=len(stored.record) > page_rows,
        loads=stored.loads,
        loaded_at=None if stored.load is None else seconds_of(stored.load["at"]),
        loaded_by="" if stored.load is None else who(stored.load["actor"], names),
        trouble=stored.trouble,
        now=now,
    )


def _pin(
    role: str,
    tier: Tier,
    policy: Policy,
    directory: Directory,
    lines: Mapping[str, Mapping[str, Any]],
    names: Mapping[str, str],
    state_of: Callable[[Endpoint], str],
) -> Pin:
    key = model_key(role)
    value = directory.pins.get(key, "")
    line = lines.get(key)
    chain = pinned(policy, tier, value or None).endpoints
    return Pin(
        key=key,
        role=role,
        tier=tier,
        value=value,
        target=directory.pins.get(f"{key}{TARGET}", ""),
        rate=directory.pins.get(f"{key}{SAMPLE_RATE}", ""),
        chain=tuple(Node(e.model, e.id.partition("@")[2] or e.shown_url, state_of(e)) for e in chain),
        remark=(remark(key, value, policy) or "") if value else "",
        updated_at=seconds_of(line["updated_at"]) if line else None,
        updated_by=who(line["updated_by"], names) if line else "",
    )


def _is_orphan(key: str, policy: Policy) -> bool:
    """Whether a pin's role is not in the configuration; roles may hold dots, so the longest ending counts."""
    if key == ENABLED_KEY:
        return False
    role = key.removeprefix(MODEL).removesuffix(SAMPLE_RATE).removesuffix(TARGET)
    return role not in policy.gateway.roles


def _told(
    switch: Switch,
    lines: Mapping[str, Mapping[str, Any]],
    changes: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
) -> Switch:
    line = lines.get(ENABLED_KEY)
    if line is None:
        return switch
    last: Mapping[str, Any] = next((change for change in changes if change["target"] == ENABLED_KEY), {})
    reason = (last.get("after") or {}).get("reason", "")
    by = who(line["updated_by"], names)
    return Switch(switch.is_on, switch.file, switch.is_by_file, seconds_of(line["updated_at"]), by, reason)


def _key(line: Mapping[str, Any], requests: Mapping[str, int], now: float) -> Key:
    limits = line["limits"] or {}
    told = [f"{limits[name]:,} {label}" for name, label in LIMITS if limits.get(name)]
    used_at, expires_at, revoked_at = (_moment(line[f"{name}_at"]) for name in ("last_used", "expires", "revoked"))
    created_at = seconds_of(line["created_at"])
    return Key(
        id=line["id"],
        name=line["name"],
        prefix=line["prefix"],
        scopes=", ".join(line["scopes"]),
        roles=", ".join(line["roles"] or ()),
        limits=", ".join(told) or ("no limit" if line["limits"] is not None else ""),
        requests=requests.get(line["id"], 0),
        used_at=used_at,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        note="" if revoked_at is not None else _note(used_at or created_at, expires_at, now),
    )


LIMITS: Final = (
    ("requests_per_minute", "requests/min"),
    ("tokens_per_minute", "tokens/min"),
    ("concurrent", "at once"),
)


def _note(touched_at: float, expires_at: float | None, now: float) -> str:
    if expires_at is not None and expires_at <= now:
        return "expired"
    if expires_at is not None and expires_at - now < SOON_S:
        return "expires soon"
    return "unused" if now - touched_at > IDLE_DAYS * DAY_S else ""


def _people(policy: Policy, stored: Stored, now: float) -> list[Person]:
    """The admin key, and every key with its scope that is in force."""
    people = [Person(f"{policy.auth.admin_key_env}", "Admin key of the server", _moment(stored.seen.get(ADMIN)))]
    for line in stored.keys:
        expires_at = _moment(line["expires_at"])
        is_over = line["revoked_at"] is not None or (expires_at is not None and expires_at <= now)
        if "admin" in line["scopes"] and not is_over:
            seen = _moment(stored.seen.get(f"{KEY_PREFIX}{line['id']}"))
            people.append(Person(line["name"], "API key with the scope admin", seen))
    return people


def _moment(text: str | None) -> float | None:
    return None if text is None else seconds_of(text)
