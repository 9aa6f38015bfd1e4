"""Does knowledge find what answers, how long does taking documents in last, and does a search hold anybody up?

    python benchmarks/knowledge.py                  everything; a quarter of an hour, most of it for 1,000 pages
    python benchmarks/knowledge.py --pages 50       less of that
    python benchmarks/knowledge.py --markdown       writes the table into docs/performance.md

Three questions. *Recall*: 40 questions in English and Arabic, 20 documents in either, written for this
(`data/knowledge`); half of the questions are asked in the other language than their document's. Found is a passage that
is among the first four. Beside it stands plain keyword search (BM25) and the model's vectors as they are, without their
languages taken away. *Taking in*: pages of 2,000 characters into a SQLite file, by the command's own code. *Search*: in
50,000 passages of 384 numbers, while a greenlet looks at the clock; how late its looks are is what a stream would have
noticed.
"""

from __future__ import annotations

import os

from gevent import monkey

monkey.patch_all()  # as in the server: what is measured is what its streams would notice
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as gunicorn.conf.py has it

import argparse  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import re  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hermes.embedding.centred import CentredE5  # noqa: E402
from hermes.embedding.models import MultilingualE5  # noqa: E402
from hermes.knowledge.chunking import Passage  # noqa: E402
from hermes.knowledge.index import joined  # noqa: E402
from hermes.knowledge.library import Library, named  # noqa: E402
from hermes.knowledge.reading import read_passages  # noqa: E402
from hermes.knowledge.shelf import Shelf  # noqa: E402
from hermes.knowledge.vectors import LocalModel  # noqa: E402
from hermes.native import make_logging_native  # noqa: E402
from hermes.storage.db import Database, migrate  # noqa: E402
from hermes.storage.knowledge import KnowledgeRepository  # noqa: E402

DATA = ROOT / "benchmarks" / "data" / "knowledge"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- knowledge:begin -->", "<!-- knowledge:end -->"
TOP = 4
PAGE_CHARS = 2000
CHUNKS, WIDTH, SEARCHES = 50_000, 384, 60
MOST_SEARCH_MS, MOST_STALL_MS = 20.0, 5.0
LEAST_RECALL = 0.8
K1, B = 1.2, 0.75

Rank = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    what: str
    seen: str
    holds: bool = True


