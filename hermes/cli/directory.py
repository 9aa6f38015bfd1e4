"""Opens the directory of keys, pins and budgets in the database of the environment.

The commands work on the database itself, so they work while no server runs; a running one sees a change within a
second.
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hermes.admission.editor import DirectoryEditor
from hermes.admission.keys import KeyDigest, server_secret
from hermes.cli.start import read_start
from hermes.errors import ConfigurationInvalid
from hermes.policy import GatewayPolicy, Policy
from hermes.settings import ROOT, Settings

if TYPE_CHECKING:
    from hermes.storage.db import Database
    from hermes.storage.directory import DirectoryRepository


@dataclass(frozen=True, slots=True)
class OpenDirectory:
    """The directory, while a command runs."""

    editor: DirectoryEditor
    repository: DirectoryRepository
    actor: str
    """Who works here, for audit rows."""

    database: Database


@contextmanager
def open_directory() -> Iterator[OpenDirectory]:
    """The directory of the environment's database, which is made or brought up to date first.

    Raises:
        StartRefused: the database or the secret cannot be used.
    """
    # Here, because other commands and their help must not wait for the database's libraries.
    from hermes.storage.db import Database, migrate
    from hermes.storage.directory import DirectoryRepository

    settings = Settings.from_env()
    migrate(settings.database_url, ROOT / "migrations")
    digest = KeyDigest(server_secret(settings.secret, settings.data_folder()))
    database = Database.open(settings.database_url)
    try:
        repository = DirectoryRepository(database)
        editor = DirectoryEditor(repository, digest, known_roles, lambda: None)
        yield OpenDirectory(editor, repository, actor_here(), database)
    finally:
        database.close()


def known_roles() -> Collection[str] | None:
    """The roles of the configuration; None where it cannot be read here, for want of a provider's key perhaps."""
    try:
        policy = read_start(os.environ).policy
    except ConfigurationInvalid:
        return None
    return (policy.gateway if policy is not None else GatewayPolicy()).roles


def known_policy() -> Policy | None:
    """The configuration; None where there is none, or it cannot be read here."""
    try:
        return read_start(os.environ).policy
    except ConfigurationInvalid:
        return None


def say_json(content: Any) -> None:
    """Prints JSON for scripts."""
    click.echo(json.dumps(content, ensure_ascii=False, indent=2))


def say_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints rows in columns, the first one as their heads."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def actor_here() -> str:
    """Who works here, for audit rows."""
    return f"cli:{_user()}"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # in a container that runs under a bare number
        return str(os.geteuid())
