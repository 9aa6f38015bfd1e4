"""A page as axe-core, a ruler and the console see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .browser import Visit
from .pages import Shown

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
EVERY_RULE = "{resultTypes: ['violations']}"
COLOURS = "{resultTypes: ['violations'], runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}}"
"""What a theme can break: all else is the same page."""

EXPECTED_FAULT = "status of 404"
"""Of the page that is nowhere."""

GIANTS = """[...document.querySelectorAll('svg[viewBox]')]
    .filter(mark => mark.viewBox.baseVal.width <= 24 && mark.getBoundingClientRect().width > 48)
    .map(mark => mark.outerHTML.slice(0, 200))"""
"""Marks without a size of their own, which fill all the room that there is."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is wrong with a page."""

    violations: list[str]
    overflow_px: int
    """By how much the page itself would scroll sideways."""

    faults: list[str]
    giants: list[str]
    """Marks that are far larger than marks are."""


NOTHING_WRONG = Look([], 0, [], [])


def look_at(window: Visit, page: Shown, theme: str, size: dict[str, Any], rules: str = EVERY_RULE) -> Look:
    """Opens a page in a theme and a size, and looks."""
    window.faults.clear()
    window.page.set_viewport_size(size)  # type: ignore[arg-type]
    window.go(f"{page.path}{'&' if '?' in page.path else '?'}theme={theme}")
    window.page.wait_for_selector(page.ready)
    return looked_at(window, rules)


def looked_at(window: Visit, rules: str = EVERY_RULE) -> Look:
    """What is wrong with the page that is open."""
    found = violations(window, rules)
    overflow = window.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    faults = [fault for fault in window.faults if EXPECTED_FAULT not in fault]
    return Look(found, max(0, overflow), faults, window.page.evaluate(GIANTS))


def violations(window: Visit, rules: str = EVERY_RULE) -> list[str]:
    """What axe-core finds by these rules, a line each."""
    window.page.evaluate(AXE.read_text(encoding="utf-8"))
    result = window.page.evaluate(f"axe.run(document, {rules})")
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for violation in result["violations"]
        for node in violation["nodes"]
    ]
