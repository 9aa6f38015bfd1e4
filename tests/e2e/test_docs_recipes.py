"""The recipes for an organisation's functions run as they stand in docs/clients.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import npm, replies
from .aiclients import CLIENTS, RUNTIMES, deno
from .gateway import ROOT
from .world import World

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


def recipe(language: str) -> str:
    """The block that uses the shipped client."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (found,) = [block for block in blocks if "aiClient" in block or "hermes_client" in block]
    return str(found)


@pytest.fixture
def environment(world: World) -> dict[str, str]:
    """What a function finds, with a key of its own."""
    made = world.gateway.admin("POST", "/admin/keys", {"name": "functions", "scopes": ["gateway"]}).json
    stream, whole = replies.stream("a ", "summary").only(has="stream"), replies.chat("a summary")
    world.primary.script(stream, whole.but(times=99))
    return {"HERMES_URL": f"http://127.0.0.1:{world.gateway.port}", "HERMES_SERVICE_KEY": made["key"]}


@pytest.fixture
def python_path(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> Iterator[None]:
    """The client can be imported, and finds its environment."""
    monkeypatch.syspath_prepend(str(CLIENTS))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return


@pytest.mark.usefixtures("python_path")
@pytest.mark.parametrize("is_away", [False, True], ids=["through Hermes", "around it"])
def test_the_recipe_for_python(world: World, monkeypatch: pytest.MonkeyPatch, is_away: bool) -> None:
    shown: list[str] = []
    asked: list[Any] = []

    def create(**fields: Any) -> Any:
        asked.append(fields)
        message = SimpleNamespace(content="by itself")
        return SimpleNamespace(choices=[SimpleNamespace(message=message)], model=fields["model"])

    if is_away:
        monkeypatch.setenv("AI_GATEWAY_ENABLED", "false")
    completions = SimpleNamespace(completions=SimpleNamespace(create=create))
    names = {"provider": SimpleNamespace(chat=completions), "show": shown.append, "__name__": "recipe"}

    exec(compile(recipe("python"), "docs/clients.md", "exec"), names)

    assert names["answer"].content == ("by itself" if is_away else "a summary")  # type: ignore[attr-defined]
    assert "".join(shown) == ("by itself" if is_away else "a summary")
    assert [fields["model"] for fields in asked] == (["primary-model"] * 2 if is_away else [])


def test_the_recipe_for_typescript(environment: dict[str, str], tmp_path: Path) -> None:
    """In Deno, which checks its types as well."""
    npm.install(RUNTIMES)
    shutil.copy(CLIENTS / "aiClient.ts", tmp_path)
    before = 'const apiKey = "k";\nconst shown: string[] = [];\nconst show = (text: string) => shown.push(text);\n'
    after = "console.log(JSON.stringify({ content, model, shown }));\n"
    (tmp_path / "recipe.ts").write_text(before + recipe("ts") + after, encoding="utf-8")
    command = [*deno(), "run", "--check", "--allow-net=127.0.0.1", "--allow-env", "--no-prompt", "recipe.ts"]
    env = {"PATH": str(Path(npm.program("node")).parent), "HOME": str(tmp_path), "NO_COLOR": "1", **environment}

    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == '{"content":"a summary","model":"said-by-provider","shown":["a ","summary"]}\n'
