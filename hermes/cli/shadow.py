"""`shadow report`, `shadow promote`, `shadow reject` and `shadow rollback`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from hermes.cli.directory import known_policy, open_directory, say_json, say_table
from hermes.policy import GatePolicy, Policy

if TYPE_CHECKING:
    from hermes.evaluation.promotion import Promotions
    from hermes.storage.directory import DirectoryRepository
    from hermes.storage.shadow import ShadowRepository
    from hermes.trials import Run

COLUMNS: Final = ("run", "role", "pin", "target", "state", "better", "tie", "worse", "gate")


@dataclass(frozen=True, slots=True)
class Opened:
    """What these commands work with."""

    promotions: Promotions
    rows: ShadowRepository
    directory: DirectoryRepository
    actor: str


@contextmanager
def opened() -> Iterator[Opened]:
    """The runs in the environment's database."""
    # Here, because other commands and their help must not wait for the database's libraries.
    from hermes.evaluation.promotion import Promotions
    from hermes.storage.promotions import PromotionRepository
    from hermes.storage.shadow import ShadowRepository

    with open_directory() as found:
        rows = ShadowRepository(found.database)
        promotions = Promotions(rows, PromotionRepository(found.database))
        yield Opened(promotions, rows, found.repository, found.actor)


@click.group()
def shadow() -> None:
    """Compare targets with the pinned models, and promote them."""


@shadow.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def report(as_json: bool) -> None:
    """Say how each target stands to the pinned model, and what the gate says of it."""
    from hermes.evaluation.report import RUNS
    from hermes.evaluation.report import report as reported

    policy = known_policy()
    with opened() as found:
        pins = {pin["key"]: pin["value"] for pin in found.directory.get_pins()}
        content = reported(found.promotions, found.rows.runs(RUNS), policy or Policy(cascades={}), pins)
    if as_json:
        say_json(content)
        return
    if not content["runs"]:
        click.echo("No target has been compared yet: set model.ROLE.target, and its sample rate.")
        return
    say_table([COLUMNS, *map(_row, content["runs"])])
    for run in content["runs"]:
        if run["state"] == "running":
            click.echo(f"\nRun {run['id']}, {run['target']} for {run['role']}: {run['gate']['standing']}")
            for criterion in run["gate"]["criteria"]:
                click.echo(f"  {criterion['standing']:<7} {criterion['sentence']}")


@shadow.command()
@click.argument("role")
@click.option("--force", is_flag=True, help="Promote although the gate has not passed.")
@click.option("--reason", default="", help="Why, for the record of changes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def promote(role: str, force: bool, reason: str, as_json: bool) -> None:
    """Let the target of ROLE take the pinned model's place, if the gate has passed.

    The former model becomes the target, so that a regression is seen; `shadow rollback` gives it its place back.
    Running servers follow within a second.
    """
    with opened() as found:
        run_id = found.promotions.running(role).id
        run = found.promotions.promote(run_id, _rules(), found.actor, force=force, reason=reason)
    _say(run, as_json, f"{run.target} serves {role} from now on, in the place of {run.primary}.")


@shadow.command()
@click.argument("role")
@click.option("--reason", default="", help="Why, for the record of changes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def reject(role: str, reason: str, as_json: bool) -> None:
    """Take the target of ROLE away."""
    with opened() as found:
        run = found.promotions.reject(found.promotions.running(role).id, found.actor, reason)
    _say(run, as_json, f"{run.target} is not compared for {role} any more.")


@shadow.command()
@click.argument("role")
@click.option("--reason", default="", help="Why, for the record of changes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def rollback(role: str, reason: str, as_json: bool) -> None:
    """Take the last promotion of ROLE back."""
    with opened() as found:
        run = found.promotions.roll_back(found.promotions.running(role, "promoted").id, found.actor, reason)
    _say(run, as_json, f"{run.primary} serves {role} again.")


def _rules() -> GatePolicy:
    policy = known_policy()
    return policy.shadow.gate if policy is not None else GatePolicy()


def _say(run: Run, as_json: bool, sentence: str) -> None:
    if as_json:
        say_json(run.shown())
    else:
        click.echo(sentence)


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    verdicts = (str(run["verdicts"][name]) for name in ("better", "tie", "worse"))
    gate = run["gate"]["standing"] if run["state"] == "running" else "-"
    return str(run["id"]), run["role"], run["primary"], run["target"], run["state"], *verdicts, gate
