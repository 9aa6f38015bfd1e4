"""A scripted month of targets in a minute: `.venv/bin/python benchmarks/shadow_month.py [--seed N] [--worlds N]`.

Models and judge are scripted, everything between them is what serves (`tests/shadow_world.py`): a worse target, a
better one, and a provider that lets the promoted model decay. The goals: the worse target is rejected, the better one
promoted, the regression seen and rolled back, the figures those reckoned by hand; and over many worlds with a target
that stands exactly on a rule, wrong promotions stay below the risk that is claimed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402
from rich.table import Table  # noqa: E402

from hermes.evaluation.gate import weigh  # noqa: E402
from hermes.policy import GatePolicy  # noqa: E402
from tests.shadow_world import BEGINNING, DAY_S, ByHand, Model, World  # noqa: E402

CALM = 14
console = Console()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=0, help="worlds with a target on the rule; 0: none")
    options = parser.parse_args()
    good = month(options.seed)
    if options.worlds:
        good &= on_the_rule(options.worlds)
    return 0 if good else 1


def month(seed: int) -> bool:
    """The story; whether it went as it should."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-month-") as folder:
        house = Model("house", quality=0.5, price=1.0)
        worse = Model("worse", quality=0.3, price=0.5)
        better = Model("better", quality=0.9, price=0.8, latency_ms=700)
        world = World(Path(folder), house, worse, better, seed=seed)
        world.try_out("worse")
        world.days(6)
        served = [world.serving]
        world.try_out("better")
        world.days(CALM)
        served.append(world.serving)
        better.quality = 0.3
        world.days(30 - 6 - CALM)
        served.append(world.serving)

        table = Table("day", "what happened", title=f"{world.requests:,} requests in {time.monotonic() - began:.0f} s")
        for at, text in world.events:
            table.add_row(f"{(at - BEGINNING) / DAY_S:.1f}", text)
        console.print(table)
        goals = {
            "the worse target was rejected": served[0] == "house" and world.runs()[0].state == "rejected",
            "the better target was promoted": served[1] == "better",
            "the regression was rolled back": served[2] == "house",
            "the figures are those reckoned by hand": _figures_agree(world),
        }
        console.print(f"spent on targets and judge: {world.rows.spent_since('') / 1e9:.4f} USD")
        world.close()
    for goal, is_reached in goals.items():
        console.print(f"[{'green' if is_reached else 'red'}]{'reached' if is_reached else 'MISSED '}[/] {goal}")
    return all(goals.values())


def _figures_agree(world: World) -> bool:
    for run in world.runs():
        entries = [e for e in world.books if (e.primary, e.target) == (run.primary, run.target)]
        hand = ByHand(entries)
        pairs = world.rows.pairs(run.id)
        gate = {one.name: one for one in weigh(pairs, GatePolicy()).criteria}
        primary, target = hand.costs()
        slow, fast = hand.p95()
        if len(pairs) != len(entries) or abs(gate["cost_ratio"].value - target / primary) > 1e-9:
            return False
        if abs(gate["p95_latency_ratio"].value - fast / slow) > 1e-6:
            return False
    return True


def on_the_rule(worlds: int) -> bool:
    """How often a target is promoted that wins or ties in exactly the share that is just not enough."""
    wrong = 0
    for seed in track(range(worlds), description="targets on the rule", console=console):
        with tempfile.TemporaryDirectory(prefix="hermes-month-") as folder:
            # an error is a loss: nine of ten answers are as good, one does not come
            target = Model("target", quality=0.5, spread=0.0, price=0.5, error_rate=0.1)
            house = Model("house", quality=0.5, spread=0.0)
            rules = GatePolicy(max_error_rate=1.0)
            world = World(Path(folder), house, target, gate=rules, seed=seed, judge_goes_by_position=0.0)
            world.try_out("target")
            world.days(6, looks=12)
            wrong += world.runs()[0].state == "promoted"
            world.close()
    console.print(f"wrongly promoted: {wrong} of {worlds} (claimed: 5 % at most)")
    return wrong <= max(2, 0.1 * worlds)


if __name__ == "__main__":
    sys.exit(main())
