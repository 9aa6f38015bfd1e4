"""`keys create`, `keys list` and `keys revoke`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from hermes.cli.directory import open_directory, say_json, say_table

COLUMNS = ("id", "name", "key", "scopes", "roles", "state", "last used")
SCOPES_HELP = (
    "What it opens: router (/v1/chat/completions), gateway (/v1/completions) or admin (the operators' routes); "
    "may be repeated."
)


@click.group()
def keys() -> None:
    """Make, list and revoke the API keys of clients."""


@keys.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, help=SCOPES_HELP)
@click.option(
    "--role", "roles", multiple=True, help="A role that it may ask for, such as chat; may be repeated. Else every one."
)
@click.option("--expires", "expires_at", help="When it ends: a date or time, such as 2027-01-31 (UTC). Else never.")
@click.option("--requests-per-minute", type=int, help="Its own limit, instead of the configured one; 0 is no limit.")
@click.option("--tokens-per-minute", type=int, help="The same for tokens.")
@click.option("--concurrent", type=int, help="The same for requests under way at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def create(
    name: str,
    scopes: tuple[str, ...],
    roles: tuple[str, ...],
    expires_at: str | None,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Make a key called NAME and print it.

    It is stored nowhere and cannot be shown again. Running servers know it within a second.

    Example: keys create billing --scope gateway --role chat
    """
    given = {field: value for field, value in limits.items() if value is not None}
    body = {
        "name": name,
        "scopes": list(scopes),
        "roles": list(roles) or None,
        "expires_at": expires_at,
        "limits": given or None,
    }
    with open_directory() as directory:
        made = directory.editor.create_key(body, directory.actor)
    if as_json:
        say_json(made)
    else:
        click.echo(made["key"])
        click.echo(f"This is key {made['id']}; it is not shown again.", err=True)


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def list_keys(as_json: bool) -> None:
    """Show every key that there ever was, but not the keys themselves."""
    with open_directory() as directory:
        found = directory.repository.list_keys()
    if as_json:
        say_json({"keys": found})
    else:
        now = datetime.now(UTC)
        say_table([COLUMNS, *(_row(key, now) for key in found)])


@keys.command()
@click.argument("key_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def revoke(key_id: str, as_json: bool) -> None:
    """Revoke the key of an ID, for ever.

    `keys list` shows the ids. Running servers refuse the key within a second.
    """
    with open_directory() as directory:
        line = directory.editor.revoke_key(key_id, directory.actor)
    if as_json:
        say_json(line)
    else:
        click.echo(f"{line['name']} ({line['id']}) is revoked.")


def _row(key: dict[str, Any], now: datetime) -> tuple[str, ...]:
    state = "active"
    if key["revoked_at"] is not None:
        state = "revoked"
    elif key["expires_at"] is not None and datetime.fromisoformat(key["expires_at"]) <= now:
        state = "expired"
    scopes, roles = ",".join(key["scopes"]), ",".join(key["roles"]) if key["roles"] else "all"
    return key["id"], key["name"], f"{key['prefix']}…", scopes, roles, state, key["last_used_at"] or "never"
