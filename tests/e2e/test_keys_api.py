"""Keys, pins, budgets and the kill switch of a running server, by its API and by the command line beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from .client import Answer
from .gateway import ROOT, eventually
from .world import World

CONFIG = {"auth": {"require_client_key": True}}
ENV = {"LOG_LEVEL": "DEBUG"}
SOON_S = 1.0
"""How soon every worker sees what another process has changed."""


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    """A world where every caller needs a key, at the most talkative log level."""
    world = World(CONFIG, ENV)
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs


@pytest.fixture(autouse=True)
def _switched_on(world: World) -> Iterator[None]:
    yield
    world.gateway.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "true"})
    off_file(world).unlink(missing_ok=True)


def off_file(world: World) -> Any:
    return world.gateway.folder / "data" / "gateway.off"


def make_key(world: World, *scopes: str, **more: Any) -> dict[str, Any]:
    answer = world.gateway.admin("POST", "/admin/keys", {"name": "kit", "scopes": scopes or ["router"], **more})
    assert answer.status == 201, answer.body
    return dict(answer.json)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def chat(world: World, key: str, **more: Any) -> Answer:
    return world.gateway.chat(headers=bearer(key), **more)


def complete(world: World, key: str = "", **more: Any) -> Answer:
    """A call of the gateway contract."""
    body = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"function_name": "kit"}, **more}
    return world.gateway.request("POST", "/v1/completions", bearer(key) if key else {}, body)


def hermes(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, in the server's environment."""
    gateway = world.gateway
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HERMES_DATABASE_URL": f"sqlite:///{gateway.folder / 'hermes.db'}",
    }
    command = [sys.executable, "-m", "hermes", *words]
    return subprocess.run(command, cwd=gateway.folder, env=environ, capture_output=True, text=True, timeout=30)


# -- keys -------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once(world: World) -> None:
    answer = world.gateway.admin("POST", "/admin/keys", {"name": "svc", "scopes": ["router"]})

    assert answer.status == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json
    listed = world.gateway.admin("GET", "/admin/keys")
    assert made["key"] not in listed.body.decode()
    (line,) = [line for line in listed.json["keys"] if line["id"] == made["id"]]
    assert {"key": made["key"], **line} == made


def test_a_revoked_key_is_refused_at_once(world: World) -> None:
    made = make_key(world)
    assert chat(world, made["key"]).status == 200

    statuses = [world.gateway.admin("DELETE", f"/admin/keys/{made['id']}").status for _ in range(2)]
    refused = chat(world, made["key"])

    assert statuses == [200, 200], "a script may repeat it"
    assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
    assert len(world.calls()) == 1
    assert world.gateway.admin("DELETE", "/admin/keys/k_none").status == 404


def test_the_usage_row_names_the_key(world: World) -> None:
    made = make_key(world)

    answer = chat(world, made["key"])

    assert world.gateway.row(answer)["key_id"] == made["id"]
    lines = world.gateway.admin("GET", "/admin/keys").json["keys"]
    (line,) = [line for line in lines if line["id"] == made["id"]]
    assert line["last_used_at"] >= line["created_at"]


def test_a_key_in_the_address_is_no_key(world: World) -> None:
    made = make_key(world)

    answer = world.gateway.request("POST", f"/v1/chat/completions?api_key={made['key']}", {}, {"messages": []})

    assert answer.status == 401


def test_a_key_opens_what_its_scopes_say(world: World) -> None:
    router, service, admin = (make_key(world, scope)["key"] for scope in ("router", "gateway", "admin"))

    assert [chat(world, key).status for key in (router, service, admin)] == [200, 403, 403]
    assert [complete(world, key).status for key in (router, service, admin, "")] == [403, 200, 403, 401]
    refused = complete(world, router)
    assert (refused.error["code"], refused.error["type"]) == ("insufficient_scope", "insufficient_scope")
    seen = [world.gateway.request("GET", "/admin/sessions", bearer(key)).status for key in (router, service, admin)]
    assert seen == [403, 403, 200]
    assert [world.gateway.request("GET", "/v1/models", bearer(key)).status for key in (router, service)] == [200, 200]


def test_an_unknown_key_is_anonymous_where_none_is_needed_and_a_known_one_keeps_its_scopes(world: World) -> None:
    world.configure(auth={"require_client_key": False})
    revoked = make_key(world)
    world.gateway.admin("DELETE", f"/admin/keys/{revoked['id']}")

    assert [chat(world, key).status for key in ("sk-dummy", revoked["key"])] == [200, 200]
    assert chat(world, make_key(world, "gateway")["key"]).status == 403
    assert complete(world, revoked["key"]).status == 401


