"""Makes the OpenAPI document of the routes, the shapes, and the errors as the code has them; serves it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import orjson
from flask import Blueprint, Response

from hermes import __version__, errors
from hermes.errors import HermesError
from hermes.web.cors import EXPOSED
from hermes.web.dashboard.access import COOKIE
from hermes.web.errors import MethodNotAllowed
from hermes.web.openapi.route import JSON, Auth, Route
from hermes.web.openapi.routes import ROUTES
from hermes.web.openapi.schema import TEXT, WHOLE, Schema, fields, maybe, open_object, ref, said, some
from hermes.web.openapi.shapes import ATTEMPT, SHAPES

ABOUT: Final = """\
The router (`/v1/chat/completions`), the gateway for an organisation's own functions (`/v1/completions`), and the \
operators' routes. `/api/v1/…` answers like `/v1/…`. Every error has one shape, and the request's id in its message \
and in the header `X-Request-Id`."""

SECURITY: Final[dict[Auth, list[dict[str, list[str]]]]] = {
    "nobody": [],
    "optional client": [{}, {"clientKey": []}],
    "gateway": [{"clientKey": []}],
    "operator": [{"adminKey": []}],
}
SCHEMES: Final = {
    "clientKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `POST /admin/keys`, with the scope `router` or `gateway`.",
    },
    "adminKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "The admin key of the environment, or an API key with the scope `admin`.",
    },
    "operatorSession": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "Of somebody who has signed in to the dashboard; for reading.",
    },
}
REQUEST_HEADERS: Final = {
    "X-Hermes-Tier": "`simple` or `complex`: forces the tier.",
    "X-Hermes-Session": "Names the conversation.",
    "X-Hermes-User": "The user within the caller; the body's `metadata.user_id` and `user` come first.",
    "X-Request-Timeout": "Seconds for the whole request.",
}
ANSWER_HEADERS: Final = tuple(name for name in EXPOSED.split(", ") if name != "Retry-After")


def blueprint() -> Blueprint:
    """`/openapi.json`, open to everybody."""
    bp = Blueprint("openapi", __name__)
    whole = orjson.dumps(document())

    @bp.get("/openapi.json")
    def openapi() -> Response:
        return Response(whole, content_type=JSON)

    return bp


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in ROUTES:
        paths[route.path][route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermes", "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": dict(paths),
        "components": {
            "schemas": {**SHAPES, **_error_shapes()},
            "responses": {f"Error{status}": _refusal(status) for status in known_errors()},
            "headers": {name: {"schema": TEXT} for name in ANSWER_HEADERS},
            "securitySchemes": SCHEMES,
        },
    }


def known_errors() -> dict[int, list[type[HermesError]]]:
    """The errors that callers can meet, by status."""
    found: dict[int, list[type[HermesError]]] = defaultdict(list)
    for kind in [*vars(errors).values(), MethodNotAllowed]:
        if isinstance(kind, type) and issubclass(kind, HermesError):
            found[kind.status].append(kind)
    return dict(sorted(found.items()))


def _operation(route: Route) -> dict[str, Any]:
    security = [*SECURITY[route.auth]]
    if route.auth == "operator" and route.method == "GET":
        security.append({"operatorSession": []})
    made = {
        "tags": [route.tag],
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").rstrip("_"),
        "summary": route.summary,
        "security": security,
        "parameters": list(_parameters(route)),
        "responses": _responses(route),
    }
    if route.body is not None:
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": route.body}}}
    return made


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": TEXT}
    for query in route.query:
        meaning = {"description": query.meaning} if query.meaning else {}
        yield {"name": query.name, "in": "query", "schema": query.schema, **meaning}
    if route.completes:
        for name, meant in REQUEST_HEADERS.items():
            yield {"name": name, "in": "header", "schema": TEXT, "description": meant}


def _responses(route: Route) -> dict[str, Any]:
    good: dict[str, Any] = {
        "description": route.summary,
        "content": {kind: {"schema": schema} for kind, schema in route.answers.items()},
    }
    if route.completes:
        good["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in ANSWER_HEADERS}
    made = {str(route.status): good}
    if route.path == "/health/ready":
        made["503"] = {**good, "description": "It cannot serve."}
    made.update(
        {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in sorted(set(route.errors))}
    )
    return {**made, "default": {"$ref": "#/components/responses/Error500"}}


def _refusal(status: int) -> dict[str, Any]:
    """What an answer of this status means, by the codes that there are."""
    meanings = [f"`{kind.code}`: {(kind.__doc__ or '').strip().splitlines()[0]}" for kind in known_errors()[status]]
    headers = {"X-Request-Id": {"schema": TEXT}}
    if status in (429, 502, 503, 504):
        headers |= {"Retry-After": {"schema": WHOLE}, "x-should-retry": {"schema": TEXT}}
    return {
        "description": "\n\n".join(meanings),
        "headers": headers,
        "content": {JSON: {"schema": ref("Error")}},
    }


def _error_shapes() -> dict[str, Schema]:
    codes = sorted({kind.code for kinds in known_errors().values() for kind in kinds})
    known = said(
        {"anyOf": [{"type": "string", "enum": codes}, {"type": "string"}]}, "A provider's own 400 has its own."
    )
    problem = fields({"path": TEXT, "line": maybe(WHOLE), "message": TEXT})
    error = open_object(
        {
            "message": TEXT,
            "type": known,
            "param": said(maybe(TEXT), "The field that is wrong."),
            "code": said(maybe(TEXT), "The same as `type`, where nothing more specific is known."),
            "attempts?": said(
                some(fields(ATTEMPT)), "Of `upstream_error` and `timeout`: who was asked, and what came."
            ),
        }
    )
    return {
        "Error": fields(
            {
                "error": error,
                "file?": said(TEXT, "These three: of `invalid_configuration`."),
                "errors?": some(problem),
                "warnings?": some(TEXT),
            }
        )
    }
