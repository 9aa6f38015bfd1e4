"""The page about the command line has every command and every option there is."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from hermes.cli.main import hermes
from hermes.settings import ROOT

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield " ".join((*before, name)), command


ALL = [pytest.param(name, command, id=name) for name, command in commands(hermes)]


def section_of(name: str) -> str:
    """What the page says of a command, or of its group."""
    titles = {f"`{name}`", f"`{name.partition(' ')[0]}`"}
    sections = [part for part in PAGE.split("\n## ")[1:] if any(title in part.partition("\n")[0] for title in titles)]
    return sections[0] if sections else ""


@pytest.mark.parametrize(("name", "command"), ALL)
def test_a_command_stands_in_the_page_with_its_options(name: str, command: click.Command) -> None:
    section = section_of(name)
    options = [option for option in command.params if isinstance(option, click.Option)]
    words = [word for option in options for word in option.opts if word.startswith("--")]

    assert f"hermes {name}" in section, f"docs/commands.md says nothing of {name}"
    assert [word for word in words if word not in section] == [], f"docs/commands.md lacks options of {name}"


@pytest.mark.parametrize(("name", "command"), ALL)
def test_a_command_explains_itself(name: str, command: click.Command) -> None:
    first = (command.help or "").strip().partition("\n")[0]

    assert first.endswith(".")
    assert all(
        option.help for option in command.params if isinstance(option, click.Option) and "--format" not in option.opts
    )
