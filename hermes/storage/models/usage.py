"""What was asked: the usage rows, and how many each process has stored."""

from __future__ import annotations

from peewee import (
    BigAutoField,
    BigIntegerField,
    BooleanField,
    DecimalField,
    DoubleField,
    IntegerField,
    Model,
    TextField,
)

from hermes.storage.models.binding import proxy


class UsageRow(Model):
    """One completion or embedding request; the names and their order are the contract's."""

    id = BigAutoField()
    created_at = TextField()
    request_id = TextField(unique=True)
    function_name = TextField(null=True)
    use_case = TextField(null=True)
    user_id = TextField(null=True)
    key_id = TextField(null=True)
    session_key = TextField(null=True)
    route = TextField()
    role = TextField(null=True)
    tier = TextField(null=True)
    model = TextField(null=True)
    endpoint = TextField(null=True)
    decision = TextField(null=True)
    confidence = DoubleField(null=True)
    stream = BooleanField()
    prompt_tokens = BigIntegerField(null=True)
    completion_tokens = BigIntegerField(null=True)
    total_tokens = BigIntegerField(null=True)
    cached_tokens = BigIntegerField(null=True)
    reasoning_tokens = BigIntegerField(null=True)
    usage_estimated = BooleanField()
    estimated_cost_usd = DecimalField(max_digits=20, decimal_places=9, null=True)
    duration_ms = DoubleField(null=True)
    ttft_ms = DoubleField(null=True)
    overhead_ms = DoubleField(null=True)
    status = TextField()
    fallback_level = IntegerField(null=True)
    attempts = IntegerField()
    error_message = TextField(null=True)
    prompt_preview = TextField(null=True)
    details = TextField()
    """JSON: what the receipt shows beyond the columns."""

    class Meta:
        database = proxy
        table_name = "ai_usage_logs"
        indexes = (
            (
                (
                    "created_at",
                    "id",
                    "user_id",
                    "function_name",
                    "key_id",
                    "model",
                    "tier",
                    "status",
                    "decision",
                    "fallback_level",
                    "duration_ms",
                    "estimated_cost_usd",
                    "total_tokens",
                ),
                False,
            ),
            (("user_id", "created_at", "id", "function_name", "model", "tier", "status"), False),
            (("function_name", "created_at", "id", "model", "tier", "status"), False),
            (("model", "created_at", "id", "tier", "status"), False),
            (("tier", "created_at", "id"), False),
            (("status", "created_at", "id", "tier"), False),
            (("key_id", "created_at"), False),
            (("session_key",), False),
        )


class WriterRow(Model):
    """How many rows one process has appended that were stored, ever."""

    writer = TextField(primary_key=True)
    stored = BigIntegerField()
    stored_at = TextField()
    """When the last one was."""

    class Meta:
        database = proxy
        table_name = "usage_writers"
