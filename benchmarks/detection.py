"""How well personal data is found: precision and recall on a labelled set, and the time for two kilobytes.

    python benchmarks/detection.py [--show]

The set is `benchmarks/data/personal_data.txt`: texts of some forty countries, and look-alikes. Found counts what is of
the right kind and overlaps the label by more than half of either; the exact span is counted beside it.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hermes.admission.personal_data import KINDS, Found, find  # noqa: E402

SET = Path(__file__).resolve().parent / "data" / "personal_data.txt"
LABEL = re.compile("‹([a-z_]+):([^›]*)›")
TEXT_BYTES = 2048
ROUNDS = 50


class Labelled(NamedTuple):
    """A text and what is in it."""

    country: str
    text: str
    labels: list[Found]


def read_set(path: Path = SET) -> list[Labelled]:
    """The labelled texts, their marks taken out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        country, _, marked = line.partition(" | ")
        text, labels, at = "", [], 0
        for mark in LABEL.finditer(marked):
            text += marked[at : mark.start()]
            labels.append(Found(mark[1], len(text), len(text) + len(mark[2])))
            text += mark[2]
            at = mark.end()
        found.append(Labelled(country, text + marked[at:], labels))
    return found


def matches(one: Found, other: Found) -> bool:
    """Whether both mean the same."""
    common = min(one.end, other.end) - max(one.start, other.start)
    return one.kind == other.kind and common * 2 > max(one.end - one.start, other.end - other.start)


def main() -> int:
    """Prints the figures; 1 where one is not what the documentation promises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="every miss and every false alarm")
    shows = parser.parse_args().show
    labelled = read_set()
    right, wanted, given, exact = Counter[str](), Counter[str](), Counter[str](), 0
    for country, text, labels in labelled:
        found = find(text)
        wanted.update(label.kind for label in labels)
        given.update(one.kind for one in found)
        hits = [label for label in labels if any(matches(label, one) for one in found)]
        right.update(label.kind for label in hits)
        exact += sum(label in found for label in labels)
        if shows:
            missed = [text[label.start : label.end] for label in labels if label not in hits]
            false = [(f.kind, text[f.start : f.end]) for f in found if not any(matches(f, label) for label in labels)]
            for what, which in (("missed", missed), ("false", false)):
                if which:
                    print(f"{what:<7} {country} {which}  in: {text}")
    print(f"{len(labelled)} texts, {wanted.total()} labels, {exact} of them found to the letter")
    print(f"{'kind':<12} {'labels':>6} {'found':>6} {'right':>6} {'precision':>10} {'recall':>7}")
    for kind in (*KINDS, "all"):
        numbers = [counter.total() if kind == "all" else counter[kind] for counter in (wanted, given, right)]
        precision, recall = numbers[2] / max(1, numbers[1]), numbers[2] / max(1, numbers[0])
        print(f"{kind:<12} {numbers[0]:>6} {numbers[1]:>6} {numbers[2]:>6} {precision:>10.1%} {recall:>7.1%}")
    slowest = time_it(labelled)
    return 0 if slowest < 5 else 1


def time_it(labelled: list[Labelled]) -> float:
    """The slowest median of three kinds of text, in milliseconds."""
    everything = " ".join(one.text for one in labelled if one.labels)
    looks_like = " ".join(one.text for one in labelled if not one.labels)
    texts = {
        "full of personal data": everything.encode()[:TEXT_BYTES].decode("utf-8", "ignore"),
        "look-alikes": looks_like.encode()[:TEXT_BYTES].decode("utf-8", "ignore"),
        "prose": ("the quick brown fox jumps over the lazy dog and " * 60)[:TEXT_BYTES],
    }
    slowest = 0.0
    for name, text in texts.items():
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            find(text)
            times.append((time.perf_counter() - began) * 1000)
        slowest = max(slowest, statistics.median(times))
        print(f"2 KB of {name}: median {statistics.median(times):.3f} ms, worst {max(times):.3f} ms")
    return slowest


if __name__ == "__main__":
    sys.exit(main())
