"""What residency rules did: sums by the hour for the page, and the last requests that were masked or blocked.

Both are made of the proofs in usage rows, in the very transaction that stores those, so that they are theirs. A proof
may come from a file that holds anything, so nothing of its shape is taken for granted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import orjson
from peewee import JOIN

from hermes.storage.db import Database
from hermes.storage.models.residency import ResidencyHitRow, ResidencyHourRow
from hermes.storage.models.usage import UsageRow
from hermes.storage.rollups import HOUR_CHARS
from hermes.storage.usage_filter import utc_text

Subject = Literal["class", "found", "masked", "region", "all"]
"""What is summed: requests of a data class; with a kind of personal data; with one that was masked; answered in a
region (empty: in none); and of all that a rule was for, those `masked`, `blocked`, or just `ruled`;
`bound` to places (the pieces are calls then), and with a call `outside` of them, which cannot be."""

MOST_NAMES: Final = 100
MOST_CHARS: Final = 150


@dataclass(frozen=True, slots=True)
class Sum:
    """Of one subject and name."""

    requests: int = 0
    items: int = 0
    """Pieces of personal data; of other subjects as many as requests."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A request that was masked or blocked."""

    created_at: str
    request_id: str
    action: str
    found: Mapping[str, int]
    function_name: str | None
    preview: str | None
    """As it was sent; None where texts are not kept, or the row is no longer there."""


class ResidencyRecords:
    """Reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sums(self, start: datetime, end: datetime) -> dict[tuple[str, str], Sum]:
        """By subject and name, over the hours that begin in this time."""
        return self._database.report(_sums, utc_text(start)[:HOUR_CHARS], utc_text(end)[:HOUR_CHARS])

    def hits(self, start: datetime, end: datetime, limit: int) -> list[Hit]:
        """The newest in this time, newest first."""
        return self._database.report(_hits, utc_text(start), utc_text(end), limit)


def add_new(records: Iterable[Mapping[str, Any]]) -> None:
    """Takes note of the proofs of rows that this transaction has stored. Inside `Database.write`."""
    requests: Counter[tuple[str, str, str]] = Counter()
    items: Counter[tuple[str, str, str]] = Counter()
    hits: list[dict[str, Any]] = []
    for record, proof in _proven(records):
        hour = str(record["created_at"])[:HOUR_CHARS]
        for subject, name, number in (*_counted(proof), *_checked(record, proof)):
            requests[hour, subject, name] += 1
            items[hour, subject, name] += number
        if action := _action(proof):
            found = dict(_numbers(proof.get("found")))
            hits.append(
                {
                    "created_at": str(record["created_at"]),
                    "request_id": str(record["request_id"]),
                    "action": action,
                    "found": orjson.dumps(found).decode(),
                }
            )
    if requests:
        _add_sums(requests, items)
    if hits:
        ResidencyHitRow.insert_many(hits).execute()


def _add_sums(requests: Mapping[tuple[str, str, str], int], items: Mapping[tuple[str, str, str], int]) -> None:
    row: Any = ResidencyHourRow
    for key in sorted(requests):  # in one order, so that transactions wait for each other and never in a circle
        hour, subject, name = key
        row.insert(hour=hour, subject=subject, name=name, requests=requests[key], items=items[key]).on_conflict(
            conflict_target=[row.hour, row.subject, row.name],
            update={row.requests: row.requests + requests[key], row.items: row.items + items[key]},
        ).execute()


def _proven(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for record in records:
        details = record.get("details")
        proof = details.get("residency") if isinstance(details, Mapping) else None
        if isinstance(proof, Mapping):
            yield record, proof


def _counted(proof: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """What one proof adds to: subject, name, pieces."""
    classes = proof.get("data_classes")
    for name in classes[:MOST_NAMES] if isinstance(classes, list) else ():
        yield "class", _name(name), 1
    for subject in ("found", "masked"):
        for name, number in _numbers(proof.get(subject)):
            yield subject, name, number
    if "region" in proof:
        yield "region", _name(proof["region"] or ""), 1
    yield "all", "ruled", 1
    if action := _action(proof):
        yield "all", action, 1


def _checked(record: Mapping[str, Any], proof: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Whether every call was made where the rules let it: looked at once more, from what was noted of the calls."""
    rules, attempts = proof.get("rules"), record["details"].get("attempts")
    listed = [rule for rule in rules if isinstance(rule, Mapping)] if isinstance(rules, list) else []
    places = [rule for rule in listed if rule.get("regions") is not None or rule.get("endpoints") is not None]
    if not places:
        return
    calls = (
        [one for one in attempts if isinstance(one, Mapping) and one.get("called")]
        if isinstance(attempts, list)
        else []
    )
    yield "all", "bound", len(calls)
    if outside := sum(not all(_holds(place, call) for place in places) for call in calls):
        yield "all", "outside", outside


def _holds(place: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    endpoints = place.get("endpoints") or ()
    return (
        call.get("region") in (place.get("regions") or ())
        or call.get("endpoint") in endpoints
        or call.get("model") in endpoints
    )


def _action(proof: Mapping[str, Any]) -> str:
    return "blocked" if proof.get("blocked") is True else "masked" if proof.get("masked") else ""


def _numbers(value: object) -> Iterator[tuple[str, int]]:
    for name, number in list(value.items())[:MOST_NAMES] if isinstance(value, Mapping) else ():
        if isinstance(number, int) and 0 <= number <= 10**9:
            yield _name(name), int(number)


def _name(value: object) -> str:
    text = str(value).replace("\0", "")[:MOST_CHARS]
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _sums(start: str, end: str) -> dict[tuple[str, str], Sum]:
    row: Any = ResidencyHourRow
    requests: Counter[tuple[str, str]] = Counter()
    items: Counter[tuple[str, str]] = Counter()
    query = row.select(row.subject, row.name, row.requests, row.items).where(row.hour >= start, row.hour <= end)
    for subject, name, number, pieces in query.tuples():
        requests[subject, name] += number
        items[subject, name] += pieces
    return {key: Sum(requests[key], items[key]) for key in requests}


def _hits(start: str, end: str, limit: int) -> list[Hit]:
    row: Any = ResidencyHitRow
    usage: Any = UsageRow
    query = (
        row.select(row.created_at, row.request_id, row.action, row.found, usage.function_name, usage.prompt_preview)
        .join(usage, JOIN.LEFT_OUTER, on=(usage.request_id == row.request_id))
        .where(row.created_at >= start, row.created_at <= end)
        .order_by(row.created_at.desc(), row.id.desc())
        .limit(limit)
    )
    found: Sequence[Any] = list(query.tuples())
    return [
        Hit(at, request, action, orjson.loads(kinds), name, text) for at, request, action, kinds, name, text in found
    ]
