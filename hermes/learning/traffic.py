"""Rows to train on from a Hermes's own traffic: what the teacher has said, from trace files and from the database.

Never the surrogate's own verdicts: it would learn to be as it is. Each text counts once, with what the teacher said of
it last. A text that was cut to a preview is no row: what is fitted on beginnings does not know whole messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes.errors import HermesError
from hermes.observe.tracefiles import Event, TraceFiles
from hermes.storage.labels import Taught
from hermes.types import TIERS, Tier

MOST_ROWS: Final = 20_000
"""The newest so many texts are read; older traffic says less of today's."""

PREVIEW_CHARS: Final = 120
"""Where `logging.store_prompts: preview` cuts."""

CUT_SHARE: Final = 0.02
"""When more texts than this are exactly as long as a preview, they are previews."""

LEAST_RATE: Final = 0.01
"""An audit counts for a hundred requests at most, so that none outweighs everything else."""

LEAST_DOUBTED: Final = 20
"""Before so many second verdicts nothing is concluded of a teacher."""

_SPACES = re.compile(r"\s+")


class TrafficUnusable(HermesError):
    """There is nothing to learn from; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """A text, and the tier that the teacher gives it."""

    text: str
    tier: Tier
    created_at: str
    weight: float = 1.0
    """For how many requests it stands."""

    conversation: str = ""
    """Empty: not known."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What there is to learn from, the newest first, and what was passed over on the way."""

    rows: tuple[Row, ...]
    seen: int = 0
    """Verdicts of the teacher that were read."""

    cut: int = 0
    """Texts that are previews."""

    repeated: int = 0
    """Verdicts on a text that came again."""

    contradicted: int = 0
    """Those of them that were not what the teacher had said before."""

    asked_again: int = 0
    """Verdicts that the teacher was asked for a second time, to see how far it agrees with itself."""

    changed: int = 0
    """Those of them where it said something else."""

    since: str = ""
    """What is older does not count; empty: everything does."""

    @property
    def doubted(self) -> tuple[int, int]:
        """How often the teacher judged a text again, and how often not as before. What it was asked again by chance
        tells best; where that is too little, what came again by itself must do.
        """
        if self.asked_again >= LEAST_DOUBTED:
            return self.asked_again, self.changed
        return self.repeated + self.asked_again, self.contradicted + self.changed

    @property
    def counts(self) -> dict[str, int]:
        """For manifests and sentences."""
        tiers: dict[str, int] = {tier: sum(row.tier == tier for row in self.rows) for tier in TIERS}
        names = ("seen", "cut", "repeated", "contradicted", "asked_again", "changed")
        return {"rows": len(self.rows), **tiers, **{name: getattr(self, name) for name in names}}

    @property
    def sha256(self) -> str:
        """Of all rows, so that a manifest says what it was fitted on."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(f"{row.tier}\t{len(row.text)}\t".encode() + row.text.encode("utf-8", "replace"))
        return digest.hexdigest()


def collected(taught: Iterable[Taught], most: int = MOST_ROWS, since: str = "") -> Traffic:
    """The rows of what the teacher said, the newest first.

    Args:
        since: what is not newer is passed over; as `created_at`.

    Raises:
        TrafficUnusable: the texts are previews.
    """
    rows: dict[str, Row] = {}
    seen = cut = repeated = contradicted = 0
    for one in sorted(taught, key=lambda one: one.created_at, reverse=True):
        if one.tier not in TIERS or not one.text.strip() or one.created_at <= since:
            continue
        seen += 1
        if len(one.text) == PREVIEW_CHARS:
            cut += 1
            continue
        known = rows.get(key := _key(one.text))
        if known is not None:
            repeated += 1
            contradicted += known.tier != one.tier
        elif len(rows) < most:
            weight = 1 / max(one.rate, LEAST_RATE)
            rows[key] = Row(one.text, one.tier, one.created_at, weight, one.conversation)
    if cut > CUT_SHARE * seen and cut > 1:
        raise TrafficUnusable(
            f"{cut} of {seen} texts were cut after {PREVIEW_CHARS} characters, which is not enough to learn from: set "
            "logging.store_prompts to full, and fit when there is new traffic."
        )
    return Traffic(tuple(rows.values()), seen, cut, repeated, contradicted, since=since)


def from_traces(folder: Path, most: int = MOST_ROWS) -> list[Taught]:
    """What trace files tell, the newest first.

    Blocks: about a second for 100 MB.
    """
    with TraceFiles(folder) as files:
        return [taught for event in reversed(files.last(most, _is_taught)) if (taught := _taught(event))]


def merged(traces: Sequence[Taught], rows: Sequence[Taught]) -> Iterator[Taught]:
    """Both, each request once: what stands in a trace and in a usage row is one verdict.

    A usage row is written when its request ends, so times differ; the text and the tier tell.
    """
    known = {(_key(one.text), one.tier) for one in rows}
    yield from rows
    yield from (one for one in traces if (_key(one.text), one.tier) not in known)


def _is_taught(event: Event) -> bool:
    return event.get("event") == "classify" and event.get("source") == "teacher"


def _taught(event: Event) -> Taught | None:
    at, text, tier = (event.get(name) for name in ("ts", "user_message_preview", "classifier_result"))
    if not (isinstance(at, str) and isinstance(text, str) and isinstance(tier, str) and at and text and tier):
        return None
    session = event.get("session_key")
    return Taught(at, text, tier, conversation=session if isinstance(session, str) else "")


def _key(text: str) -> str:
    """What makes two texts the same one."""
    return _SPACES.sub(" ", text).strip().casefold()
