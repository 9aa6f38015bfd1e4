"""What the teacher says of texts that the surrogate has decided, so that its live agreement is measured."""

from __future__ import annotations

from typing import Any

from peewee import BigAutoField, DoubleField, Model, TextField


def up(migrator: Any, db: Any) -> None:
    """Creates the table with its indexes."""

    class SurrogateAuditRow(Model):
        id = BigAutoField()
        created_at = TextField(index=True)
        request_id = TextField()
        surrogate = TextField()
        caller = TextField(null=True)
        surrogate_tier = TextField()
        teacher_tier = TextField()
        confidence = DoubleField()
        rate = DoubleField()
        text = TextField(null=True)

        class Meta:
            database = db
            table_name = "surrogate_audits"
            indexes = ((("surrogate", "id"), False),)

    db.create_tables([SurrogateAuditRow])


def down(migrator: Any, db: Any) -> None:
    """Removes it."""
    db.execute_sql("DROP TABLE surrogate_audits")
