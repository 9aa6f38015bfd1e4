"""Answers of targets beside those of the pinned models, and the runs in which they are compared."""

from __future__ import annotations

from typing import Any

from peewee import BigAutoField, BigIntegerField, BooleanField, DoubleField, IntegerField, Model, TextField


def up(migrator: Any, db: Any) -> None:
    """Creates both tables with their indexes."""

    class ShadowRunRow(Model):
        id = BigAutoField()
        role = TextField()
        primary_model = TextField()
        target_model = TextField()
        kind = TextField()
        state = TextField()
        began_at = TextField()
        ended_at = TextField(null=True)
        ended_by = TextField(null=True)
        reason = TextField(null=True)
        former_pin = TextField(null=True)
        watches = BigIntegerField(null=True)
        looks = IntegerField()
        looked_id = BigIntegerField()

        class Meta:
            database = db
            table_name = "shadow_runs"
            indexes = ((("role", "state", "id"), False),)

    class ShadowReplyRow(Model):
        id = BigAutoField()
        created_at = TextField(index=True)
        request_id = TextField(unique=True)
        run_id = BigIntegerField()
        role = TextField()
        function_name = TextField(null=True)
        stream = BooleanField()
        prompt = TextField(null=True)
        primary_model = TextField()
        primary_endpoint = TextField()
        primary_answer = TextField(null=True)
        primary_latency_ms = DoubleField(null=True)
        primary_ttft_ms = DoubleField(null=True)
        primary_prompt_tokens = BigIntegerField(null=True)
        primary_completion_tokens = BigIntegerField(null=True)
        primary_nanousd = BigIntegerField(null=True)
        primary_error = TextField(null=True)
        target_model = TextField()
        target_endpoint = TextField()
        target_answer = TextField(null=True)
        target_latency_ms = DoubleField(null=True)
        target_ttft_ms = DoubleField(null=True)
        target_prompt_tokens = BigIntegerField(null=True)
        target_completion_tokens = BigIntegerField(null=True)
        target_nanousd = BigIntegerField(null=True)
        target_error = TextField(null=True)
        similarity = DoubleField(null=True)
        opinion = TextField(null=True)
        opinion_by = TextField(null=True)
        orders = TextField()
        reason = TextField(null=True)
        judge_error = TextField(null=True)
        judge_nanousd = BigIntegerField(null=True)
        person = TextField(null=True)
        person_by = TextField(null=True)

        class Meta:
            database = db
            table_name = "shadow_replies"
            indexes = ((("run_id", "id"), False),)

    db.create_tables([ShadowRunRow, ShadowReplyRow])


def down(migrator: Any, db: Any) -> None:
    """Removes both."""
    db.execute_sql("DROP TABLE shadow_replies")
    db.execute_sql("DROP TABLE shadow_runs")
