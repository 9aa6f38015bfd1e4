"""A usage log of any length, made of one row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import psycopg

COPIES = (
    "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {number}) "
    "INSERT INTO ai_usage_logs ({names}) SELECT {copied} FROM ai_usage_logs, n"
)


def multiply_in_sqlite(file: Path, number: int) -> None:
    """Each row becomes so many more, with other ids."""
    with closing(sqlite3.connect(file)) as database, database:
        names = [name for _, name, *_ in database.execute("PRAGMA table_info(ai_usage_logs)")]
        database.execute(_copies(names, number))


def multiply_in_postgres(url: str, number: int) -> None:
    """The same."""
    with psycopg.connect(url) as database:
        found = database.execute("SELECT column_name FROM information_schema.columns WHERE table_name='ai_usage_logs'")
        database.execute(_copies((name for (name,) in found.fetchall()), number).encode())


def _copies(columns: Iterable[str], number: int) -> str:
    names = [name for name in columns if name != "id"]
    copied = ("request_id || '-' || value" if name == "request_id" else name for name in names)
    return COPIES.format(number=number, names=", ".join(names), copied=", ".join(copied))
