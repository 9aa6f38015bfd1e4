"""What was found wrong or odd in a configuration file, each with its place, gathered so that all is told at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes.errors import ConfigurationInvalid, Problem

Path = tuple[str | int, ...]
"""Where a value stands: `("models", "simple", "endpoints", 0, "base_url")`."""

_KEY_WORD: Final = re.compile(r"[\w.-]{0,80}")

MAX_PROBLEMS: Final = 100
"""More than these help nobody; the rest is counted."""


def dotted(path: Sequence[str | int]) -> str:
    """
    >>> dotted(("models", "simple", "endpoints", 0, "base_url"))
    'models.simple.endpoints[0].base_url'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{_shown(part)}" for part in path).removeprefix(".")


def _shown(key: str) -> str:
    """A key as it may stand in a log: by a slip, a line break, a URL with a password or a megabyte can stand here."""
    word = _KEY_WORD.match(key)
    told = word[0] if word else ""
    return told if told == key else f"{told}…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant.

    >>> nearest("circuit_braker", ["classifier", "circuit_breaker"])
    'circuit_breaker'
    """
    close = difflib.get_close_matches(word.lower()[:100], list(known), n=1, cutoff=0.6)
    return close[0] if close else None


@dataclass(slots=True)
class Findings:
    """Problems and warnings of one file."""

    file: str
    lines: Mapping[Path, int]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    """Places already reported and cut out of what is read on."""

    misspelt: set[Path] = field(default_factory=set)
    """Keys that are missing because they are there under a wrong name, which is reported."""

    def problem(self, path: Path, message: str) -> None:
        """The file must not be used because of this."""
        self.problems.append(Problem(dotted(path), self.line(path), message))

    def warn(self, path: Path, message: str) -> None:
        """The file can be used; the operator should know this."""
        line = self.line(path)
        sentence = (
            f"{self.file}:{line}: {dotted(path)}: {message}" if line else f"{self.file}: {dotted(path)}: {message}"
        )
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def line(self, path: Path) -> int | None:
        """1-based line of the key, or of the nearest key above it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def is_cut(self, path: Path) -> bool:
        """Whether the place, or one that contains it, is reported already."""
        return any(path[: i + 1] in self.broken for i in range(len(path)))

    def is_broken(self, path: Path) -> bool:
        """Whether it is known already why nothing is here; that it is missing is not worth a second sentence."""
        return any(path[: i + 1] in self.misspelt for i in range(len(path))) or self.is_cut(path)

    def raise_if_any(self) -> None:
        """
        Raises:
            ConfigurationInvalid: there is at least one problem; in the order of the file.
        """
        if not self.problems:
            return
        told = sorted(self.problems, key=lambda problem: problem.line or 0)
        left = len(told) - MAX_PROBLEMS
        if left > 0:
            told = [*told[:MAX_PROBLEMS], Problem("", None, f"and {left} more problems")]
        raise ConfigurationInvalid(self.file, told, self.warnings)
