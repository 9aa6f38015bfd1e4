"""Builds the provider stub and the load generator, and runs the latter.

Both are C: a benchmark of a gateway that takes 0.2 ms a request needs tools that take a hundredth of that.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.process import pinned

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "benchmarks" / "native"
BUILT = ROOT / "build" / "benchmarks"
TOOLS_CPU = 1
"""Where the stub and the load generator run; the server under test has core 0 to itself."""

ROUTE = "/v1/chat/completions"
HEADERS = "LOAD_HEADERS"
"""An environment variable with further headers of every request, each with its line end."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Figures of one series; milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Load:
    """What the load generator has seen."""

    completed: int
    errors: int
    per_second: float
    cpu_us: float
    """CPU of the load generator itself."""

    latency: Spread
    refused: Spread
    """Of answers that say 429 or 503."""

    refusals: int
    first_byte: Spread
    delay: Spread
    chunks: int

    @classmethod
    def read(cls, text: str) -> Load:
        """The JSON that it prints."""
        said = json.loads(text)
        return cls(
            said["completed"],
            said["errors"],
            said["per_second"],
            said["cpu_us"],
            _spread(said, "latency"),
            _spread(said, "refused"),
            said.get("refused", {}).get("count", 0),
            _spread(said, "first_byte"),
            _spread(said, "delay"),
            said.get("delay", {}).get("count", 0),
        )


def build() -> None:
    """Compiles what has changed.

    Raises:
        SystemExit: there is no compiler, or it refuses.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("The benchmarks need a C compiler; on Debian: apt-get install gcc libc6-dev")
    BUILT.mkdir(parents=True, exist_ok=True)
    for name in ("stub", "load"):
        sources, program = [SOURCES / f"{name}.c", SOURCES / "wire.h"], BUILT / name
        if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            command = [compiler, "-O2", "-std=c11", "-Wall", "-Wextra", "-o", str(program), str(sources[0])]
            if subprocess.run(command, check=False).returncode:
                sys.exit(f"{name}.c could not be compiled")


def run_load(port: int, body: Path, limit_s: float = 120.0, **options: float) -> Load:
    """Runs the load generator to its end; the options are its own."""
    command = _load_command(port, body, options)
    with pinned(TOOLS_CPU):
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr.strip()}")
    return Load.read(done.stdout)


class HeldStreams:
    """Streams that are open and silent while the block runs.

    `lost` says afterwards how many were not open any more at its end.
    """

    def __init__(self, port: int, body: Path, number: int) -> None:
        self.lost = 0
        self._command = _load_command(port, body, {"connections": number, "total": number, "hold": 1, "ramp_ms": 500})

    def __enter__(self) -> HeldStreams:
        with pinned(TOOLS_CPU):
            self._load = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._load.stdout is not None
        if not self._load.stdout.readline().startswith("held"):
            raise RuntimeError("the idle streams could not be opened")
        return self

    def __exit__(self, *_: object) -> None:
        said, _unused = self._load.communicate(timeout=30)
        self.lost = Load.read(said).errors


def _load_command(port: int, body: Path, options: dict[str, float]) -> list[str]:
    return [str(BUILT / "load"), str(port), ROUTE, str(body), *(f"{name}={value}" for name, value in options.items())]


def _spread(said: dict[str, Any], name: str) -> Spread:
    series = said.get(name) or {"p50": 0.0, "p99": 0.0}
    return Spread(series["p50"] / 1000, series["p99"] / 1000)
