"""Keeps the summaries of persona files, so that each text is put to the teacher once."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from hermes.storage.db import Database
from hermes.storage.models.routing import ProfileHintRow
from hermes.storage.usage_filter import utc_text


class HintRepository:
    """Summaries by the digest of their text."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def recall(self, digest: str) -> str | None:
        """The summary, or None where there is none yet."""
        return self._database.read(_recall, digest)

    def remember(self, digest: str, hint: str) -> None:
        """Keeps a summary; the first one stays."""
        self._database.write(_remember, digest, hint, utc_text(datetime.fromtimestamp(self._clock(), UTC)))


def _recall(digest: str) -> str | None:
    row = ProfileHintRow.get_or_none(ProfileHintRow.digest == digest)
    return None if row is None else str(row.hint)


def _remember(digest: str, hint: str, created_at: str) -> None:
    ProfileHintRow.insert(digest=digest, hint=hint, created_at=created_at).on_conflict_ignore().execute()
