"""The operator's documents and their passages, each with its vector."""

from __future__ import annotations

from typing import Any

from peewee import BigAutoField, BigIntegerField, BlobField, IntegerField, Model, TextField


def up(migrator: Any, db: Any) -> None:
    """Creates the tables with their indexes."""

    class DocumentRow(Model):
        id = BigAutoField()
        use_case = TextField()
        entity = TextField()
        source = TextField()
        format = TextField()
        digest = TextField()
        state = TextField()
        note = TextField()
        chunks = IntegerField()
        done = IntegerField()
        chars = BigIntegerField()
        embedder = TextField()
        embedder_sha = TextField()
        created_at = TextField()
        updated_at = TextField()
        created_by = TextField()

        class Meta:
            database = db
            table_name = "hermes_documents"
            indexes = ((("use_case", "entity", "source"), False),)

    class EmbeddingRow(Model):
        id = BigAutoField()
        document_id = BigIntegerField()
        use_case = TextField()
        entity = TextField()
        source = TextField()
        number = IntegerField()
        heading = TextField()
        text = TextField()
        vector = BlobField()
        embedder = TextField()
        embedder_sha = TextField()
        created_at = TextField()

        class Meta:
            database = db
            table_name = "hermes_embeddings"
            indexes = ((("document_id", "number"), True), (("use_case", "entity"), False))

    db.create_tables([DocumentRow, EmbeddingRow])


def down(migrator: Any, db: Any) -> None:
    """Removes them."""
    db.execute_sql("DROP TABLE hermes_embeddings")
    db.execute_sql("DROP TABLE hermes_documents")