def main() -> None:
    """Prints the table; ends with 1 where something does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    make_logging_native()
    taken_in = taking_in(options.pages)  # first: later this process would have had more memory already
    findings = [*recall(), *search(), *taken_in]
    table = "\n".join(["| what | seen |", "| --- | --- |", *(f"| {one.what} | {one.seen} |" for one in findings)])
    print(table)
    if options.markdown:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    sys.exit(not all(one.holds for one in findings))


# -- recall -----------------------------------------------------------------------------------------------


def recall() -> list[Finding]:
    """Of the questions, how many find their passage among the first four."""
    passages = [
        (path.name, passage)
        for path in sorted(DATA.glob("*.md"))
        for passage in read_passages(path.read_bytes(), "markdown")
    ]
    questions = [json.loads(line) for line in (DATA / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [passage.whole() for _, passage in passages]
    model = CentredE5()
    plain = MultilingualE5()
    ways: dict[str, Rank] = {
        "knowledge": by_vectors(texts, model.passage, model.query),
        "vectors with their languages": by_vectors(texts, plain.passage, plain.query),
        "keyword search": by_words(texts),
    }
    findings = []
    for name, rank in ways.items():
        hits: Counter[str] = Counter()
        of: Counter[str] = Counter()
        for question in questions:
            kind = f"{question['language']} to {question['document'].rsplit('.', 2)[1]}"
            of[kind] += 1
            hits[kind] += any(is_answer(passages[row], question) for row in rank(question["question"])[:TOP])
        share = hits.total() / of.total()
        each = ", ".join(f"{kind} {hits[kind]}/{of[kind]}" for kind in sorted(of))
        seen = f"{share:.3f} of {of.total()} questions ({each})"
        findings.append(
            Finding(
                f"recall at {TOP} of {len(texts)} passages: {name}", seen, name != "knowledge" or share >= LEAST_RECALL
            )
        )
    return findings


def is_answer(found: tuple[str, Passage], question: dict[str, str]) -> bool:
    """Whether a passage is the one that answers."""
    name, passage = found
    return name == question["document"] and passage.heading.endswith(question["section"])


def by_vectors(texts: Sequence[str], passage: Callable[[str], np.ndarray], query: Callable[[str], np.ndarray]) -> Rank:
    """Ranks by cosine."""
    matrix = np.array([passage(text) for text in texts])
    return lambda question: np.argsort(-(matrix @ query(question))).tolist()


def by_words(texts: Sequence[str]) -> Rank:
    """Ranks by BM25 over lower-case words; the article before an Arabic word is left out."""
    documents = [Counter(words_of(text)) for text in texts]
    lengths = [words.total() for words in documents]
    mean = sum(lengths) / len(lengths)
    spread = Counter(word for words in documents for word in words)

    def score(words: Counter[str], length: int, question: Sequence[str]) -> float:
        total = 0.0
        for word in question:
            rarity = math.log(1 + (len(documents) - spread[word] + 0.5) / (spread[word] + 0.5))
            total += rarity * words[word] * (K1 + 1) / (words[word] + K1 * (1 - B + B * length / mean))
        return total

    def rank(question: str) -> Sequence[int]:
        asked = words_of(question)
        scores = [score(words, length, asked) for words, length in zip(documents, lengths, strict=True)]
        found = [row for row in range(len(texts)) if scores[row] > 0]  # what shares no word is not found
        return sorted(found, key=lambda row: -scores[row])

    return rank


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return [re.sub("^ال", "", word) for word in re.findall(r"\w+", text.lower())]


# -- search -----------------------------------------------------------------------------------------------


def search() -> list[Finding]:
    """How long a search in 50,000 passages takes, and what it does to others."""
    chance = np.random.default_rng(1)
    parts = []
    for number in range(50):
        rows = chance.standard_normal((CHUNKS // 50, WIDTH)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        parts.append((number, np.arange(len(rows)) + number * len(rows), rows))
    index = joined(parts)
    everything = range(50)
    pool = gevent.get_hub().threadpool
    gaps: list[float] = []

    def watch() -> None:
        last = time.perf_counter()
        while True:
            gevent.sleep(0.001)
            now = time.perf_counter()
            gaps.append((now - last) * 1000 - 1)
            last = now

    watcher = gevent.spawn(watch)
    gevent.sleep(0.5)
    idle = sorted(gaps)
    gaps.clear()
    times = []
    for _ in range(SEARCHES):
        question = chance.standard_normal(WIDTH).astype(np.float32)
        began = time.perf_counter()
        pool.apply(index.nearest, (question, everything, TOP))
        times.append((time.perf_counter() - began) * 1000)
        gevent.sleep(0.005)
    watcher.kill()
    median, late = np.median(times), np.quantile(times, 0.95)
    stall, stall_idle = np.quantile(gaps, 0.99), idle[int(len(idle) * 0.99)]
    return [
        Finding(
            f"search in {CHUNKS:,} passages", f"{median:.1f} ms, 95 % within {late:.1f} ms", median < MOST_SEARCH_MS
        ),
        Finding(
            "what a stream notices of it",
            f"99 % of looks at the clock within {stall:.1f} ms, {stall_idle:.1f} ms without a search",
            stall < MOST_STALL_MS,
        ),
    ]


# -- taking in --------------------------------------------------------------------------------------------


def taking_in(pages: int) -> list[Finding]:
    """How long some pages take until they are found, and how much memory."""
    texts = [re.sub("(?m)^#.*\n", "", path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("*.md"))]
    chance = np.random.default_rng(2)
    folder = tempfile.TemporaryDirectory(prefix="hermes-knowledge-")
    url = f"sqlite:///{folder.name}/hermes.db"
    migrate(url, ROOT / "migrations")
    database = Database.open(url)
    repository = KnowledgeRepository(database)
    shelf, model = Shelf(repository), LocalModel()
    library = Library(repository, shelf, lambda: model)
    library.identity()
    before = memory_mb()
    began = time.monotonic()
    chunks = 0
    for number in range(-(-pages // 20)):
        wanted = min(20, pages - 20 * number)
        raw = "\n".join(a_page(texts, chance) for _ in range(wanted)).encode()
        chunks += library.add(raw, named("pages", None, f"{number}.md", raw), "benchmark").chunks
        print(f"  {20 * number + wanted} pages, {time.monotonic() - began:.0f} s", file=sys.stderr)
    took = time.monotonic() - began
    size_mb = (Path(folder.name) / "hermes.db").stat().st_size / 1e6
    more = memory_mb() - before
    database.close()
    folder.cleanup()
    return [
        Finding(
            f"taking in {pages:,} pages of {PAGE_CHARS:,} characters",
            f"{took:.0f} s for {chunks:,} passages ({took / max(chunks, 1) * 1000:.0f} ms each, one core); "
            f"{more:.0f} MB more memory at the most, {size_mb:.0f} MB of database",
        )
    ]


def a_page(texts: Sequence[str], chance: np.random.Generator) -> str:
    """A page's worth of text, in one language after the other."""
    page = ""
    while len(page) < PAGE_CHARS:
        page += texts[int(chance.integers(len(texts)))] + "\n"
    return page[:PAGE_CHARS]


def memory_mb() -> float:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