def test_an_expired_key_is_refused(world: World) -> None:
    soon = time.time() + 0.2
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(soon)) + f".{int(soon % 1 * 1000):03d}Z"
    made = make_key(world, expires_at=text)

    statuses = [chat(world, made["key"]).status]
    statuses.append(eventually(lambda: chat(world, made["key"]).status, lambda status: status == 401))

    assert statuses == [200, 401]


def test_the_keys_survive_a_restart(world: World) -> None:
    """The secret that they are checked with is kept beside the database."""
    made = make_key(world)

    world.gateway.kill()
    world.gateway.spawn()

    assert chat(world, made["key"]).status == 200


def test_no_key_is_written_anywhere(world: World) -> None:
    made = [make_key(world, "router", "gateway", "admin") for _ in range(2)]
    for key in (line["key"] for line in made):
        chat(world, key)
        chat(world, key, text=f"my key is {key}", stream=True)
        complete(world, key)
        complete(world, key, messages="wrong")
        world.gateway.request("GET", f"/admin/nothing?key={key}", bearer(key))
        world.gateway.request("PUT", "/admin/pins/model.chat", bearer(key), b"{no JSON")
    world.gateway.admin("DELETE", f"/admin/keys/{made[0]['id']}")
    chat(world, made[0]["key"])
    world.gateway.usage(wanted=4)

    written = [path for path in world.gateway.folder.rglob("*") if path.is_file()]
    assert {"hermes.db", "server.log", "secret"} <= {path.name for path in written}
    assert any(path.name.startswith("router-trace") for path in written)
    everything = b"".join(path.read_bytes() for path in written)
    shown = b"".join(world.gateway.admin("GET", f"/admin/{what}").body for what in ("keys", "audit", "usage", "config"))
    assert made[0]["id"].encode() in everything
    for line in made:
        assert line["key"].encode() not in everything + shown
        assert line["key"][7:].encode() not in everything + shown
    assert (world.gateway.folder / "secret").read_bytes().strip() not in shown + world.gateway.logs().encode()


@pytest.mark.parametrize(
    ("body", "param"),
    [
        pytest.param({"name": "x", "scopes": ["root"]}, "scopes", id="an unknown scope"),
        pytest.param({"name": "x", "scopes": ["router"], "roles": ["poet"]}, "roles", id="an unknown role"),
        pytest.param(
            {"name": "x", "scopes": ["router"], "limits": {"concurrent": "2"}}, "limits.concurrent", id="text"
        ),
        pytest.param({"name": "x\ud800", "scopes": ["router"]}, None, id="half a surrogate pair"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"[" * 100_000, None, id="deep"),
    ],
)
def test_a_wrong_key_definition_is_refused_by_field(world: World, body: Any, param: str | None) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    answer = world.gateway.admin("POST", "/admin/keys", raw)

    assert (answer.status, answer.error["param"]) == (400, param)


# -- pins and the kill switch -----------------------------------------------------------------------------


def test_pins_in_force_are_there_for_services_to_cache(world: World) -> None:
    service = make_key(world, "gateway")["key"]
    before = world.gateway.request("GET", "/v1/pins", bearer(service))

    world.gateway.admin("PUT", "/admin/pins/model.reasoning", {"value": "pinned-model"})
    pinned = world.gateway.request("GET", "/v1/pins", bearer(service)).json
    near = world.gateway.admin("PUT", "/admin/pins/model.chat.target", {"value": "primary-mode"}).json
    world.gateway.admin("DELETE", "/admin/pins/model.chat.target")
    deleted = [world.gateway.admin("DELETE", "/admin/pins/model.reasoning").status for _ in range(2)]

    assert before.json == {"model.chat": "primary-model", "model.reasoning": "lone-model", "ai.gateway.enabled": True}
    assert near["warning"].endswith("Did you mean primary-model?")
    assert pinned == {**before.json, "model.reasoning": "pinned-model"}
    assert deleted == [200, 404]
    assert world.gateway.request("GET", "/v1/pins", bearer(service)).json == before.json
    assert world.gateway.request("GET", "/v1/pins").status == 401


