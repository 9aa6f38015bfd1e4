"""What the document says of one route and method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hermes.web.openapi.schema import Schema, fields, ref

Auth = Literal["nobody", "optional client", "gateway", "operator"]
"""Who may ask: anybody; a caller, with a key where `auth.require_client_key` is set; a key with the scope `gateway`;
the operator, by the admin key, by a key with the scope `admin`, and for GETs by a session of the dashboard.
"""

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
OPERATOR_ERRORS: Final = (401, 403, 503)


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the address behind the question mark."""

    name: str
    schema: Schema
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    """With its parameters in braces."""

    summary: str
    auth: Auth
    answers: Mapping[str, Schema]
    """By media type: what stands in an answer that went well."""

    body: Schema | None = None
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    status: int = 200
    tag: str = "operators"
    completes: bool = False
    """Whether it asks a provider: its answers have headers that say what Hermes did."""


def json_of(members: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """An answer that is an object of these members."""
    return {JSON: fields(members)}


def completion(path: str, summary: str, auth: Auth, body: str, answers: Mapping[str, Schema]) -> Route:
    """A route that asks a provider."""
    errors = (400, 401, 403, 408, 413, 415, 429, 502, 503, 504)
    return Route("POST", path, summary, auth, answers, ref(body), (), errors, tag="completions", completes=True)


def public(path: str, summary: str, answer: Schema) -> Route:
    """A GET that is open to everybody."""
    return Route("GET", path, summary, "nobody", {JSON: answer}, tag="health")


def read(
    path: str, summary: str, answers: Mapping[str, Schema], query: Iterable[Query] = (), errors: Iterable[int] = ()
) -> Route:
    """A GET of the operator's."""
    return Route("GET", path, summary, "operator", answers, None, tuple(query), (*errors, *OPERATOR_ERRORS))


def act(
    method: str,
    path: str,
    summary: str,
    answers: Mapping[str, Schema],
    body: Schema | None = None,
    query: tuple[Query, ...] = (),
    errors: tuple[int, ...] = (),
    status: int = 200,
) -> Route:
    """Something that the operator changes."""
    return Route(method, path, summary, "operator", answers, body, query, (*errors, *OPERATOR_ERRORS), status)
