"""The tables as they are now; `migrations/` is how they came to be, and a test holds the two together.

`created_at` and the other times are text: ISO 8601, UTC, always with milliseconds and `Z`, so always 24 characters.
That is the one form which SQLite (it has no time type) and Postgres store, sort and compare alike, which stands in the
spool and the API as it is, and which an index serves for ranges. In each place stands the same kind of character, so no
collation sorts it differently.

The models are bound to whichever database was opened last (see `db.Database.open`), which lets tests open one after the
other.
"""

from __future__ import annotations

from peewee import (
    BigAutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CompositeKey,
    DatabaseProxy,
    DecimalField,
    DoubleField,
    IntegerField,
    Model,
    PostgresqlDatabase,
    TextField,
)

proxy = DatabaseProxy()


def is_on_postgres() -> bool:
    """Whether the database that was opened last is Postgres; else it is SQLite."""
    return isinstance(proxy.obj, PostgresqlDatabase)


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


class ConfigRow(Model):
    """One value that operators change while Hermes runs: a pin, the kill switch."""

    key = TextField(primary_key=True)
    value = TextField()
    updated_at = TextField()
    updated_by = TextField()

    class Meta:
        database = proxy
        table_name = "hermes_config"


class AuditRow(Model):
    """One change that a person or a script has made."""

    id = BigAutoField()
    at = TextField(index=True)
    actor = TextField()
    action = TextField()
    target = TextField()
    before = TextField(null=True)
    after = TextField(null=True)

    class Meta:
        database = proxy
        table_name = "audit_log"


class ApiKeyRow(Model):
    """One API key, without the key. Lists and limits are JSON."""

    id = TextField(primary_key=True)
    name = TextField()
    digest = TextField(unique=True)
    """HMAC of the key, in hex."""

    prefix = TextField()
    """The key's beginning, for people to recognise it."""

    scopes = TextField()
    roles = TextField(null=True)
    limits = TextField(null=True)
    created_at = TextField()
    created_by = TextField()
    expires_at = TextField(null=True)
    revoked_at = TextField(null=True)
    last_used_at = TextField(null=True)

    class Meta:
        database = proxy
        table_name = "hermes_api_keys"


class BudgetRow(Model):
    """How much may be used in a calendar period; one for each scope, id and period."""

    id = BigAutoField()
    scope = TextField()
    scope_id = TextField()
    """Whose; `*` for each one by itself, empty for the global scope."""

    period = TextField()
    unit = TextField()
    limit_value = BigIntegerField()
    """In nano-USD, tokens or requests, as the unit says."""

    warn_share = DoubleField()
    action = TextField()
    created_at = TextField()
    updated_at = TextField()

    class Meta:
        database = proxy
        table_name = "ai_usage_budgets"
        indexes = ((("scope", "scope_id", "period"), True),)


class ProfileHintRow(Model):
    """A summary of the persona files, under the digest of the text that it was made of."""

    digest = TextField(primary_key=True)
    hint = TextField()
    created_at = TextField()

    class Meta:
        database = proxy
        table_name = "profile_hints"


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


class WriterRow(Model):
    """How many rows one process has appended that were stored, ever."""

    writer = TextField(primary_key=True)
    stored = BigIntegerField()
    stored_at = TextField()
    """When the last one was."""

    class Meta:
        database = proxy
        table_name = "usage_writers"


class SurrogateAuditRow(Model):
    """What the teacher said of one text that the surrogate had decided."""

    id = BigAutoField()
    created_at = TextField(index=True)
    request_id = TextField()
    surrogate = TextField()
    """The version of the surrogate that decided."""

    caller = TextField(null=True)
    """The API key's id; None: anonymous."""

    surrogate_tier = TextField()
    teacher_tier = TextField()
    confidence = DoubleField()
    rate = DoubleField()
    """The share of accepted traffic that was put to the teacher then, 0..1."""

    text = TextField(null=True)
    """Only where prompts are stored in full."""

    class Meta:
        database = proxy
        table_name = "surrogate_audits"
        indexes = ((("surrogate", "id"), False),)


class ResidencyHourRow(Model):
    """What residency rules did in an hour; see `residency.py` for the subjects."""

    hour = TextField()
    subject = TextField()
    name = TextField()
    requests = BigIntegerField()
    items = BigIntegerField()

    class Meta:
        database = proxy
        table_name = "residency_hours"
        primary_key = CompositeKey("hour", "subject", "name")


class ResidencyHitRow(Model):
    """A request that residency rules masked or blocked."""

    id = BigAutoField()
    created_at = TextField(index=True)
    request_id = TextField(index=True)
    action = TextField()
    """`masked` or `blocked`."""

    found = TextField()
    """JSON: how often each kind of personal data was in it."""

    class Meta:
        database = proxy
        table_name = "residency_hits"


class DocumentRow(Model):
    """A document of the operator's, or one that is just being read."""

    id = BigAutoField()
    use_case = TextField()
    entity = TextField()
    """Empty: it is about the whole use case."""

    source = TextField()
    format = TextField()
    digest = TextField()
    """SHA-256 of what was sent, in hex."""

    state = TextField()
    """`indexing`, `ready`, `failed`."""

    note = TextField()
    """Why it failed."""

    chunks = IntegerField()
    done = IntegerField()
    """How many of them have a vector."""

    chars = BigIntegerField()
    embedder = TextField()
    embedder_sha = TextField()
    created_at = TextField()
    updated_at = TextField()
    created_by = TextField()

    class Meta:
        database = proxy
        table_name = "hermes_documents"
        indexes = ((("use_case", "entity", "source"), False),)


class EmbeddingRow(Model):
    """One passage of a document, with its vector."""

    id = BigAutoField()
    document_id = BigIntegerField()
    use_case = TextField()
    entity = TextField()
    source = TextField()
    number = IntegerField()
    """Of the passage in its document, from 1."""

    heading = TextField()
    text = TextField()
    vector = BlobField()
    """float32, little-endian, of length 1."""

    embedder = TextField()
    embedder_sha = TextField()
    created_at = TextField()

    class Meta:
        database = proxy
        table_name = "hermes_embeddings"
        indexes = ((("document_id", "number"), True), (("use_case", "entity"), False))


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


MODELS = (
    UsageRow, ConfigRow, AuditRow, ApiKeyRow, BudgetRow, ProfileHintRow,
    HourRow, DayRow, DoneRow, LateRow, NameRow, LatencyRow, MinuteRow, BackfillRow, WriterRow,
    SurrogateAuditRow, ResidencyHourRow, ResidencyHitRow, DocumentRow, EmbeddingRow, ShadowRunRow, ShadowReplyRow,
)  # fmt: skip
