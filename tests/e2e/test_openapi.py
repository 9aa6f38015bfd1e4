"""Each documented answer has the documented members and no others, on a running server."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator

from hermes.observe.trace import utc_ms
from tests.shadow_rows import a_reply, store_beside_server

from . import replies
from .client import Answer
from .world import World

BUDGET = {"scope": "user", "id": "*", "period": "day", "limit_usd": 2, "action": "downgrade"}
LIMITS = {"requests_per_minute": 100, "tokens_per_minute": 100_000}
EMBEDDINGS = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"}
MESSAGES = [{"role": "user", "content": "hello there"}]
DOCUMENT = {"use_case": "shop", "source": "a.md", "text": "# Refunds\n\nRefunds are paid in 14 days."}
CONTRACT = {"messages": MESSAGES, "metadata": {"function_name": "f", "user_id": "ann"}}


SAID = ("X-Request-Id", "X-Hermes-Model", "X-Hermes-Fallback-Level")
"""Of the documented headers, those of every answer of a provider."""


@dataclass(frozen=True)
class Seen:
    """What is there to ask for."""

    service_key: str
    key_id: str
    request_id: str
    session: str


Ask = Callable[[World, Seen], Answer]


def operators(method: str, path: str, body: Any = None) -> Ask:
    return lambda world, seen: world.gateway.admin(method, path.format(**asdict(seen)), body)


def clients(method: str, path: str, body: Any = None) -> Ask:
    def ask(world: World, seen: Seen) -> Answer:
        return world.gateway.request(method, path, {"Authorization": f"Bearer {seen.service_key}"}, body)

    return ask


def librarians(method: str, path: str, body: Any = None) -> Ask:
    def ask(world: World, seen: Seen) -> Answer:
        document = world.gateway.admin("POST", "/admin/knowledge", DOCUMENT).json
        return world.gateway.admin(method, path.format(document_id=document["id"]), body)

    return ask


def shadow(method: str, act: str, **more: Any) -> Ask:
    """Asks what there is of a run with one sample, or acts on it."""

    def ask(world: World, seen: Seen) -> Answer:
        gateway = world.gateway
        gateway.admin("PUT", "/admin/pins/model.chat.target", {"value": "lone-model"})
        row = a_reply(
            1, primary="primary-model", target="lone-model", prefix=secrets.token_hex(4), created_at=utc_ms(time.time())
        )  # fmt: skip
        store_beside_server(f"sqlite:///{gateway.folder / 'hermes.db'}", [row])
        run = gateway.admin("GET", "/admin/shadow").json["runs"][0]["id"]
        if act == "/rollback":
            gateway.admin("POST", "/admin/shadow/promote", {"run": run, "force": True})
        path = f"/admin/shadow{act}"
        if method == "GET":
            answer = gateway.admin("GET", f"{path}?run={run}")
        elif act == "/verdict":
            sample = gateway.admin("GET", f"/admin/shadow?run={run}").json["samples"][0]["id"]
            answer = gateway.admin("POST", path, {"id": sample, "verdict": "worse"})
        else:
            answer = gateway.admin("POST", path, {"run": run, **more})
        gateway.admin("DELETE", "/admin/pins/model.chat.target")
        return answer

    return ask


ASKED: dict[tuple[str, str], Ask] = {
    ("POST", "/v1/chat/completions"): clients("POST", "/v1/chat/completions", {"messages": MESSAGES}),
    ("POST", "/v1/completions"): clients("POST", "/v1/completions", CONTRACT),
    ("POST", "/v1/completions/stream"): clients("POST", "/v1/completions/stream", CONTRACT),
    ("POST", "/v1/embeddings"): clients("POST", "/v1/embeddings", {"input": "a", "model": "primary-model"}),
    ("GET", "/v1/models"): clients("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"): clients("GET", "/v1/models/auto"),
    ("GET", "/v1/pins"): clients("GET", "/v1/pins"),
    ("GET", "/health"): clients("GET", "/health"),
    ("GET", "/health/ready"): clients("GET", "/health/ready"),
    ("GET", "/openapi.json"): clients("GET", "/openapi.json"),
    ("GET", "/admin/keys"): operators("GET", "/admin/keys"),
    ("POST", "/admin/keys"): operators("POST", "/admin/keys", {"name": "n", "scopes": ["router"], "roles": ["chat"]}),
    ("DELETE", "/admin/keys/{key_id}"): operators("DELETE", "/admin/keys/{key_id}"),
    ("GET", "/admin/pins"): operators("GET", "/admin/pins"),
    ("GET", "/admin/pins/{key}"): operators("GET", "/admin/pins/model.chat"),
    ("PUT", "/admin/pins/{key}"): operators("PUT", "/admin/pins/model.chat", {"value": "nobody-has-it"}),
    ("DELETE", "/admin/pins/{key}"): operators("DELETE", "/admin/pins/model.chat"),
    ("GET", "/admin/budgets"): operators("GET", "/admin/budgets"),
    ("PUT", "/admin/budgets"): operators("PUT", "/admin/budgets", BUDGET),
    ("DELETE", "/admin/budgets"): operators("DELETE", "/admin/budgets?scope=user&id=*&period=day"),
    ("GET", "/admin/audit"): operators("GET", "/admin/audit"),
    ("GET", "/admin/shadow"): shadow("GET", ""),
    ("POST", "/admin/shadow/promote"): shadow("POST", "/promote", force=True),
    ("POST", "/admin/shadow/reject"): shadow("POST", "/reject"),
    ("POST", "/admin/shadow/rollback"): shadow("POST", "/rollback"),
    ("POST", "/admin/shadow/verdict"): shadow("POST", "/verdict"),
    ("GET", "/metrics"): operators("GET", "/metrics"),
    ("POST", "/reload"): operators("POST", "/reload"),
    ("GET", "/admin/config"): operators("GET", "/admin/config"),
    ("GET", "/admin/sessions"): operators("GET", "/admin/sessions"),
    ("DELETE", "/admin/sessions/{key}"): operators("DELETE", "/admin/sessions/{session}"),
    ("GET", "/circuits"): operators("GET", "/circuits"),
    ("POST", "/circuits/reset"): operators("POST", "/circuits/reset"),
    ("GET", "/admin/usage"): operators("GET", "/admin/usage?limit=50"),
    ("GET", "/admin/usage.csv"): operators("GET", "/admin/usage.csv"),
    ("GET", "/admin/usage/{request_id}"): operators("GET", "/admin/usage/{request_id}"),
    ("GET", "/admin/traces"): operators("GET", "/admin/traces?event=route&limit=5"),
    ("GET", "/classifier/report"): operators("GET", "/classifier/report"),
    ("GET", "/admin/knowledge"): librarians("GET", "/admin/knowledge"),
    ("POST", "/admin/knowledge"): operators("POST", "/admin/knowledge", DOCUMENT),
    ("DELETE", "/admin/knowledge"): librarians("DELETE", "/admin/knowledge?use_case=shop"),
    ("DELETE", "/admin/knowledge/{document_id}"): librarians("DELETE", "/admin/knowledge/{document_id}"),
    ("POST", "/admin/knowledge/{document_id}/again"): librarians("POST", "/admin/knowledge/{document_id}/again"),
    ("POST", "/admin/knowledge/search"): librarians(
        "POST", "/admin/knowledge/search", {"query": "When are refunds paid?", "min_score": 0}
    ),
}
"""How each route is asked so that it answers well."""


@pytest.fixture
def whole(world: World) -> Any:
    return world.gateway.request("GET", "/openapi.json").json


@pytest.fixture
def seen(world: World) -> Seen:
    """One request that a fallback has answered, in a server that has a little of everything."""
    vectors = replies.answer(200, EMBEDDINGS).only(has="input")
    streams = replies.stream("a ", "b").only(has="stream")
    world.primary.script(vectors, streams, replies.error(500), replies.chat().but(times=99))
    gateway = world.gateway
    made = gateway.admin("POST", "/admin/keys", {"name": "f", "scopes": ["router", "gateway"], "limits": LIMITS}).json
    gateway.admin("PUT", "/admin/pins/model.chat", {"value": "primary-model"})
    gateway.admin("PUT", "/admin/budgets", BUDGET)
    asked = gateway.chat("thanks a lot", tier=None)
    session = next(iter(gateway.admin("GET", "/admin/sessions").json["sessions"]))
    return Seen(made["key"], made["id"], asked.request_id, quote(session, safe=""))


def test_every_documented_route_is_asked(whole: Any) -> None:
    """A route that is new in the document needs a line in `ASKED`."""
    assert {(method.upper(), path) for path, methods in whole["paths"].items() for method in methods} == set(ASKED)


@pytest.mark.parametrize(("method", "path"), [pytest.param(*asked, id=" ".join(asked)) for asked in ASKED])
def test_an_answer_is_as_documented(world: World, seen: Seen, whole: Any, method: str, path: str) -> None:
    answer = ASKED[method, path](world, seen)

    documented = whole["paths"][path][method.lower()]["responses"][str(answer.status)]
    kind = answer.headers["content-type"].partition(";")[0]
    assert answer.status in (200, 201)
    assert kind in documented["content"]
    assert [name for name in documented.get("headers", {}) if name in SAID and name.lower() not in answer.headers] == []
    if kind == "application/json":
        assert faults(whole, documented["content"][kind]["schema"], answer.json) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("GET", "/admin/usage?tier=none", None, 400, id="a wrong value"),
        pytest.param("PUT", "/admin/budgets", {}, 400, id="a wrong body"),
        pytest.param("DELETE", "/admin/sessions/nobody", None, 404, id="nothing there"),
        pytest.param("GET", "/admin/traces?limit=1001", None, 400, id="too much"),
    ],
)
def test_a_refusal_is_as_documented(world: World, whole: Any, method: str, path: str, body: Any, status: int) -> None:
    answer = world.gateway.admin(method, path, body)

    assert answer.status == status
    assert faults(whole, {"$ref": "#/components/schemas/Error"}, answer.json) == []


def faults(whole: Any, schema: Any, value: Any) -> list[str]:
    """What is wrong with a value; members that are not documented are wrong too, where nothing else is said of them."""
    shapes = {"components": {"schemas": only_what_is_said(whole["components"]["schemas"])}}
    validator = Draft202012Validator({**shapes, **only_what_is_said(schema)})
    return [f"{fault.json_path}: {fault.message[:300]}" for fault in validator.iter_errors(value)]


def only_what_is_said(schema: Any) -> Any:
    if isinstance(schema, list):
        return [only_what_is_said(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {**closed, **{name: only_what_is_said(item) for name, item in schema.items()}}
