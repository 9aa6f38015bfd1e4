"""What callers see when Postgres or Redis hangs or dies: two workers under load, one store away for a while, each way.

`SIGSTOP` is the nasty one: the store accepts connections and says nothing. Every request of the whole time must be
answered with 200 and have exactly one usage row afterwards, and the server must be whole again within five seconds.

    python benchmarks/outage.py                  fifteen seconds each, about a minute and a half
    python benchmarks/outage.py --seconds 60
    python benchmarks/outage.py --markdown       writes the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lab import report
from lab.process import clean_up_when_told_to_end

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.e2e.outage import WORKERS, Outcome, Signal, Site, Store

OUTAGES: tuple[tuple[Store, Signal], ...] = (
    ("Postgres", "SIGSTOP"),
    ("Postgres", "SIGKILL"),
    ("Redis", "SIGSTOP"),
    ("Redis", "SIGKILL"),
)
HEADS = (
    "store, signal",
    "away, s",
    "asked",
    "failed",
    "p99, ms",
    "slowest, ms",
    "rows lost",
    "rows twice",
    "recovered after, s",
)
RECOVERY_S = 5.0
SLOWEST_S = 1.0


def main() -> int:
    """The exit status: 1 where something failed, was lost, or took too long."""
    options = _options()
    clean_up_when_told_to_end()
    outcomes = []
    try:
        with Site() as site:
            for store, signal in OUTAGES:
                outcomes.append(site.outage(store, signal, options.seconds, options.callers))
                print(_line(outcomes[-1]), *outcomes[-1].failed[:5], flush=True)
    except pytest.skip.Exception as missing:
        print(missing)
        return 1
    said = f"{WORKERS} workers, {options.callers} callers; {report.machine()}; taken {datetime.now(UTC):%Y-%m-%d}."
    table = report.aligned([HEADS, *map(_line, outcomes)])
    print(f"\n{said}\n\n{table}")
    if options.markdown:
        document = report.write_block("outage", f"{said}\n\n{table}")
        print(f"\nWritten into {document.name}")
    return int(not all(map(_is_good, outcomes)))


def _line(outcome: Outcome) -> list[str]:
    return [
        f"{outcome.store}, {outcome.signal}",
        f"{outcome.seconds:.1f}",
        f"{outcome.asked:,}",
        str(len(outcome.failed)),
        f"{outcome.p99_s * 1000:.0f}",
        f"{outcome.slowest_s * 1000:.0f}",
        str(outcome.rows_lost),
        str(outcome.rows_doubled),
        f"{outcome.recovered_after_s:.1f}",
    ]


def _is_good(outcome: Outcome) -> bool:
    has_all = not (outcome.failed or outcome.rows_lost or outcome.rows_doubled)
    return has_all and outcome.recovered_after_s < RECOVERY_S and outcome.slowest_s < SLOWEST_S


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each store is away")
    parser.add_argument("--callers", type=int, default=8, help="who ask without a pause")
    parser.add_argument("--markdown", action="store_true", help="write the table into docs/performance.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
