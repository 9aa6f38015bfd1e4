"""The tables as they are now; `migrations/` is how they came to be, and a test holds the two together.

`created_at` and the other times are text: ISO 8601, UTC, always with milliseconds and `Z`, so always 24 characters.
That is the one form which SQLite (it has no time type) and Postgres store, sort and compare alike, which stands in the
spool and the API as it is, and which an index serves for ranges. In each place stands the same kind of character, so no
collation sorts it differently.

One module an owner: who reads a table finds it beside its neighbours.
"""
