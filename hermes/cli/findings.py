"""What `doctor` finds, and how it is shown: a table on a terminal, lines in a pipe, JSON for scripts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hermes.observe.redact import Redactor

Level = Literal["ok", "warn", "fail", "skip"]

STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """What was looked at: `database`, `endpoint`, …"""

    level: Level
    """`skip`: it could not be looked at, or need not be."""

    message: str
    """What was seen."""

    fix: str = ""
    """What to do; empty where there is nothing to be done."""


def is_good(findings: Iterable[Finding]) -> bool:
    """Whether nothing failed."""
    return all(finding.level != "fail" for finding in findings)


def cleaned(findings: Iterable[Finding], redactor: Redactor) -> list[Finding]:
    """The findings without any secret that a provider or a library may have quoted."""
    return [replace(f, message=redactor.clean(f.message), fix=redactor.clean(f.fix)) for f in findings]


def summary(findings: Sequence[Finding]) -> str:
    """
    >>> summary([Finding("a", "ok", ""), Finding("b", "warn", ""), Finding("c", "warn", "")])
    '1 ok, 2 warnings, none failed.'
    """
    counts = Counter(finding.level for finding in findings)
    warnings = f"{counts['warn']} warning{'' if counts['warn'] == 1 else 's'}"
    skipped = f", {counts['skip']} not looked at" if counts["skip"] else ""
    return f"{counts['ok']} ok, {warnings}, {counts['fail'] or 'none'} failed{skipped}."


def show(findings: Sequence[Finding], console: Console) -> None:
    """A table where a person looks, else a line for each finding and one for what to do."""
    if console.is_terminal:
        console.print(_table(findings))
        console.print(Text(summary(findings), style="bold"))
        return
    for finding in findings:
        click.echo(f"{finding.level:<5} {finding.check:<14} {finding.message}")
        if finding.fix:
            click.echo(f"{'':<20} -> {finding.fix}")
    click.echo(summary(findings))


def as_json(findings: Sequence[Finding]) -> str:
    """The same for scripts."""
    counts = Counter(finding.level for finding in findings)
    levels: tuple[Level, ...] = ("ok", "warn", "fail", "skip")
    whole = {
        "ok": is_good(findings),
        "counts": {level: counts[level] for level in levels},
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2)


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        said = Text(finding.message)
        if finding.fix:
            said.append(f"\n→ {finding.fix}", style="italic")
        table.add_row(Text(finding.level, style=STYLES[finding.level]), Text(finding.check), said)
    return table
