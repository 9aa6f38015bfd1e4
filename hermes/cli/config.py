"""`config check` and `config show`."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import click
from ruamel.yaml import YAML

from hermes import configfile
from hermes.errors import ConfigurationInvalid
from hermes.policy import Policy
from hermes.settings import Settings


@click.group()
def config() -> None:
    """Check and show the configuration file."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None, as_json: bool) -> int:
    """Print every problem of a configuration file.

    FILE is the one that the server would use, if none is given. Problems and warnings are told all at once, each with
    its line. Warnings alone do not make a file useless.
    """
    path = file or Settings.from_env().config_path()
    problems: list[dict[str, Any]] = []
    lines: list[str] = []
    warnings: tuple[str, ...] = ()
    try:
        warnings = configfile.load(path, os.environ).warnings
    except ConfigurationInvalid as invalid:
        problems = [{"path": p.path, "line": p.line, "message": p.message} for p in invalid.problems]
        lines, warnings = invalid.lines(), invalid.warnings
    if as_json:
        click.echo(_json({"file": str(path), "ok": not problems, "problems": problems, "warnings": list(warnings)}))
    else:
        _print_findings(path, lines, warnings)
    return 1 if problems else 0


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def show(as_json: bool) -> None:
    """Print the configuration with its defaults.

    As the server would use it: environment variables by their names, never with their values.
    """
    policy = configfile.load(Settings.from_env().config_path(), os.environ)
    click.echo(_json(policy.document) if as_json else _yaml(policy), nl=as_json)


def _print_findings(path: Path, lines: list[str], warnings: tuple[str, ...]) -> None:
    for line in lines:
        click.echo(line)
    for warning in warnings:
        click.echo(f"{warning} (warning)")
    if lines:
        click.echo(f"{len(lines)} problem{'s' if len(lines) > 1 else ''}.", err=True)
    else:
        click.echo(f"{path} can be used.", err=True)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2, default=str)


def _yaml(policy: Policy) -> str:
    writer = YAML()
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.width = 100
    stream = io.StringIO()
    writer.dump(json.loads(_json(policy.document)), stream)  # by way of JSON: plain dicts and lists, nothing shared
    return stream.getvalue()
