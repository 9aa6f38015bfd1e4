"""Every model, for whoever compares them with what the migrations made."""

from __future__ import annotations

from hermes.storage.models.knowledge import DocumentRow, EmbeddingRow
from hermes.storage.models.operators import ApiKeyRow, AuditRow, BudgetRow, ConfigRow, EndedSessionRow
from hermes.storage.models.residency import ResidencyHitRow, ResidencyHourRow
from hermes.storage.models.routing import ProfileHintRow, SurrogateAuditRow
from hermes.storage.models.shadow import ShadowReplyRow, ShadowRunRow
from hermes.storage.models.sums import BackfillRow, DayRow, DoneRow, HourRow, LatencyRow, LateRow, MinuteRow, NameRow
from hermes.storage.models.usage import UsageRow, WriterRow

MODELS = (
    UsageRow, ConfigRow, AuditRow, ApiKeyRow, BudgetRow, ProfileHintRow,
    HourRow, DayRow, DoneRow, LateRow, NameRow, LatencyRow, MinuteRow, BackfillRow, WriterRow,
    SurrogateAuditRow, ResidencyHourRow, ResidencyHitRow, DocumentRow, EmbeddingRow, ShadowRunRow, ShadowReplyRow,
    EndedSessionRow,
)  # fmt: skip
