"""The operator's documents and their passages."""

from __future__ import annotations

from peewee import BigAutoField, BigIntegerField, BlobField, IntegerField, Model, TextField

from hermes.storage.models.binding import proxy


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
