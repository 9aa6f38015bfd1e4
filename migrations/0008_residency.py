"""What residency rules did, summed by the hour, and which requests they masked or blocked."""

from __future__ import annotations

from typing import Any

from peewee import BigAutoField, BigIntegerField, CompositeKey, Model, TextField


def up(migrator: Any, db: Any) -> None:
    """Creates the tables with their indexes."""

    class ResidencyHourRow(Model):
        hour = TextField()
        subject = TextField()
        name = TextField()
        requests = BigIntegerField()
        items = BigIntegerField()

        class Meta:
            database = db
            table_name = "residency_hours"
            primary_key = CompositeKey("hour", "subject", "name")

    class ResidencyHitRow(Model):
        id = BigAutoField()
        created_at = TextField(index=True)
        request_id = TextField(index=True)
        action = TextField()
        found = TextField()

        class Meta:
            database = db
            table_name = "residency_hits"

    db.create_tables([ResidencyHourRow, ResidencyHitRow])


def down(migrator: Any, db: Any) -> None:
    """Removes them."""
    db.execute_sql("DROP TABLE residency_hits")
    db.execute_sql("DROP TABLE residency_hours")
