"""Who may call which route: one table of all of them. A route that is not in it fails the test, so that none is open by
mistake; one that stands in it is asked by everybody who may not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Answer
from tests.e2e.gateway import ADMIN_KEY, ROOT, Gateway

from .test_signing import Caller, token_of

PUBLIC = "public"
CLIENT = "client"
"""A client's key where the configuration demands one; an API key with other scopes never opens it."""

SERVICE = "service"
"""An API key with the scope `gateway`."""

ADMIN = "admin"
"""The admin key, or an API key with the scope `admin`; a GET also an operator's session."""

PAGE = "page"
"""An operator's session, and nothing else; a POST needs its token too."""

ROUTES = {
    "GET /health": PUBLIC,
    "GET /health/ready": PUBLIC,
    "GET /openapi.json": PUBLIC,
    "GET /static/<version>/<path:name>": PUBLIC,
    "GET /dashboard/sign-in": PUBLIC,
    "POST /dashboard/sign-in": PUBLIC,
    "POST /v1/chat/completions": CLIENT,
    "POST /v1/embeddings": CLIENT,
    "GET /v1/models": CLIENT,
    "GET /v1/models/<path:name>": CLIENT,
    "POST /v1/completions": SERVICE,
    "POST /v1/completions/stream": SERVICE,
    "GET /v1/pins": SERVICE,
    "GET /metrics": ADMIN,
    "POST /reload": ADMIN,
    "GET /circuits": ADMIN,
    "POST /circuits/reset": ADMIN,
    "GET /classifier/report": ADMIN,
}
PREFIXES = {"/admin/": ADMIN, "/dashboard/": PAGE}
"""All that stands below is as closed as this, but for what the table names."""

OTHERS = [
    pytest.param({}, id="nobody"),
    pytest.param({"Authorization": "Bearer "}, id="an empty key"),
    pytest.param({"Authorization": f"Bearer {ADMIN_KEY}x"}, id="nearly the admin key"),
    pytest.param({"Authorization": f"Basic {ADMIN_KEY}"}, id="another scheme"),
    pytest.param({"Cookie": f"hermes_session={ADMIN_KEY}"}, id="a cookie that nobody signed"),
    pytest.param({"X-Api-Key": ADMIN_KEY, "X-Forwarded-For": "127.0.0.1"}, id="headers of others"),
]


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every route that the application has, with each of its methods, as the application itself tells it."""
    tell = (
        "import json, os; from hermes import bootstrap; from hermes.settings import Settings;"
        "from hermes.web.application import create_app;"
        "rules = create_app(bootstrap.build(Settings.from_env())).url_map.iter_rules();"
        "print(json.dumps([f'{m} {r.rule}' for r in rules for m in r.methods - {'HEAD', 'OPTIONS'}]), flush=True);"
        "os._exit(0)"
    )
    folder: Path = tmp_path_factory.mktemp("rules")
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "PYTHONPATH": str(ROOT), "HERMES_DEMO": "1"}
    told = subprocess.run(
        [sys.executable, "-c", tell], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return sorted(json.loads(told.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    gateway = Gateway.start()
    yield gateway
    logs = gateway.logs()
    gateway.stop()
    assert "Traceback" not in logs


@pytest.fixture(scope="module")
def keys(gateway: Gateway) -> dict[str, str]:
    """An API key of each scope."""
    made = {s: gateway.admin("POST", "/admin/keys", {"name": s, "scopes": [s]}) for s in ("router", "gateway", "admin")}
    return {scope: answer.json["key"] for scope, answer in made.items()}


@pytest.fixture(scope="module")
def signed_in(gateway: Gateway) -> Caller:
    caller = Caller(gateway)
    caller.sign_in()
    return caller


def needs(route: str) -> str | None:
    """What a route needs; None: nobody has said so."""
    path = route.split(" ")[1]
    return ROUTES.get(route) or next((need for start, need in PREFIXES.items() if path.startswith(start)), None)


def asked(route: str) -> tuple[str, str]:
    """Its method, and an address of it."""
    method, rule = route.split(" ")
    return method, re.sub(r"<[^>]+>", "some", rule)


def refused(answer: Answer, route: str, need: str) -> bool:
    """Whether somebody without a right was sent away as is usual there."""
    if need == PAGE:
        led = answer.headers.get("location", "") + answer.headers.get("hx-redirect", "")
        return answer.status in (303, 401, 403) and (answer.status != 303 or led.startswith("/dashboard/sign-in"))
    return answer.status in (401, 403)


def test_every_route_is_in_the_table_and_every_line_of_it_is_a_route(rules: list[str]) -> None:
    assert [route for route in rules if needs(route) is None] == []
    assert sorted(set(ROUTES) - set(rules)) == []


@pytest.mark.parametrize("headers", OTHERS)
def test_a_closed_route_is_closed(gateway: Gateway, rules: list[str], headers: dict[str, str]) -> None:
    closed = {route: need for route in rules if (need := needs(route)) in (SERVICE, ADMIN, PAGE)}

    wrong = []
    for route, need in closed.items():
        method, path = asked(route)
        for spelling in (path, f"/{path}", f"{path}/"):
            answer = gateway.request(method, spelling, {"X-HTTP-Method-Override": "GET", **headers})
            if not refused(answer, route, need):
                wrong.append((method, spelling, answer.status))

    assert len(closed) > 50
    assert wrong == []


def test_a_key_opens_what_its_scope_says_and_no_key_opens_a_page(
    gateway: Gateway, rules: list[str], keys: dict[str, str]
) -> None:
    opens = {SERVICE: {"gateway"}, ADMIN: {"admin"}, PAGE: set(), CLIENT: {"router"}}

    wrong = []
    for route in rules:
        method, path = asked(route)
        need = needs(route) or ""
        for scope in keys.keys() - opens.get(need, keys.keys()):
            if path.startswith("/v1/models") or (path == "/v1/pins" and scope == "admin"):
                continue  # what there is, every key may know
            answer = gateway.request(method, path, {"Authorization": f"Bearer {keys[scope]}"}, b"{}")
            if not refused(answer, route, need):
                wrong.append((route, scope, answer.status))

    assert wrong == []


def test_a_session_reads_for_operators_and_changes_nothing_without_its_token(
    rules: list[str], signed_in: Caller, gateway: Gateway
) -> None:
    other = Caller(gateway)
    other.sign_in()
    strangers = token_of(other.send("GET", "/dashboard/circuits"))

    wrong = []
    for route in rules:
        method, path = asked(route)
        if method == "GET" or needs(route) not in (ADMIN, PAGE) or path == "/dashboard/some":
            continue
        for fields in ({}, {"csrf": "x"}, {"csrf": strangers}):
            answer = signed_in.send(method, path, fields, Origin="https://evil.example")
            if answer.status not in (401, 403):
                wrong.append((route, fields, answer.status))

    assert wrong == []
    assert signed_in.send("GET", "/dashboard/circuits").status == 200, "still signed in"


def test_no_page_and_no_refusal_of_one_lacks_the_policy(rules: list[str], signed_in: Caller) -> None:
    pages = [asked(route)[1] for route in rules if route.startswith("GET /dashboard/") and "/stream" not in route]

    wrong = []
    for path in pages:
        answer = signed_in.send("GET", path)
        policy = answer.headers.get("content-security-policy", "")
        if "default-src 'none'" not in policy or "unsafe" in policy or answer.status >= 500:
            wrong.append((path, answer.status, policy))

    assert len(pages) > 30
    assert wrong == []