def test_a_pin_is_read_back(world: World) -> None:
    put = world.gateway.admin("PUT", "/admin/pins/model.chat.target.sample_rate", {"value": "0.25"})

    line = world.gateway.admin("GET", "/admin/pins/model.chat.target.sample_rate").json
    assert put.json == line
    assert (line["value"], line["updated_by"]) == ("0.25", "admin")
    assert line in world.gateway.admin("GET", "/admin/pins").json["pins"]
    assert world.gateway.admin("GET", "/admin/pins/model.chat.target").status == 404


@pytest.mark.parametrize(
    ("key", "body", "param"),
    [
        ("model.poet", {"value": "x"}, "key"),
        ("model.chat%00", {"value": "x"}, "key"),
        ("ai.gateway.enable", {"value": "false"}, "key"),
        ("ai.gateway.enabled", {"value": False}, "value"),
        ("ai.gateway.enabled", {"value": "perhaps"}, "value"),
        ("model.chat", {"model": "x"}, "model"),
        ("model.chat.target.sample_rate", {"value": "2"}, "value"),
    ],
)
def test_a_wrong_pin_is_refused_by_field(world: World, key: str, body: Any, param: str) -> None:
    answer = world.gateway.admin("PUT", f"/admin/pins/{key}", body)

    assert (answer.status, answer.error["param"]) == (400, param)


def throw_by_pin(world: World) -> None:
    assert world.gateway.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "false"}).status == 200


def throw_by_file(world: World) -> None:
    off_file(world).parent.mkdir(exist_ok=True)
    off_file(world).touch()


def throw_by_command(world: World) -> None:
    assert hermes(world, "pins", "set", "ai.gateway.enabled", "off").returncode == 0


@pytest.mark.parametrize("throw", [throw_by_pin, throw_by_file, throw_by_command])
def test_the_kill_switch_refuses_every_completion_and_is_taken_back(world: World, throw: Any) -> None:
    both = make_key(world, "router", "gateway")
    key = both["key"]
    assert chat(world, key).status == 200

    throw(world)
    thrown_at = time.monotonic()
    refused = eventually(lambda: chat(world, key), lambda answer: answer.status == 503)
    took_s = time.monotonic() - thrown_at

    assert took_s < (0.2 if throw is throw_by_pin else SOON_S)
    answers = [refused, chat(world, key, stream=True), complete(world, key)]
    assert [(a.status, a.error["code"], a.headers["x-should-retry"]) for a in answers] == [
        (503, "gateway_disabled", "false")
    ] * 3
    rows = [world.gateway.row(answer) for answer in answers]
    assert {(row["status"], row["key_id"], row["attempts"]) for row in rows} == {("refused", both["id"], 0)}
    assert world.gateway.request("GET", "/v1/pins", bearer(key)).json["ai.gateway.enabled"] is False
    assert chat(world, "hk_wrong").status == 401, "a wrong key is told so, and leaves no row"
    assert world.gateway.is_healthy()

    off_file(world).unlink(missing_ok=True)
    world.gateway.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "true"})
    assert eventually(lambda: chat(world, key).status, lambda status: status == 200, SOON_S) == 200


