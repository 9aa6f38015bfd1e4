"""Which database the models are bound to: whichever was opened last (see `db.Database.open`).

That lets tests open one after the other.
"""

from __future__ import annotations

from peewee import DatabaseProxy, PostgresqlDatabase

proxy = DatabaseProxy()


def is_on_postgres() -> bool:
    """Whether the database that was opened last is Postgres; else it is SQLite."""
    return isinstance(proxy.obj, PostgresqlDatabase)
