"""What the usage rows come to, in hours, days and minutes, and how far they have been summed."""

from __future__ import annotations

from peewee import BigIntegerField, BooleanField, CompositeKey, IntegerField, Model, TextField

from hermes.storage.models.binding import proxy


class HourRow(Model):
    """What the usage rows of one hour come to, for each combination of what the server itself has named."""

    hour = TextField()
    """The first 13 characters of `created_at`."""

    tier = TextField()
    decision = TextField()
    model = TextField()
    endpoint = TextField()
    status = TextField()
    stream = BooleanField()
    requests = BigIntegerField()
    failed = BigIntegerField()
    refused = BigIntegerField()
    counted = BigIntegerField()
    """Rows with tokens."""

    unpriced = BigIntegerField()
    """Rows with tokens whose price is unknown."""

    total_tokens = BigIntegerField()
    nanousd = BigIntegerField()
    fallbacks = BigIntegerField()
    attempts = BigIntegerField()
    prompt_tokens = BigIntegerField()
    completion_tokens = BigIntegerField()
    cached_tokens = BigIntegerField()
    reasoning_tokens = BigIntegerField()

    class Meta:
        database = proxy
        table_name = "usage_hours"
        primary_key = CompositeKey("hour", "tier", "decision", "model", "endpoint", "status", "stream")


SUM_COLUMNS = (
    "requests", "failed", "refused", "counted", "unpriced", "total_tokens", "nanousd", "fallbacks", "attempts",
    "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens",
)  # fmt: skip
"""What is summed of an hour and of a day."""


class DayRow(Model):
    """The same of whole days, summed from their hours when they are over."""

    day = TextField()
    for _name in ("tier", "decision", "model", "endpoint", "status"):
        locals()[_name] = TextField()
    stream = BooleanField()
    for _name in SUM_COLUMNS:
        locals()[_name] = BigIntegerField()

    class Meta:
        database = proxy
        table_name = "usage_days"
        primary_key = CompositeKey("day", "tier", "decision", "model", "endpoint", "status", "stream")


class DoneRow(Model):
    """How far days have been summed; a single row."""

    id = IntegerField(primary_key=True)
    until = TextField()
    """Days before this one are, but for those of `LateRow`; empty: none is."""

    class Meta:
        database = proxy
        table_name = "usage_days_done"


class LateRow(Model):
    """A day that has had rows after it was over, and is to be summed again."""

    day = TextField(primary_key=True)

    class Meta:
        database = proxy
        table_name = "usage_days_late"


class NameRow(Model):
    """What one user, function or key has used in an hour or a day."""

    dimension = TextField()
    """`user`, `function`, `key`."""

    grain = TextField()
    """`hour`, `day`."""

    at = TextField()
    name = TextField()
    requests = BigIntegerField()
    failed = BigIntegerField()
    refused = BigIntegerField()
    counted = BigIntegerField()
    unpriced = BigIntegerField()
    total_tokens = BigIntegerField()
    nanousd = BigIntegerField()

    class Meta:
        database = proxy
        table_name = "usage_names"
        primary_key = CompositeKey("dimension", "grain", "at", "name")


LATENCY_BUCKETS = 33


class LatencyRow(Model):
    """How long the requests of an hour took: how many in each of the fixed buckets `b0` … `b32`."""

    hour = TextField()
    tier = TextField()
    model = TextField()
    metric = TextField()
    """`duration`, `ttft`, `overhead`."""

    for _number in range(LATENCY_BUCKETS):
        locals()[f"b{_number}"] = BigIntegerField()

    class Meta:
        database = proxy
        table_name = "usage_latency"
        primary_key = CompositeKey("hour", "tier", "model", "metric")


class MinuteRow(Model):
    """How many requests there were in a minute; of the last days only."""

    minute = TextField()
    tier = TextField()
    status = TextField()
    requests = BigIntegerField()

    class Meta:
        database = proxy
        table_name = "usage_minutes"
        primary_key = CompositeKey("minute", "tier", "status")


class BackfillRow(Model):
    """How far the rows that are older than the sums have been added to them; a single row."""

    id = IntegerField(primary_key=True)
    done_id = BigIntegerField()
    """Usage rows up to this number are in the sums."""

    until_id = BigIntegerField()
    """The last one that was there before; later ones are counted as they are stored."""

    class Meta:
        database = proxy
        table_name = "usage_backfill"
