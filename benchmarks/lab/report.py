"""Turns figures of many rounds into a table, for the terminal and for the documentation."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from lab.figures import AT_ONCE, CHUNKS, IDLE_STREAMS, SLOW_MS, STREAMS_AT_ONCE, Figures
from lab.native import ROOT
from lab.peers import PEERS
from lab.servers import nginx

DOCUMENT = ROOT / "docs" / "performance.md"
DIRECT, OURS = "direct", "Hermes"
QUIET_SHARE = 0.05
COMPARED = ("nginx", "bare relay")

Round = Mapping[str, Figures]
"""The figures of each subject."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    figure: str
    title: str
    digits: int
    is_added: bool = False
    """Shown is what the subject adds to the direct way."""

    for_direct: bool = True
    has_ratio: bool = True


ROWS = (
    Row("cpu_ms", f"CPU a request, {AT_ONCE} at once, ms", 3, for_direct=False),
    Row("per_second", f"requests a second, {AT_ONCE} at once", 0),
    Row("p50_ms", "latency p50, ms", 2),
    Row("p99_ms", "latency p99, ms", 2),
    Row("single_p50_ms", "added p50, one at a time, ms", 2, is_added=True),
    Row("slow_per_second", f"requests a second, provider takes {SLOW_MS} ms", 0),
    Row("stream_cpu_ms", f"CPU a stream of {CHUNKS} chunks, {STREAMS_AT_ONCE} at once, ms", 2, for_direct=False),
    Row("first_p50_ms", "added first byte p50, ms", 2, is_added=True),
    Row("first_p99_ms", "added first byte p99, ms", 2, is_added=True),
    Row("delay_p50_ms", "delay of a chunk p50, ms", 2),
    Row("delay_p99_ms", "delay of a chunk p99, ms", 2),
    Row("idle_kb", f"memory of an idle stream, of {IDLE_STREAMS}, KB", 1, for_direct=False),
    Row("large_cpu_ms", "CPU of a 10 MB request, ms", 1, for_direct=False),
    Row("large_peak_mb", "peak memory over a 10 MB request, MB", 0, for_direct=False),
    Row("start_s", "start to first answer, s", 2, for_direct=False),
    Row("rest_mb", "memory at rest, MB", 0, for_direct=False),
    Row("worker_mb", "of it, the worker, MB", 0, for_direct=False),
    Row("failed", "failed requests", 0, has_ratio=False),
)


def typical(rounds: Sequence[Round], subject: str, row: Row) -> float:
    """The median over the rounds; of what is added, each round against its own direct way."""
    if row.is_added:
        return median(figures[subject][row.figure] - figures[DIRECT][row.figure] for figures in rounds)
    if row.figure == "failed":
        return sum(figures[subject]["failed"] for figures in rounds)
    return median(figures[subject][row.figure] for figures in rounds)


def table(rounds: Sequence[Round]) -> str:
    """A Markdown table that is also readable as it stands: no gateway, and what any gateway could cost."""
    subjects = [name for name in rounds[0] if name not in PEERS]
    return _table(rounds, subjects, [(OURS, name) for name in COMPARED if {name, OURS} <= set(subjects)])


def peers_table(rounds: Sequence[Round]) -> str:
    """The same of Hermes and the other gateways, from the same rounds; empty where none was measured."""
    peers = [name for name in rounds[0] if name in PEERS]
    return _table(rounds, [OURS, *peers], [(name, OURS) for name in peers]) if peers and OURS in rounds[0] else ""


def _table(rounds: Sequence[Round], subjects: Sequence[str], ratios: Sequence[tuple[str, str]]) -> str:
    lines = [["", *subjects, *(f"{name} ÷ {other}" for name, other in ratios)]]
    for row in ROWS:
        if row.is_added and DIRECT not in rounds[0]:
            continue
        values = {name: typical(rounds, name, row) for name in subjects}
        lines.append([row.title, *(_cell(row, name, values[name]) for name in subjects)])
        lines[-1] += [_ratio(row, values[name], values[other]) for name, other in ratios]
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first line is its head; numbers stand at the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(_padded(line, widths))} |" for line in (lines[0], rule, *lines[1:]))


def instruments(rounds: Sequence[Round]) -> str:
    """How cheap the stub and the load generator are, from the direct way, where they share one core."""
    if DIRECT not in rounds[0]:
        return ""
    per_second, stub_ms, load_ms = (
        median(figures[DIRECT][name] for figures in rounds) for name in ("per_second", "cpu_ms", "load_cpu_ms")
    )
    return (
        f"The tools: asked directly, the provider stub takes {stub_ms * 1000:.1f} µs of CPU a request and the load "
        f"generator {load_ms * 1000:.1f} µs; on one core together they do {per_second:,.0f} requests a second."
    )


def conditions(rounds: Sequence[Round], busy: float) -> str:
    """On what the figures were taken; no names or paths of the machine. `busy`: the share that other programs took."""
    rough = f" Other programs took {busy:.0%} of the machine, so they are rough." if busy > QUIET_SHARE else ""
    return (
        f"Taken {datetime.now(UTC):%Y-%m-%d}, {len(rounds)} round{'s' if len(rounds) > 1 else ''}, medians; "
        f"{machine()}{_nginx_version()}.{rough}"
    )


def machine() -> str:
    """What it is; no names or paths."""
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return f"{_processor()}, {os.cpu_count()} cores, {system}, Python {platform.python_version()}"


def write_document(rounds: Sequence[Round], busy: float) -> Path:
    """Puts the figures into docs/performance.md; raises as `write_block`."""
    if beside := peers_table(rounds):
        write_block("peers", beside)
    return write_block(
        "overhead", "\n\n".join(filter(None, (conditions(rounds, busy), table(rounds), instruments(rounds))))
    )


def write_block(name: str, block: str) -> Path:
    """Replaces what stands between the markers of this name in docs/performance.md.

    Raises:
        SystemExit: the document or its markers are missing.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    text = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    if begin not in text or end not in text:
        sys.exit(f"{DOCUMENT.name} lacks the lines {begin} and {end}")
    before, after = text.partition(begin)[0], text.partition(end)[2]
    DOCUMENT.write_text(f"{before}{begin}\n{block}\n{end}{after}", encoding="utf-8")
    return DOCUMENT


def _cell(row: Row, subject: str, value: float) -> str:
    if math.isnan(value) or (subject == DIRECT and (row.is_added or not row.for_direct)):
        return "–"
    return f"{value:,.{row.digits}f}"


def _ratio(row: Row, value: float, other: float) -> str:
    return f"{value / other:.2f}" if row.has_ratio and other > 0 and not math.isnan(value) else "–"


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def _nginx_version() -> str:
    path = nginx()
    if path is None:
        return ""
    said = subprocess.run([path, "-v"], capture_output=True, text=True, check=False).stderr
    return f", {said.partition(':')[2].strip().replace('/', ' ')}"
