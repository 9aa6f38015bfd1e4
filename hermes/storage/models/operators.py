"""What operators set while Hermes runs, and the trail of who did."""

from __future__ import annotations

from peewee import BigAutoField, BigIntegerField, DoubleField, Model, TextField

from hermes.storage.models.binding import proxy


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


class EndedSessionRow(Model):
    """A session of the dashboard that was signed out of."""

    name = TextField(primary_key=True)
    ended_at = TextField()

    class Meta:
        database = proxy
        table_name = "ended_sessions"
