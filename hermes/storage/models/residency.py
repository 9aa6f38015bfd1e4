"""What residency rules did."""

from __future__ import annotations

from peewee import BigAutoField, BigIntegerField, CompositeKey, Model, TextField

from hermes.storage.models.binding import proxy


class ResidencyHourRow(Model):
    """What residency rules did in an hour; see `storage/residency.py` for the subjects."""

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
