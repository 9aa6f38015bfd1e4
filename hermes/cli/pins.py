"""`pins get`, `pins set` and `pins delete`."""

from __future__ import annotations

import click

from hermes.admission.pins import remark
from hermes.cli.directory import known_policy, open_directory, say_json, say_table

COLUMNS = ("pin", "value", "since", "by")


@click.group()
def pins() -> None:
    """See and set the models of roles, and the kill switch."""


@pins.command()
@click.argument("key", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def get(key: str | None, as_json: bool) -> None:
    """Print the value of the pin KEY, or every pin that is set."""
    with open_directory() as directory:
        found = directory.repository.get_pins() if key is None else [directory.editor.pin(key)]
    if as_json:
        say_json({"pins": found} if key is None else found[0])
    elif key is not None:
        click.echo(found[0]["value"])
    else:
        say_table([COLUMNS, *((pin["key"], pin["value"], pin["updated_at"], pin["updated_by"]) for pin in found)])


@pins.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--reason", default="", help="Why, for the record of changes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def set_pin(key: str, value: str, reason: str, as_json: bool) -> None:
    """Set the pin KEY to VALUE.

    \b
    model.ROLE                      the model that serves a role: model.chat, model.reasoning
    model.ROLE.target               a candidate that is compared with it
    model.ROLE.target.sample_rate   the share of calls that are compared, 0 to 1
    ai.gateway.enabled              false stops every completion, true lets them run again

    Running servers follow within a second.
    """
    with open_directory() as directory:
        pin = directory.editor.set_pin(key, {"value": value, "reason": reason}, directory.actor)
    policy = known_policy()
    warning = remark(pin["key"], pin["value"], policy) if policy is not None else None
    if as_json:
        say_json({**pin, "warning": warning} if warning else pin)
        return
    click.echo(f"{pin['key']} is {pin['value']}.")
    if warning:
        click.echo(warning, err=True)


@pins.command()
@click.argument("key")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def delete(key: str, as_json: bool) -> None:
    """Take the pin KEY away: the configuration holds again."""
    with open_directory() as directory:
        directory.editor.delete_pin(key, directory.actor)
    if as_json:
        say_json({"deleted": key})
    else:
        click.echo(f"{key} is not set any more.")
