"""The recipes of docs/clients.md are the programs that have been driven through a running Hermes, word for word."""

from __future__ import annotations

import re

import pytest

from hermes.settings import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
COMPAT = ROOT / "clients" / "compat"
RECIPES = re.findall(r"<!-- (clients/compat/\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("script", "recipe"), [pytest.param(*recipe, id=recipe[0]) for recipe in RECIPES])
def test_a_recipe_is_part_of_its_script(script: str, recipe: str) -> None:
    whole = (ROOT / script).read_text(encoding="utf-8")

    assert [line for line in recipe.splitlines() if line not in whole] == []


def test_every_script_has_its_recipe_and_is_driven() -> None:
    helpers = {"run.py", "smollm.py", "smollm_server.mjs"}
    scripts = {path.name for path in COMPAT.iterdir() if path.is_file()} - helpers
    driven = set(re.findall(r'Program\(\s*"([\w.]+)"', (COMPAT / "run.py").read_text(encoding="utf-8")))

    assert {script.rpartition("/")[2] for script, _ in RECIPES} == scripts
    assert scripts | {"smollm.py"} == driven


@pytest.mark.parametrize("path", sorted(COMPAT.glob("*")), ids=lambda path: path.name)
def test_a_script_asks_the_address_of_all_papers(path: object) -> None:
    """The runner puts the address of its server in its place."""
    assert isinstance(path, type(ROOT))
    if path.is_file() and path.name != "smollm_server.mjs":
        assert "127.0.0.1:8766" in path.read_text(encoding="utf-8")


def test_what_was_seen_was_seen_with_the_versions_that_are_pinned() -> None:
    pinned = set(re.findall(r'"(\S+[=@][\d.]+)"', (COMPAT / "run.py").read_text(encoding="utf-8")))
    seen = PAGE.partition("<!-- compat:begin -->")[2].partition("<!-- compat:end -->")[0]

    assert pinned
    assert [package for package in pinned if package not in seen] == []
