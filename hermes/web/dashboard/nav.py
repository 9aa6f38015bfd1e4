"""The pages of the dashboard, in the order of the navigation. One that is not built yet has no entry: see `shown`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    """A page's entry."""

    name: str
    """Of its view in the blueprint, `dashboard.NAME`; also of its icon and of its count in the strip."""

    label: str
    group: str
    key: str = ""
    """`g` and this key go there."""

    in_tabs: bool = False
    """Whether it stands in the bar of small screens itself, and not under More."""

    path: str = ""
    """Where it stands, if not under the dashboard."""


ENTRIES: Final = (
    Entry("overview", "Overview", "Watch", "o", in_tabs=True),
    Entry("usage", "Usage log", "Watch", "u", in_tabs=True),
    Entry("traces", "Traces", "Watch"),
    Entry("classifier", "Classifier", "Route", "r", path="/classifier/report"),
    Entry("circuits", "Circuits", "Route", "c", in_tabs=True),
    Entry("sessions", "Sessions", "Route", "s", in_tabs=True),
    Entry("shadow", "Shadow runs", "Route", "h"),
    Entry("budgets", "Budgets", "Govern", "b"),
    Entry("residency", "Residency and PII", "Govern"),
    Entry("knowledge", "Knowledge", "Govern"),
    Entry("settings", "Pins and keys", "Operate", "p"),
    Entry("config", "Configuration", "Operate"),
)


@dataclass(frozen=True, slots=True)
class Link:
    """An entry whose page exists."""

    entry: Entry
    href: str


def shown(endpoints: Collection[str], url: Callable[[str], str]) -> list[tuple[str, list[Link]]]:
    """The groups with their entries, as far as their pages exist.

    Args:
        endpoints: names of the application's views.
        url: the address of a view.
    """
    groups: dict[str, list[Link]] = {}
    for entry in ENTRIES:
        view = f"dashboard.{entry.name}"
        if view in endpoints:
            groups.setdefault(entry.group, []).append(Link(entry, entry.path or url(view)))
    return list(groups.items())
