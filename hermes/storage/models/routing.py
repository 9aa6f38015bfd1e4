"""What the router learns from: the teacher's word on decided texts, and the summary of the persona files."""

from __future__ import annotations

from peewee import BigAutoField, DoubleField, Model, TextField

from hermes.storage.models.binding import proxy


class ProfileHintRow(Model):
    """A summary of the persona files, under the digest of the text that it was made of."""

    digest = TextField(primary_key=True)
    hint = TextField()
    created_at = TextField()

    class Meta:
        database = proxy
        table_name = "profile_hints"


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
