"""The circuits page: every endpoint's state, its last hour, and who carries a tier whose first one is out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes.policy import Policy
from hermes.types import Endpoint, Tier
from hermes.upstream.breaker import Circuit
from hermes.upstream.changes import Change, Failure
from hermes.web.dashboard.views.pulse import MINUTES, Traffic

HOUR_S: Final = 3600.0
SHOWN_CHANGES: Final = 12
RATE_MINUTES: Final = 5
LEAST_PERCENT: Final = 1.5
KINDS: Final = {"closed": "", "open": "open", "half_open": "half"}
"""The class of a stretch of the timeline, by the circuit's state."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the last hour in one state, in percent of the whole hour."""

    kind: str
    start: float
    length: float


@dataclass(frozen=True, slots=True)
class Keys:
    """An endpoint's provider keys."""

    usable: int
    total: int
    rest_s: float | None
    """When the first of the resting ones comes back."""


@dataclass(frozen=True, slots=True)
class Row:
    """One endpoint."""

    id: str
    anchor: str
    """Fit for an element's id."""

    model: str
    host: str
    uses: tuple[tuple[Tier, str], ...]
    """The tiers that it serves, and as what."""

    state: str
    failures: int
    threshold: int
    retry_in_s: float
    waited_percent: float
    """How much of the time until its next probe is over."""

    requests: int
    timeline: tuple[Stretch, ...]
    keys: Keys
    last_failure: Failure | None


@dataclass(frozen=True, slots=True)
class Link:
    """One endpoint of a tier's cascade, and what it carries."""

    model: str
    role: str
    state: str
    per_minute: float


@dataclass(frozen=True, slots=True)
class Chain:
    """A tier whose load has moved."""

    tier: Tier
    links: tuple[Link, ...]

    @property
    def carrier(self) -> int | None:
        """The position of the first one that is closed; None where nobody is."""
        return next((place for place, link in enumerate(self.links) if link.state == "closed"), None)


@dataclass(frozen=True, slots=True)
class CircuitsView:
    """The whole page."""

    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    names: Mapping[str, str]
    """The model of each endpoint's id."""

    fallback_share: float | None
    chains: tuple[Chain, ...]
    threshold: int
    window_s: float
    recovery_s: float
    now: float
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def not_closed(self) -> int:
        """How many circuits are open or being probed."""
        return self.counts.get("open", 0) + self.counts.get("half_open", 0)


def circuits_view(
    policy: Policy,
    circuits: Sequence[Circuit],
    changes: Sequence[Change],
    traffic: Traffic | None,
    keys_of: Callable[[Endpoint], Keys],
    failure_of: Callable[[Endpoint], Failure | None],
    now: float,
) -> CircuitsView:
    """
    Args:
        changes: those of the last hour, newest first.
        traffic: None where the log cannot be read.
        now: seconds since 1970.
    """
    rows = tuple(
        _row(place, circuit, policy, changes, traffic, keys_of(circuit.endpoint), failure_of(circuit.endpoint), now)
        for place, circuit in enumerate(circuits)
    )
    rows = tuple(sorted(rows, key=lambda row: ("open", "half_open", "closed").index(row.state)))
    states = {row.id: row.state for row in rows}
    return CircuitsView(
        rows,
        tuple(changes[:SHOWN_CHANGES]),
        {row.id: row.model for row in rows},
        traffic.fallback_share(RATE_MINUTES) if traffic is not None else None,
        tuple(_chains(policy, states, traffic)),
        policy.breaker.failure_threshold,
        policy.breaker.window_s,
        policy.breaker.recovery_timeout_s,
        now,
        {state: sum(row.state == state for row in rows) for state in KINDS},
    )


def timeline(changes: Iterable[Change], state: str, now: float) -> tuple[Stretch, ...]:
    """The last hour of one circuit, from its changes (newest first) and its state now."""
    stretches: list[Stretch] = []
    end, current = now, state
    for change in changes:
        start = max(change.at, now - HOUR_S)
        if end > start:
            stretches.append(_stretch(current, start, end, now))
        end, current = min(end, start), change.old
    if end > now - HOUR_S:
        stretches.append(_stretch(current, now - HOUR_S, end, now))
    return tuple(reversed(stretches))


def _stretch(state: str, start: float, end: float, now: float) -> Stretch:
    """A stretch that is not closed is never too short to be seen."""
    length = (end - start) / HOUR_S * 100
    if KINDS[state]:
        length = max(length, LEAST_PERCENT)
    begin = min((start - now + HOUR_S) / HOUR_S * 100, 100 - length)
    return Stretch(KINDS[state], round(begin, 2), round(length, 2))


def _row(
    place: int,
    circuit: Circuit,
    policy: Policy,
    changes: Sequence[Change],
    traffic: Traffic | None,
    keys: Keys,
    last_failure: Failure | None,
    now: float,
) -> Row:
    endpoint = circuit.endpoint
    recovery_s = policy.breaker.recovery_timeout_s
    requests = traffic.requests(MINUTES, lambda group: group.endpoint == endpoint.id) if traffic is not None else 0
    own = [change for change in changes if change.endpoint == endpoint.id]
    return Row(
        endpoint.id,
        f"circuit-{place}",
        endpoint.model,
        endpoint.id.partition("@")[2] or endpoint.shown_url,
        tuple(_uses(policy, endpoint)),
        circuit.state,
        min(circuit.failures, policy.breaker.failure_threshold),
        policy.breaker.failure_threshold,
        circuit.retry_in_s,
        max(0.0, 100 * (1 - circuit.retry_in_s / recovery_s)) if recovery_s else 100.0,
        requests,
        timeline(own, circuit.state, now),
        keys,
        last_failure,
    )


def _uses(policy: Policy, endpoint: Endpoint) -> Iterable[tuple[Tier, str]]:
    for tier, cascade in policy.cascades.items():
        for level, entry in enumerate(cascade.endpoints):
            if entry.id == endpoint.id:
                yield tier, role_of(level)


def role_of(level: int) -> str:
    """What an endpoint is in its tier.

    >>> role_of(0), role_of(2)
    ('primary', 'fallback 2')
    """
    return "primary" if level == 0 else f"fallback {level}"


def _chains(policy: Policy, states: Mapping[str, str], traffic: Traffic | None) -> Iterable[Chain]:
    """The tiers with a circuit that is not closed."""
    for tier, cascade in policy.cascades.items():
        if all(states.get(entry.id, "closed") == "closed" for entry in cascade.endpoints):
            continue
        yield Chain(
            tier,
            tuple(
                Link(entry.model, role_of(level), states.get(entry.id, "closed"), _rate(traffic, tier, entry.id))
                for level, entry in enumerate(cascade.endpoints)
            ),
        )


def _rate(traffic: Traffic | None, tier: Tier, endpoint: str) -> float:
    if traffic is None:
        return 0.0
    minutes = RATE_MINUTES
    return traffic.requests(minutes, lambda group: group.endpoint == endpoint and group.tier == tier) / minutes
