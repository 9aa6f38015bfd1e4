"""What Hermes does when three times as many requests come as it can answer: who is answered, how soon the others know.

One worker on a core of its own, a provider stub that answers at once. First the peak: callers that always wait for an
answer, of several numbers the best. Then thousands of callers that each ask at a beat, together three times the peak,
whatever becomes of their requests. Then the peak once more, at once.

    python benchmarks/overload.py               about a minute
    python benchmarks/overload.py --seconds 5   rough
    python benchmarks/overload.py --markdown    writes the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from lab import native, report
from lab.figures import Bodies
from lab.native import Load, run_load
from lab.process import busy_share, clean_up_when_told_to_end, pinned
from lab.servers import start_hermes, start_stub

TIMES = 3
CALLERS_AT_PEAK = (25, 50, 100)
CALLERS = 3000
WARM_UP_S = 2.0
LEAST_SHARE = 0.7
"""Of the peak, answered at three times of it; below that the run has failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One round."""

    peak: float
    """Answers a second when just as many come as can be answered."""

    crowd: Load
    after: float
    """As `peak`, right after the crowd."""

    @property
    def answered(self) -> float:
        """A second, in the crowd, until the last one has its answer."""
        return self._a_second(self.crowd.completed - self.crowd.errors)

    @property
    def turned_away(self) -> float:
        """As `answered`."""
        return self._a_second(self.crowd.refusals)

    def _a_second(self, requests: int) -> float:
        return self.crowd.per_second * requests / self.crowd.completed


def main() -> int:
    """The exit status: 1 where too few were answered, or a request failed otherwise than by being turned away."""
    options = _options()
    clean_up_when_told_to_end()
    native.build()
    busy = busy_share()
    with pinned(native.TOOLS_CPU), tempfile.TemporaryDirectory(prefix="bench-") as folder:
        rounds = [_round(Path(folder), options.seconds) for _ in range(options.rounds)]
    rough = f" Other programs took {busy:.0%} of the machine: rough." if busy > report.QUIET_SHARE else ""
    said = f"{report.machine()}; {len(rounds)} rounds, medians; taken {datetime.now(UTC):%Y-%m-%d}.{rough}"
    block = f"{said}\n\n{_table(rounds)}"
    print(f"\n{block}")
    if options.markdown:
        report.write_block("overload", block)
    share = median(one.answered / one.peak for one in rounds)
    failed = sum(one.crowd.errors - one.crowd.refusals for one in rounds)
    if share < LEAST_SHARE or failed:
        print(f"\nFAILED: {share:.0%} of the peak, {failed} requests neither answered nor told to come again")
    return int(share < LEAST_SHARE or failed > 0)


def _round(folder: Path, seconds: float) -> Outcome:
    body = Bodies(folder).small
    stub = start_stub(folder)
    server = start_hermes(stub)
    try:
        run_load(server.port, body, connections=50, seconds=WARM_UP_S)
        peak = _peak(server.port, body, seconds)
        every_ms = max(1, round(CALLERS / (TIMES * peak) * 1000))
        crowd = run_load(server.port, body, connections=CALLERS, seconds=seconds, every_ms=every_ms, ramp_ms=every_ms)
        found = Outcome(peak, crowd, _peak(server.port, body, seconds))
    finally:
        server.stop()
        stub.process.stop()
    print(
        f"peak {found.peak:.0f} a second; of {TIMES} times that, {found.answered:.0f} a second are answered and "
        f"{found.turned_away:.0f} turned away; then {found.after:.0f}",
        flush=True,
    )
    return found


def _peak(port: int, body: Path, seconds: float) -> float:
    return max(
        run_load(port, body, connections=callers, seconds=seconds / len(CALLERS_AT_PEAK)).per_second
        for callers in CALLERS_AT_PEAK
    )


def _table(rounds: list[Outcome]) -> str:
    def of(read: object) -> float:
        return median(read(one) for one in rounds)  # type: ignore[operator]

    lines = [
        ("", "seen"),
        ("peak, answers a second", f"{of(lambda one: one.peak):,.0f}"),
        (f"answered a second at {TIMES} times the peak", f"{of(lambda one: one.answered):,.0f}"),
        ("share of the peak", f"{of(lambda one: one.answered / one.peak):.0%}"),
        ("answered: p50, ms", f"{of(lambda one: one.crowd.latency.p50_ms):,.0f}"),
        ("answered: p99, ms", f"{of(lambda one: one.crowd.latency.p99_ms):,.0f}"),
        ("turned away a second", f"{of(lambda one: one.turned_away):,.0f}"),
        ("turned away: p50, ms", f"{of(lambda one: one.crowd.refused.p50_ms):,.0f}"),
        ("turned away: p99, ms", f"{of(lambda one: one.crowd.refused.p99_ms):,.0f}"),
        ("failed otherwise", f"{of(lambda one: one.crowd.errors - one.crowd.refusals):,.0f}"),
        ("peak right afterwards", f"{of(lambda one: one.after):,.0f}"),
    ]
    return report.aligned(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=9.0, help="of the crowd, and of each search for the peak")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true", help="write the table into docs/performance.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
