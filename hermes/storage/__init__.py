"""Durable rows in SQLite or Postgres; the only package that knows peewee."""
