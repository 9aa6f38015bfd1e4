"""`python -m hermes`: finds the command, and turns every failure into a sentence and an exit code.

0 done, 1 not done (a configuration with problems, a server that refuses), 2 cannot begin (wrong words on the command
line, an environment that does not fit).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import click

from hermes import __version__
from hermes.cli import without_requirements
from hermes.errors import ConfigurationInvalid, HermesError, InvalidRequest, StartRefused

COMMANDS: Final[Mapping[str, str]] = {
    "serve": "hermes.cli.serve:serve",
    "demo": "hermes.cli.serve:demo",
    "doctor": "hermes.cli.doctor:doctor",
    "config": "hermes.cli.config:config",
    "keys": "hermes.cli.keys:keys",
    "pins": "hermes.cli.pins:pins",
    "budgets": "hermes.cli.budgets:budgets",
    "knowledge": "hermes.cli.knowledge:knowledge",
    "usage": "hermes.cli.usage:usage",
    "traces": "hermes.cli.traces:traces",
    "surrogate": "hermes.cli.surrogate:surrogate",
    "shadow": "hermes.cli.shadow:shadow",
    "replay": "hermes.cli.replay:replay",
    "reload": "hermes.cli.reload:reload",
}
"""Where each command is; only the one that is called is imported, since a command line must not make people wait."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and (close := get_close_matches(args[0], COMMANDS, n=1)):
            ctx.fail(f"There is no command {args[0]!r}. Did you mean {close[0]}?")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="hermes")
def hermes() -> None:
    """Hermes, a self-hosted AI gateway and LLM router.

    The first steps: `serve` answers at once, with a demo provider while there is no configuration; `config check` and
    `doctor` say what is still wrong with your own. The configuration is the file of HERMES_CONFIG, or
    ./router_config.yaml.

    Every command ends with 0 when it has done what it should, with 1 when not, and with 2 when it could not begin:
    wrong words here, or an environment that does not fit.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code."""
    try:
        code = hermes.main(arguments, prog_name="python -m hermes", standalone_mode=False)
    except ConfigurationInvalid as invalid:
        return _said(1, *invalid.lines())
    except StartRefused as refused:
        return _said(2, str(refused))
    except HermesError as refused:  # an invalid request is here one of the command line
        return _said(2 if isinstance(refused, InvalidRequest) else 1, str(refused))
    except click.ClickException as refused:
        refused.show()
        return refused.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _said(130, "Interrupted.")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at its end
        return 1
    except OSError as error:
        return _said(1, f"{error.filename or 'The system'}: {error.strerror or error}")
    except Exception as error:  # the edge: whatever it is, a user gets a sentence
        if os.environ.get("LOG_LEVEL", "").upper() == "DEBUG":
            raise
        return _unexpected(error)
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> int:
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("hermes"):
        return _said(2, without_requirements(error))
    return _said(1, f"This should not happen: {type(error).__name__}: {error} (LOG_LEVEL=DEBUG shows where)")


def _said(code: int, *sentences: str) -> int:
    for sentence in sentences:
        click.echo(sentence, err=True)
    return code
