"""Rows to train on: read from a file, joined with our templates, without those that resemble an evaluation prompt."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hermes.learning.templates import Prompt

TOO_NEAR = 0.6
"""Jaccard similarity of 4-grams from which two prompts count as the same."""

OURS = "ours_"
"""Sources of rows that were made of templates before, which stand in the file without their pattern."""

_SPACES = re.compile(r"\s+")


def read_rows(path: Path) -> list[Prompt]:
    """The rows of a JSON Lines file, gzip or plain: prompt and label; source and license where it has them.

    Raises:
        ValueError, KeyError: a line is no such row.
    """
    content = path.read_bytes()
    unpacked = gzip.decompress(content) if path.suffix == ".gz" else content
    return [_row(json.loads(line)) for line in unpacked.splitlines() if line.strip()]


def distinct(rows: Iterable[Prompt]) -> list[Prompt]:
    """Each text once; the first row that has it stays."""
    first: dict[str, Prompt] = {}
    for row in rows:
        first.setdefault(row.text, row)
    return list(first.values())


def without_near(rows: Sequence[Prompt], others: Iterable[str]) -> list[Prompt]:
    """The rows that are nearly identical to none of the other texts."""
    grams = [four_grams(text) for text in others]
    return [row for row in rows if not _is_near(four_grams(row.text), grams)]


def weights(rows: Sequence[Prompt]) -> NDArray[np.float64]:
    """How much each row counts: both tiers the same, and within a tier each source as the root of its size.

    So 1,600 rows of one kind do not drown out 20 of another.
    """
    sizes = Counter((row.source, row.tier) for row in rows)
    weight = np.array([sizes[row.source, row.tier] ** -0.5 for row in rows])
    is_complex = np.array([row.tier == "complex" for row in rows])
    for tier in (is_complex, ~is_complex):
        weight[tier] *= len(rows) / 2 / weight[tier].sum()
    return weight


def four_grams(text: str) -> set[str]:
    """All runs of four characters, in lower case, spaces folded."""
    folded = _SPACES.sub(" ", text.lower())
    return {folded[at : at + 4] for at in range(len(folded) - 3)}


def _is_near(grams: set[str], others: Iterable[set[str]]) -> bool:
    return any(len(grams & other) > TOO_NEAR * len(grams | other) for other in others)


def _row(fields: dict[str, Any]) -> Prompt:
    text, tier, source = fields["prompt"], fields["label"], fields.get("source", "")
    if tier not in ("simple", "complex"):
        raise ValueError(f"label: {tier} is no tier")
    return Prompt(
        text, "complex" if tier == "complex" else "simple", source, fields.get("license", ""), _family(text, source)
    )


def _family(text: str, source: str) -> str:
    """Template rows that begin alike are variations of one pattern; any other row stands alone."""
    if not source.startswith(OURS):
        return text
    opening = " ".join(text.lower().split()[:2])
    return f"{source}:{opening if len(text.split()) > 1 else text[:2]}"
