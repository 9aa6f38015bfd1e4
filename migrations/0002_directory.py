"""API keys and budgets. Pins and the audit log have been there from the beginning."""

from __future__ import annotations

from typing import Any

from peewee import BigAutoField, BigIntegerField, DoubleField, Model, TextField


def up(migrator: Any, db: Any) -> None:
    """Creates the tables with their indexes."""

    class ApiKeyRow(Model):
        id = TextField(primary_key=True)
        name = TextField()
        digest = TextField(unique=True)
        prefix = TextField()
        scopes = TextField()
        roles = TextField(null=True)
        limits = TextField(null=True)
        created_at = TextField()
        created_by = TextField()
        expires_at = TextField(null=True)
        revoked_at = TextField(null=True)
        last_used_at = TextField(null=True)

        class Meta:
            database = db
            table_name = "hermes_api_keys"

    class BudgetRow(Model):
        id = BigAutoField()
        scope = TextField()
        scope_id = TextField()
        period = TextField()
        unit = TextField()
        limit_value = BigIntegerField()
        warn_share = DoubleField()
        action = TextField()
        created_at = TextField()
        updated_at = TextField()

        class Meta:
            database = db
            table_name = "ai_usage_budgets"
            indexes = ((("scope", "scope_id", "period"), True),)

    db.create_tables([ApiKeyRow, BudgetRow])


def down(migrator: Any, db: Any) -> None:
    """Drops them, with everything in them."""
    for table in ("ai_usage_budgets", "hermes_api_keys"):
        db.execute_sql(f"DROP TABLE {table}")
