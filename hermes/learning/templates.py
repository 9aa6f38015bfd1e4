"""Training prompts of our own, expanded from the pattern files in `data/templates/`.

A file holds slots, sections and patterns, one a line:

    # a comment
    @country = Peru | Iceland          a slot and what may stand for it
    [simple x2] trivia                 a section: the tier, and how many prompts each pattern gives at most
    What is the capital of {country}?  a pattern; `\\n` is a new line, a brace that names no slot is text

All prompts of one pattern are a family: cross-validation keeps a family on one side, so that no fold is asked what it
was told in nearly the same words. The choice is random but always the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hermes.types import TIERS, Tier

FOLDER = Path(__file__).resolve().parent / "data" / "templates"
SOURCE = "hermes-templates"
LICENSE = "ours"
TRIES = 20
"""So many draws for each prompt that is wanted; a pattern with few combinations gives fewer prompts."""

_SECTION = re.compile(r"\[(\w+) x(\d+)\] (.+)")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt to train on."""

    text: str
    tier: Tier
    source: str
    license: str
    family: str
    """What it shares with its variations; the text itself where it has none."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a section."""

    text: str
    tier: Tier
    most: int
    section: str


class TemplateInvalid(ValueError):
    """A pattern file that cannot be read; the text names file and line."""


def generate(folder: Path = FOLDER, seed: int = 1) -> list[Prompt]:
    """Every file's patterns, expanded; the same list each time.

    Raises:
        TemplateInvalid: a line is neither slot, section nor pattern.
    """
    prompts: dict[str, Prompt] = {}
    for path in sorted(folder.glob("*.txt")):
        slots, patterns = parse(path)
        for pattern in patterns:
            chance = random.Random(f"{seed} {path.stem} {pattern.text}")  # noqa: S311 (nothing secret)
            for text in _expand(pattern, slots, chance):
                source = f"{SOURCE}/{path.stem}/{pattern.section}"
                prompts.setdefault(text, Prompt(text, pattern.tier, source, LICENSE, f"{path.stem}:{pattern.text}"))
    return list(prompts.values())


def parse(path: Path) -> tuple[Mapping[str, list[str]], list[Pattern]]:
    """The slots and the patterns of a file."""
    slots: dict[str, list[str]] = {}
    patterns: list[Pattern] = []
    section: tuple[Tier, int, str] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("# "):
            continue
        if line.startswith("@"):
            name, _, values = line[1:].partition(" = ")
            slots[name] = [_text(value) for value in values.split(" | ")]
        elif line.startswith("[") and (head := _SECTION.fullmatch(line)):
            if head[1] not in TIERS:
                raise TemplateInvalid(f"{path.name}:{number}: {head[1]} is no tier")
            section = cast(Tier, head[1]), int(head[2]), head[3]
        elif section is None:
            raise TemplateInvalid(f"{path.name}:{number}: a pattern before the first section")
        else:
            patterns.append(Pattern(_text(line), *section))
    return slots, patterns


def _expand(pattern: Pattern, slots: Mapping[str, list[str]], chance: random.Random) -> Iterator[str]:
    """Up to `most` different prompts."""
    found: set[str] = set()
    for _ in range(pattern.most * TRIES):
        if len(found) == pattern.most:
            return
        text = _SLOT.sub(lambda hit: chance.choice(slots[hit[1]]) if hit[1] in slots else hit[0], pattern.text)
        if text not in found:
            found.add(text)
            yield text


def _text(line: str) -> str:
    return line.replace("\\n", "\n")
