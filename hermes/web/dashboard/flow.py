"""Where the nodes and ribbons of the decision flow stand: what decided, which tier, who answered.

Heights are shares of all requests. Small nodes keep a least height and their labels a least distance; the largest node
gives way until everything fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HEIGHT: Final = 268.0
GAP: Final = 10.0
ROUNDS: Final = 60
FIRST_PITCH: Final = 24.0
LAST_PITCH: Final = 23.0
THIN: Final = 0.8


@dataclass(frozen=True, slots=True)
class Part:
    """A node's figures: requests of each tier that pass through it."""

    label: str
    simple: int
    complex: int
    role: str = ""
    """Of a target: `fallback 1`; empty for a primary."""

    is_bad: bool = False

    @property
    def all(self) -> int:
        """Of both tiers."""
        return self.simple + self.complex


@dataclass(frozen=True, slots=True)
class Node:
    """A node where it is drawn."""

    label: str
    detail: str
    kind: str
    role: str
    top: float
    size: float

    @property
    def middle(self) -> float:
        """Where its label stands."""
        return round(self.top + self.size / 2, 1)


@dataclass(frozen=True, slots=True)
class Ribbon:
    """A stream from one node to another."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Flow:
    """The whole drawing; x goes from 0 to 100 in each half."""

    sources: tuple[Node, ...]
    tiers: tuple[Node, ...]
    targets: tuple[Node, ...]
    into: tuple[Ribbon, ...]
    out: tuple[Ribbon, ...]
    height: float = HEIGHT


def flow_of(sources: Sequence[Part], targets: Sequence[Part]) -> Flow | None:
    """Lays the flow out; None where there was no request. Parts without requests are left out."""
    sources, targets = [p for p in sources if p.all], [p for p in targets if p.all]
    total = sum(part.all for part in sources)
    if not total or not targets:
        return None
    sums = [sum(part.simple for part in sources), sum(part.complex for part in sources)]
    left = _placed([part.all for part in sources], total, 4.0, FIRST_PITCH)
    middle = _placed(sums, total, 12.0, FIRST_PITCH)
    right = _placed([part.all for part in targets], total, 2.5, LAST_PITCH)
    tiers = tuple(
        Node(name, f"{share / total * 100:.1f}%", name.lower(), "", round(top, 1), round(size, 1))
        for name, share, (top, size) in zip(("Simple", "Complex"), sums, middle, strict=True)
        if share
    )
    return Flow(
        tuple(_node(part, f"{part.all / total * 100:.1f}%", place) for part, place in zip(sources, left, strict=True)),
        tiers,
        tuple(_node(part, f"{part.all:,}", place) for part, place in zip(targets, right, strict=True)),
        tuple(_ribbons(sources, left, middle, sums, from_tiers=False)),
        tuple(_ribbons(targets, right, middle, sums, from_tiers=True)),
    )


def _node(part: Part, detail: str, place: tuple[float, float]) -> Node:
    return Node(part.label, detail, "bad" if part.is_bad else "", part.role, round(place[0], 1), round(place[1], 1))


def _placed(weights: Sequence[int], total: int, least: float, pitch: float) -> list[tuple[float, float]]:
    """Top and height of each node."""
    room = HEIGHT - GAP * (len(weights) - 1)
    sizes = [max(least, weight / total * room) if weight else 0.0 for weight in weights]
    largest = max(range(len(sizes)), key=lambda place: sizes[place])
    tops: list[float] = []
    for _ in range(ROUNDS):
        tops, y = [], 0.0
        for place, size in enumerate(sizes):
            if place:
                y = max(y + GAP, tops[-1] + sizes[place - 1] / 2 + pitch - size / 2)
            tops.append(y)
            y += size
        if y <= HEIGHT + 0.5 or sizes[largest] <= least:
            break
        sizes[largest] = max(least, sizes[largest] - max(0.5, y - HEIGHT))
    return list(zip(tops, sizes, strict=True))


def _ribbons(
    parts: Sequence[Part],
    places: Sequence[tuple[float, float]],
    tiers: Sequence[tuple[float, float]],
    sums: Sequence[int],
    *,
    from_tiers: bool,
) -> list[Ribbon]:
    offsets = [tiers[0][0], tiers[1][0]]
    ribbons: list[Ribbon] = []
    for part, (top, size) in zip(parts, places, strict=True):
        own = top
        for tier, (kind, requests) in enumerate((("simple", part.simple), ("complex", part.complex))):
            if not requests:
                continue
            at_node = size * requests / part.all
            at_tier = max(tiers[tier][1] * requests / sums[tier], THIN) if sums[tier] else THIN
            ends = (offsets[tier], at_tier, own, at_node) if from_tiers else (own, at_node, offsets[tier], at_tier)
            ribbons.append(Ribbon("bad" if part.is_bad else kind, ribbon_path(*ends)))
            offsets[tier] += at_tier
            own += at_node
    return ribbons


def ribbon_path(top: float, size: float, end_top: float, end_size: float) -> str:
    """The path of a ribbon from x = 0 to x = 100.

    >>> ribbon_path(0, 10, 20, 5)
    'M0 0.0C50 0.0 50 20.0 100 20.0L100 25.0C50 25.0 50 10.0 0 10.0Z'
    """
    there = f"M0 {top:.1f}C50 {top:.1f} 50 {end_top:.1f} 100 {end_top:.1f}"
    back = f"L100 {end_top + end_size:.1f}C50 {end_top + end_size:.1f} 50 {top + size:.1f} 0 {top + size:.1f}Z"
    return there + back
