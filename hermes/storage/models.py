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
    BooleanField,
    DatabaseProxy,
    DecimalField,
    DoubleField,
    IntegerField,
    Model,
    TextField,
)

proxy = DatabaseProxy()


class UsageRow(Model):
    """One completion or embedding request; the names and their order are the contract's."""

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
    """JSON: what the receipt shows beyond the columns."""

    class Meta:
        database = proxy
        table_name = "ai_usage_logs"
        indexes = (
            (("user_id", "created_at"), False),
            (("function_name", "created_at"), False),
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


MODELS = (UsageRow, ConfigRow, AuditRow, ApiKeyRow, BudgetRow, ProfileHintRow)
