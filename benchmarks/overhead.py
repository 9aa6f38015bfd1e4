"""What Hermes costs a request: against no gateway, nginx, and a bare relay of Flask, in one run.

One provider stub and one load generator, both in C and both on core 1; the server under test alone on core 0, with one
worker. Each round measures every subject once, freshly started, so that what disturbs the machine for a while disturbs
all of them. The figure that holds on a shared machine is CPU from /proc; latencies are for comparing.

    python benchmarks/overhead.py               about five minutes
    python benchmarks/overhead.py --quick       one short round, about a minute
    python benchmarks/overhead.py --peers       beside LiteLLM and Portkey, where `sh benchmarks/peers.sh` has put them
    python benchmarks/overhead.py --markdown    writes the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from lab import native, report
from lab.figures import FULL, QUICK, Bodies, Size, measure
from lab.peers import PEERS, installed
from lab.process import busy_share, clean_up_when_told_to_end, pinned
from lab.servers import SUBJECTS, nginx, start_stub


def main() -> int:
    """The exit status: 1 where Hermes has failed a request."""
    options = _options()
    size = QUICK if options.quick else FULL
    if options.rounds:
        size = replace(size, rounds=options.rounds)
    subjects = [name for name in SUBJECTS if name in options.only.split(",")] if options.only else list(SUBJECTS)
    if "nginx" in subjects and nginx() is None:
        print("nginx not found: it is left out (on Debian: apt-get install nginx-light)", flush=True)
        subjects.remove("nginx")
    if options.peers:
        subjects += _peers()
    clean_up_when_told_to_end()
    native.build()
    with pinned(native.TOOLS_CPU), tempfile.TemporaryDirectory(prefix="bench-") as folder:
        rounds, busy = run(subjects, size, Path(folder))
    said = (
        report.conditions(rounds, busy),
        report.table(rounds),
        report.instruments(rounds),
        report.peers_table(rounds),
    )
    print("", *filter(None, said), sep="\n\n")
    if options.json:
        found = {"conditions": report.conditions(rounds, busy), "size": asdict(size), "rounds": rounds}
        Path(options.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    if options.markdown:
        print(f"\nWritten into {report.write_document(rounds, busy).name}")
    return int(any(figures.get(report.OURS, {}).get("failed") for figures in rounds))


def run(subjects: list[str], size: Size, folder: Path) -> tuple[list[report.Round], float]:
    """All rounds, and the largest share of the machine that others took before one; a line of progress a subject."""
    bodies, starts = Bodies(folder), {**SUBJECTS, **installed()}
    stub = start_stub(folder)
    rounds: list[report.Round] = []
    busy = 0.0
    try:
        for number in range(1, size.rounds + 1):
            figures = {}
            busy = max(busy, busy_share())
            for name in subjects:
                figures[name] = measure(partial(starts[name], stub), bodies, size)
                print(
                    f"round {number} of {size.rounds}, {name}: {figures[name]['cpu_ms']:.3f} ms of CPU a request, "
                    f"{figures[name]['stream_cpu_ms']:.2f} ms a stream",
                    flush=True,
                )
            rounds.append(figures)
    finally:
        stub.process.stop()
    return rounds, busy


def _peers() -> list[str]:
    """Those of the other gateways that are installed; a sentence for each that is not."""
    found = installed()
    for name in PEERS:
        if name not in found:
            print(f"{name} is not in build/peers/: it is left out (sh benchmarks/peers.sh)", flush=True)
    return list(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, help="another number of rounds")
    parser.add_argument("--only", help=f"subjects, separated by commas: {', '.join(SUBJECTS)}")
    parser.add_argument("--peers", action="store_true", help="other gateways too, where they are installed")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every round")
    parser.add_argument("--markdown", action="store_true", help="write the table into docs/performance.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
