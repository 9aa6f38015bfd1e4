"""The commands in the documents do what is said: each block of shell is run beside a running server.

A block under `<!-- not run: reason -->` is not; its commands of Hermes are still looked up.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hermes.cli.main import hermes

from .gateway import ADMIN_KEY, ROOT, Gateway

PAGES = ["migration.md", "deployment.md", "incidents.md"]
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```sh\n(?P<text>.*?)```", re.DOTALL)
BLOCKS = [
    (page, match) for page in PAGES for match in BLOCK.finditer((ROOT / "docs" / page).read_text(encoding="utf-8"))
]
RUN = [
    pytest.param(match["text"], id=f"{page} {match['text'].splitlines()[0][:50]}")
    for page, match in BLOCKS
    if match["reason"] is None
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server that has served a little."""
    gateway = Gateway.start()
    gateway.chat()
    yield gateway
    gateway.stop()


@pytest.fixture
def shell(gateway: Gateway, tmp_path: Path) -> dict[str, str]:
    """The environment of an operator."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    address = f"http://127.0.0.1:{gateway.port}"
    return {**gateway.environment(), "PATH": path, "HERMES": address, "KEY": ADMIN_KEY}


@pytest.mark.parametrize("block", RUN)
def test_a_block_of_commands_does_its_work(gateway: Gateway, shell: dict[str, str], block: str) -> None:
    command = ["bash", "-euo", "pipefail", "-c", block]
    done = subprocess.run(
        command, cwd=gateway.folder, env=shell, capture_output=True, text=True, timeout=50, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert '"error"' not in done.stdout


def commands() -> Iterator[tuple[str, str]]:
    """Every call of Hermes's command line in any document, in a block or within a sentence."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for found in re.findall(r"python -m hermes ([a-z][^`\n|#]*)", text):
            yield page.name, found.strip()


@pytest.mark.parametrize(("page", "line"), [pytest.param(*found, id=" ".join(found)) for found in commands()])
def test_a_command_in_a_document_exists_with_its_options(page: str, line: str) -> None:
    command: click.Command = hermes
    context = click.Context(hermes)
    words = shlex.split(re.sub(r"\[([^\]]*)\]", r"\1", line).replace("…", ""), comments=True)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.get_command(context, words.pop(0))
        assert found is not None, f"{page}: there is no `python -m hermes {line}`"
        command = found

    known = {name for option in command.params if isinstance(option, click.Option) for name in option.opts}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= known | {"--help", "-h"}, f"{page}: {line}"
