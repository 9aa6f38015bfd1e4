"""Postgres's extension `vector`: the database compares vectors itself, where the extension can be had.

The column is beside the one with the bytes, so that a database without the extension serves as well. The search is
exact: an approximate index would find other passages than the search in memory does. All of it runs inside
`Database.read` and `Database.write`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import orjson
from peewee import DatabaseError

from hermes.storage.models.binding import proxy
from hermes.storage.models.knowledge import EmbeddingRow

COLUMN: Final = "embedding"
FILLED_AT_ONCE: Final = 100


def prepare() -> bool:
    """Whether the database searches itself; the extension and the column are made where this user may."""
    if has_column():
        return True
    if not _rows("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return False
    try:
        with proxy.atomic():
            proxy.execute_sql("CREATE EXTENSION IF NOT EXISTS vector")
            proxy.execute_sql(f"ALTER TABLE hermes_embeddings ADD COLUMN IF NOT EXISTS {COLUMN} vector")
    except DatabaseError:  # this user may not
        return False
    return True


def has_column() -> bool:
    """Whether passages have the database's own kind of vector."""
    return bool(
        _rows(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = ANY (current_schemas(false))"
            " AND table_name = 'hermes_embeddings' AND column_name = %s",
            COLUMN,
        )
    )


def fill() -> int:
    """Gives some passages theirs that have none; how many."""
    return _fill(_rows(f"SELECT id, vector FROM hermes_embeddings WHERE {COLUMN} IS NULL LIMIT {FILLED_AT_ONCE}"))  # noqa: S608


def fill_document(document_id: int) -> None:
    """Gives the passages of a document theirs, if there are any such."""
    if not has_column():
        return
    query = EmbeddingRow.select(EmbeddingRow.id, EmbeddingRow.vector).where(EmbeddingRow.document_id == document_id)
    rows = list(query.tuples())
    for start in range(0, len(rows), FILLED_AT_ONCE):
        _fill(rows[start : start + FILLED_AT_ONCE])


def nearest(vector: bytes, documents: Collection[int], top_k: int) -> list[tuple[int, float]]:
    """Ids of passages of these documents and their cosines, the nearest first, the older one before its equal."""
    sql = (
        f"SELECT id, -({COLUMN} <#> %s::vector) FROM hermes_embeddings"  # noqa: S608
        f" WHERE document_id = ANY(%s) AND {COLUMN} IS NOT NULL ORDER BY {COLUMN} <#> %s::vector, id LIMIT %s"
    )
    written = _written(vector)
    return [(int(chunk), float(cosine)) for chunk, cosine in _rows(sql, written, list(documents), written, top_k)]


def _fill(rows: list[Any]) -> int:
    if rows:
        values = ", ".join(["(%s, %s)"] * len(rows))
        flat = [value for chunk, vector in rows for value in (chunk, _written(bytes(vector)))]
        proxy.execute_sql(
            f"UPDATE hermes_embeddings AS e SET {COLUMN} = v.given::vector"  # noqa: S608
            f" FROM (VALUES {values}) AS v (id, given) WHERE e.id = v.id::bigint",
            flat,
        )
    return len(rows)


def _written(vector: bytes) -> str:
    """A vector as the extension reads it: `[0.1,…]`."""
    return orjson.dumps(np.frombuffer(vector, "<f4"), option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _rows(sql: str, *values: Any) -> list[Any]:
    return list(proxy.execute_sql(sql, values).fetchall())
