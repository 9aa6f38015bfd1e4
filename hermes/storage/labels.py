"""What the database knows of the teacher's verdicts: requests that it decided, and audits of the surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from peewee import JOIN

from hermes.storage.db import Database
from hermes.storage.models.routing import SurrogateAuditRow
from hermes.storage.models.usage import UsageRow
from hermes.types import TIERS

ROUTED: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Audit:
    """One text that the surrogate has decided, and what the teacher says of it."""

    created_at: str
    """ISO 8601, UTC, milliseconds, `Z`."""

    request_id: str
    surrogate: str
    caller: str | None
    surrogate_tier: str
    teacher_tier: str
    confidence: float
    rate: float
    text: str | None = None
    id: int = 0
    """Of its row; 0: it is not stored yet."""

    @property
    def agrees(self) -> bool:
        """Whether both say the same."""
        return self.surrogate_tier == self.teacher_tier


@dataclass(frozen=True, slots=True)
class Taught:
    """One text with the teacher's verdict."""

    created_at: str
    text: str
    tier: str
    rate: float = 1.0
    """The share of its kind of traffic that comes with a verdict, 0..1."""

    conversation: str = ""
    """The session's key; empty: not known."""


AUDIT_COLUMNS: Final = tuple(name for name in SurrogateAuditRow._meta.sorted_field_names if name != "text")


class LabelRepository:
    """Reads what the teacher has said, and keeps audits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, audit: Audit) -> None:
        """Stores an audit."""
        self._database.write(_add, audit)

    def audits(self, surrogate: str, after: int = 0, limit: int = 5000) -> list[Audit]:
        """The last audits of a version whose ids are above `after`, the oldest first, without their texts."""
        return self._database.report(_audits, surrogate, after, limit)

    def taught(self, limit: int) -> list[Taught]:
        """The last texts that came to the teacher, audits included, the newest first."""
        found = [*self._database.read(_decided, limit), *self._database.read(_audited, limit)]
        return sorted(found, key=lambda one: one.created_at, reverse=True)[:limit]


def _add(audit: Audit) -> None:
    names = (name for name in SurrogateAuditRow._meta.sorted_field_names if name != "id")
    SurrogateAuditRow.insert({name: _clean(getattr(audit, name)) for name in names}).execute()


def _clean(value: Any) -> Any:
    """Without what Postgres refuses: NUL characters, and halves of surrogate pairs."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _audits(surrogate: str, after: int, limit: int) -> list[Audit]:
    row: Any = SurrogateAuditRow
    columns = (getattr(row, name) for name in AUDIT_COLUMNS)
    query = row.select(*columns).where(row.surrogate == surrogate, row.id > after)
    newest = query.order_by(row.id.desc()).limit(limit)
    found = [Audit(**dict(zip(AUDIT_COLUMNS, values, strict=True))) for values in newest.tuples()]
    return found[::-1]


def _decided(limit: int) -> list[Taught]:
    row: Any = UsageRow
    query = (
        row.select(row.created_at, row.prompt_preview, row.tier, row.session_key)
        .where(row.decision == "teacher", row.route == ROUTED, row.prompt_preview.is_null(False), row.tier.in_(TIERS))
        .order_by(row.created_at.desc())
        .limit(limit)
    )
    return [Taught(at, text, tier, 1.0, session or "") for at, text, tier, session in query.tuples()]


def _audited(limit: int) -> list[Taught]:
    row: Any = SurrogateAuditRow
    query = (
        row.select(row.created_at, row.text, row.teacher_tier, row.rate, UsageRow.session_key)
        .join(UsageRow, JOIN.LEFT_OUTER, on=(UsageRow.request_id == row.request_id))
        .where(row.text.is_null(False), row.teacher_tier.in_(TIERS))
        .order_by(row.id.desc())
        .limit(limit)
    )
    return [Taught(at, text, tier, rate, session or "") for at, text, tier, rate, session in query.tuples()]
