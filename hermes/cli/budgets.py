"""`budgets set`, `budgets list` and `budgets delete`."""

from __future__ import annotations

from typing import Any, get_args

import click

from hermes.admission.budget_form import LIMIT_FIELDS, shown_budget
from hermes.cli.directory import open_directory, say_json, say_table
from hermes.directory import Action, BudgetScope, Period

COLUMNS = ("scope", "id", "period", "limit", "action", "warns at")
ACTION_HELP = "What happens at the limit: refuse (the default), answer by the simple tier, or only tell."


@click.group()
def budgets() -> None:
    """Define how much may be used in a day, week or month."""


@budgets.command("set")
@click.option("--scope", type=click.Choice(get_args(BudgetScope)), required=True, help="Whose use is limited.")
@click.option("--id", "scope_id", help="Which key (its id), user or function; * is each one by itself. Not for global.")
@click.option("--period", type=click.Choice(get_args(Period)), required=True, help="A calendar period.")
@click.option("--limit-usd", type=float, help="The limit in USD. Exactly one of the three limits must be given.")
@click.option("--limit-tokens", type=int, help="The limit in tokens.")
@click.option("--limit-requests", type=int, help="The limit in requests.")
@click.option(
    "--action",
    type=click.Choice(get_args(Action)),
    help="What happens at the limit: refuse (the default), answer by the simple tier, or only tell.",
)
@click.option("--warn-share", type=float, help="The share of the limit at which a warning is logged; 0.8 if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def set_budget(scope_id: str | None, as_json: bool, **given: Any) -> None:
    """Set or replace a budget.

    There is one for each scope, id and period. Days, weeks and months begin in the time zone of budgets.timezone.

    Example: budgets set --scope user --id "*" --period month --limit-usd 20
    """
    with open_directory() as directory:
        budget = directory.editor.put_budget({"id": scope_id, **given}, directory.actor)
    if as_json:
        say_json(shown_budget(budget))
    else:
        say_table([COLUMNS, _row(shown_budget(budget))])


@budgets.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def list_budgets(as_json: bool) -> None:
    """Show every budget."""
    with open_directory() as directory:
        found = [shown_budget(budget) for budget in directory.repository.list_budgets()]
    if as_json:
        say_json({"budgets": found})
    else:
        say_table([COLUMNS, *map(_row, found)])


@budgets.command()
@click.option("--scope", type=click.Choice(get_args(BudgetScope)), required=True, help="Whose use is limited.")
@click.option("--id", "scope_id", help="Which key (its id), user or function. Not for global.")
@click.option("--period", type=click.Choice(get_args(Period)), required=True, help="A calendar period.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def delete(scope: str, scope_id: str | None, period: str, as_json: bool) -> None:
    """Take a budget away."""
    name = {"scope": scope, "id": scope_id, "period": period}
    with open_directory() as directory:
        directory.editor.delete_budget(name, directory.actor)
    if as_json:
        say_json({"deleted": name})
    else:
        click.echo("The budget is taken away.")


def _row(budget: dict[str, Any]) -> tuple[str, ...]:
    name = next(name for name in LIMIT_FIELDS if name in budget)
    limit = f"{budget[name]} {LIMIT_FIELDS[name]}"
    warns_at = f"{budget['warn_share']:.0%}"
    return budget["scope"], budget["id"] or "-", budget["period"], limit, budget["action"], warns_at
