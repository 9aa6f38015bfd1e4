"""Summaries of the persona files, each under the digest of the text that it was made of."""

from __future__ import annotations

from typing import Any

from peewee import Model, TextField


def up(migrator: Any, db: Any) -> None:
    """Creates the table."""

    class ProfileHintRow(Model):
        digest = TextField(primary_key=True)
        hint = TextField()
        created_at = TextField()

        class Meta:
            database = db
            table_name = "profile_hints"

    db.create_tables([ProfileHintRow])


def down(migrator: Any, db: Any) -> None:
    """Removes it."""
    db.execute_sql("DROP TABLE profile_hints")
