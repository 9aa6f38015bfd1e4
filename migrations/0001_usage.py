"""The usage log, the operators' values and the record of their changes.

A migration keeps its own copy of the models as they were: `hermes/storage/models.py` goes on, this file does not. Class
names are unique among all migrations, because names of indexes come from them.
"""

from __future__ import annotations

from typing import Any

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


def up(migrator: Any, db: Any) -> None:
    """Creates the tables with their indexes."""

    class UsageRow(Model):
        id = BigAutoField()
        created_at = TextField(index=True)
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

        class Meta:
            database = db
            table_name = "ai_usage_logs"
            indexes = (
                (("user_id", "created_at"), False),
                (("function_name", "created_at"), False),
                (("session_key",), False),
            )

    class ConfigRow(Model):
        key = TextField(primary_key=True)
        value = TextField()
        updated_at = TextField()
        updated_by = TextField()

        class Meta:
            database = db
            table_name = "hermes_config"

    class AuditRow(Model):
        id = BigAutoField()
        at = TextField(index=True)
        actor = TextField()
        action = TextField()
        target = TextField()
        before = TextField(null=True)
        after = TextField(null=True)

        class Meta:
            database = db
            table_name = "audit_log"

    db.create_tables([UsageRow, ConfigRow, AuditRow])


def down(migrator: Any, db: Any) -> None:
    """Drops them, with everything in them."""
    for table in ("audit_log", "hermes_config", "ai_usage_logs"):
        db.execute_sql(f"DROP TABLE {table}")