def test_what_the_kill_switch_refuses_costs_next_to_nothing(world: World) -> None:
    """Not even the body is read; so it takes no longer where the body is large or never comes."""
    key = make_key(world)["key"]
    throw_by_pin(world)

    took_ms = sorted(chat(world, key).took_s * 1000 for _ in range(30))
    head = {**bearer(key), "Content-Length": "1000000", "Content-Type": "application/json"}
    endless = world.gateway.request("POST", "/v1/chat/completions", head, b"{")

    assert took_ms[len(took_ms) // 2] < 10, "with the connection and the client's own time"
    assert (endless.status, endless.took_s < 0.5) == (503, True)


# -- budgets ----------------------------------------------------------------------------------------------


def test_a_budget_is_set_replaced_listed_and_taken_away(world: World) -> None:
    name = {"scope": "user", "id": "ann@example.com", "period": "day"}
    for limit in ({"limit_usd": 1.5}, {"limit_tokens": 900}):
        assert world.gateway.admin("PUT", "/admin/budgets", {**name, **limit, "action": "warn"}).status == 200

    listed = world.gateway.admin("GET", "/admin/budgets").json["budgets"]
    deleted = [
        world.gateway.admin("DELETE", "/admin/budgets?scope=user&id=ann%40example.com&period=day").status
        for _ in range(2)
    ]

    (budget,) = [budget for budget in listed if name.items() <= budget.items()]
    assert {**name, "limit_tokens": 900, "action": "warn", "warn_share": 0.8}.items() <= budget.items()
    assert {"spent_usd", "spent_tokens", "spent_requests"} <= budget.keys()
    assert budget["period_start"][10:] == budget["resets_at"][10:] == "T00:00:00Z"
    assert budget["period_start"] < budget["resets_at"]
    assert deleted == [200, 404]
    assert world.gateway.admin("DELETE", "/admin/budgets?scope=user&id=a&period=eon").error["param"] == "period"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"scope": "user", "id": "a", "period": "day", "limit_usd": "5"}, "limit_usd"),
        ({"scope": "user", "id": "a", "period": "day", "limit_usd": 5, "limit_tokens": 5}, "limit_tokens"),
        ({"scope": "user", "id": "a", "period": "day", "limit_eur": 5}, "limit_eur"),
        ({"scope": "user", "period": "day", "limit_usd": 5}, "id"),
        ({"scope": "key", "id": "k_none", "period": "day", "limit_usd": 5}, "id"),
        ({"scope": "user", "id": "a", "period": "day", "limit_usd": 5, "action": "shout"}, "action"),
    ],
)
def test_a_wrong_budget_is_refused_by_field(world: World, body: Any, param: str) -> None:
    answer = world.gateway.admin("PUT", "/admin/budgets", body)

    assert (answer.status, answer.error["param"]) == (400, param)


# -- the record, and the command line ---------------------------------------------------------------------


def test_every_change_is_on_record_with_who_did_it(world: World) -> None:
    operator = make_key(world, "admin")
    world.gateway.request("PUT", "/admin/pins/model.chat", bearer(operator["key"]), {"value": "primary-model"})
    world.gateway.request("DELETE", f"/admin/keys/{operator['id']}", bearer(operator["key"]))

    revoked, pinned, made = world.gateway.admin("GET", "/admin/audit?limit=3").json["entries"]

    assert [entry["actor"] for entry in (made, pinned, revoked)] == ["admin", *[f"key:{operator['id']}"] * 2]
    assert [entry["action"] for entry in (made, pinned, revoked)] == ["key.create", "pin.set", "key.revoke"]
    assert (pinned["target"], pinned["after"]) == ("model.chat", {"value": "primary-model"})
    assert world.gateway.admin("GET", "/admin/audit?limit=0").error["param"] == "limit"


def test_what_is_done_outside_the_database_is_on_record_too(world: World) -> None:
    operator = make_key(world, "admin", "router")
    world.gateway.chat(tier=None, headers={**bearer(operator["key"]), "X-Hermes-Session": "s"})
    (key, *_) = world.gateway.admin("GET", "/admin/sessions").json["sessions"]
    endpoint = world.gateway.circuits()["lone-model"]["endpoint"]
    world.configure(limits={"per_user": {"concurrent": 7}})

    for method, path in (
        ("POST", "/reload"),
        ("DELETE", f"/admin/sessions/{key}"),
        ("POST", f"/circuits/reset?endpoint={quote(endpoint, safe='')}"),
    ):
        assert world.gateway.request(method, path, bearer(operator["key"])).status == 200

    reset, evicted, again, reloaded = world.gateway.admin("GET", "/admin/audit?limit=4").json["entries"]
    assert {entry["actor"] for entry in (reset, evicted, again)} == {f"key:{operator['id']}"}
    assert (reset["action"], reset["target"], reset["before"]) == ("circuit.reset", endpoint, {"state": "closed"})
    assert (evicted["action"], evicted["target"], evicted["before"]["tier"]) == ("session.evict", key, "simple")
    assert (again["action"], again["before"], again["after"]) == ("config.reload", {}, {})
    assert (reloaded["actor"], reloaded["after"]["limits.per_user.concurrent"]) == ("admin", 7)


def test_the_command_line_and_the_server_share_one_directory(world: World) -> None:
    made = json.loads(hermes(world, "keys", "create", "cli", "--scope", "router", "--json").stdout)
    statuses = [eventually(lambda: chat(world, made["key"]).status, lambda status: status == 200, SOON_S)]

    hermes(world, "keys", "revoke", made["id"])
    statuses.append(eventually(lambda: chat(world, made["key"]).status, lambda status: status == 401, SOON_S))

    assert statuses == [200, 401]
    assert world.gateway.admin("GET", "/admin/audit").json["entries"][0]["actor"].startswith("cli:")
