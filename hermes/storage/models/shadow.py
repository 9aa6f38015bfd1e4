"""Trials of a target model, and both answers to each sampled request."""

from __future__ import annotations

from peewee import BigAutoField, BigIntegerField, BooleanField, DoubleField, IntegerField, Model, TextField

from hermes.storage.models.binding import proxy


class ShadowRunRow(Model):
    """One target against one pinned model for one role; see `hermes.trials.Run`."""

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
        database = proxy
        table_name = "shadow_runs"
        indexes = ((("role", "state", "id"), False),)


class ShadowReplyRow(Model):
    """One sampled request with both answers; see `hermes.trials.ShadowReply`."""

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
        database = proxy
        table_name = "shadow_replies"
        indexes = ((("run_id", "id"), False),)
