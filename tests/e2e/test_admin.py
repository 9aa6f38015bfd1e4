"""What operators and their scripts see and change: sessions, usage, breakers, configuration, metrics."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from . import replies
from .gateway import ADMIN_KEY, CHAT, Gateway, eventually, new_user
from .replies import error
from .world import KEYS, World

ADMIN_ROUTES = [
    ("GET", "/metrics"),
    ("POST", "/reload"),
    ("GET", "/admin/sessions"),
    ("DELETE", "/admin/sessions/some"),
    ("GET", "/admin/config"),
    ("GET", "/admin/usage"),
    ("GET", "/admin/usage/some"),
    ("GET", "/admin/usage.csv"),
    ("GET", "/admin/traces"),
    ("GET", "/circuits"),
    ("POST", "/circuits/reset"),
]
METRICS = {
    "hermes_router_requests_total",
    "hermes_router_classifier_calls_total",
    "hermes_router_classifier_latency_ms_avg",
    "hermes_router_cache_hits_total",
    "hermes_router_429_total",
    "hermes_router_fallback_used_total",
    "hermes_router_stream_requests_total",
    "hermes_router_errors_total",
    "hermes_router_circuits_open",
    "hermes_router_sessions_active",
}


@pytest.fixture(scope="module")
def open_gateway() -> Iterator[Gateway]:
    """One without an admin key, for browsers of one origin."""
    env = {"ROUTER_PROXY_API_KEY": " ", "CORS_ORIGINS": "https://app.example"}
    gateway = Gateway.start(env=env)
    yield gateway
    gateway.stop()


@pytest.mark.parametrize(("method", "path"), ADMIN_ROUTES)
def test_every_admin_route_is_closed_to_others(world: World, open_gateway: Gateway, method: str, path: str) -> None:
    tries = [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {ADMIN_KEY}x", f"Basic {ADMIN_KEY}", "Bearer \xe9"]
    for gateway in (world.gateway, open_gateway):
        for value in tries:
            got = gateway.request(method, path, {} if value is None else {"Authorization": value})
            assert (got.status, value) == (401, value)
    assert open_gateway.admin(method, path).status == 401, "without a key that is set, none is right"


def test_sessions_are_listed_and_can_be_evicted(world: World) -> None:
    world.gateway.chat(tier=None, headers={"X-Hermes-Session": "lunch / 1"})
    listed = world.gateway.admin("GET", "/admin/sessions").json

    assert listed["session_timeout_minutes"] == 5
    assert listed["count"] == len(listed["sessions"]) >= 1
    key, session = max(listed["sessions"].items(), key=lambda item: -item[1]["age_sec"])
    assert session["tier"] in ("simple", "complex")
    assert session["remaining_sec"] == pytest.approx(300 - session["age_sec"], abs=2)

    path = f"/admin/sessions/{quote(key, safe='')}"
    statuses = [world.gateway.admin("DELETE", path).status for _ in range(2)]

    assert statuses[0] in (200, 204)
    assert statuses[1] == 404
    assert key not in world.gateway.admin("GET", "/admin/sessions").json["sessions"]


def test_the_live_configuration_names_variables_and_never_values(world: World) -> None:
    shown = world.gateway.admin("GET", "/admin/config")

    assert shown.status == 200
    text = shown.body.decode()
    assert "PROVIDER_KEY_" in text
    assert "primary-model" in text
    assert shown.json["config"]["circuit_breaker"]["failure_threshold"] == 3
    assert [value for value in (ADMIN_KEY, *KEYS.values()) if value in text] == []


def test_usage_can_be_filtered_and_paged(world: World) -> None:
    user, other = new_user(), new_user()
    answers = [world.gateway.chat(user=user) for _ in range(5)] + [world.gateway.chat(user=other, tier="complex")]
    world.gateway.usage(wanted=5, user_id=user)
    last = world.gateway.row(answers[-1])

    pages = [world.gateway.usage(user_id=user, limit=2, page=page) for page in (1, 2, 3)]

    assert [len(page) for page in pages] == [2, 2, 1]
    assert {row["request_id"] for page in pages for row in page} == {got.request_id for got in answers[:5]}
    assert [row["user_id"] for row in world.gateway.usage(user_id=other, tier="complex")] == [other]
    for name in ("model", "tier", "status", "request_id"):
        assert last in world.gateway.usage(**{name: last[name], "user_id": other})
    assert world.gateway.usage(wanted=0, user_id=other, tier="simple") == []
    assert world.gateway.usage(wanted=0, user_id=other, status="error") == []
    assert last in world.gateway.usage(**{"from": last["created_at"]})
    assert last not in world.gateway.usage(wanted=0, to="2020-01-01")


def test_usage_can_be_had_as_a_table(world: World) -> None:
    user = new_user()
    row = world.gateway.row(world.gateway.chat(user=user))

    answer = world.gateway.admin("GET", f"/admin/usage.csv?user_id={user}")

    assert answer.headers["content-type"].startswith("text/csv")
    (line,) = csv.DictReader(io.StringIO(answer.body.decode()))
    assert set(line) == set(row)
    assert line["request_id"] == row["request_id"]


def test_a_receipt_tells_what_happened_step_by_step(world: World) -> None:
    world.primary.script(error(500))
    got = world.gateway.chat()

    receipt = world.gateway.admin("GET", f"/admin/usage/{got.request_id}")

    assert receipt.status == 200
    text = receipt.body.decode()
    assert all(name in text for name in (got.request_id, "primary-model", "fallback-model", "500"))
    assert world.gateway.admin("GET", "/admin/usage/none-such").status == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", v) for v in ("0", "-1", "1001", "many", "1.5")]
    + [("page", v) for v in ("0", "-1", "x", "9" * 30)]
    + [("from", "yesterday"), ("to", "13"), ("status", "fine"), ("tier", "medium")],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(world: World, field: str, value: str) -> None:
    got = world.gateway.admin("GET", f"/admin/usage?{field}={value}")

    assert (got.status, field in got.error["message"]) == (400, True)


def test_one_breaker_can_be_closed_or_all(world: World) -> None:
    world.configure(circuit_breaker={"failure_threshold": 1, "recovery_timeout_sec": 60})
    world.primary.script(error(500))
    world.fallback.script(error(500))
    world.gateway.chat()
    endpoint = world.gateway.circuits()["primary-model"]["endpoint"]

    one = world.gateway.admin("POST", f"/circuits/reset?endpoint={quote(endpoint, safe='')}")

    assert one.status == 200
    states = {model: entry["state"] for model, entry in world.gateway.circuits().items()}
    assert states == {"primary-model": "closed", "fallback-model": "open", "lone-model": "closed"}
    assert world.gateway.admin("POST", "/circuits/reset?endpoint=none-such").status in (400, 404)
    world.gateway.close_circuits()
    assert {entry["state"] for entry in world.gateway.circuits().values()} == {"closed"}


def test_a_reload_is_in_force_at_once_and_requests_under_way_finish_on_the_old_file(world: World) -> None:
    world.primary.script(replies.stream(*"abcdef", every_s=0.08))
    exchange = world.gateway.open_chat(stream=True)
    exchange.read_until(b'"a"')

    world.configure(simple=[world.endpoint(world.fallback, model="brand-new")])
    after = world.gateway.chat()

    assert after.headers["x-hermes-model"] == "brand-new"
    assert exchange.read_all().text == "abcdef"


GOOD_TIER = '{endpoints: [{model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: ""}]}'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(
            f"models:\n  simple: {GOOD_TIER}\n  complex: {GOOD_TIER}\nretry:\n  backof_503_sec: [1]\n"
            "circuit_breaker:\n  failure_threshold: many\n",
            {("retry.backof_503_sec", 5), ("circuit_breaker.failure_threshold", 7)},
            id="an unknown key and a wrong type",
        ),
        pytest.param(
            "models:\n  simple:\n    model: m\n    base_url: http://127.0.0.1:1/v1\n    api_key_env: NOT_SET_ANYWHERE\n"
            f"  complex: {GOOD_TIER}\n",
            {("models.simple.api_key_env", 5)},
            id="a key that is not set",
        ),
        pytest.param("models: [\n", None, id="no YAML"),
        pytest.param("just words\n", None, id="no mapping"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_a_bad_file_changes_nothing_and_says_all_that_is_wrong(
    world: World, text: str, wanted: set[tuple[str, int]] | None
) -> None:
    world.configure()
    got = world.gateway.reload(text)

    assert got.status == 400
    assert got.json["error"]
    problems = {(problem["path"], problem["line"]) for problem in got.json["errors"]}
    assert problems
    assert wanted is None or problems == wanted
    assert all(problem["message"] for problem in got.json["errors"])
    assert "Traceback" not in got.body.decode()
    assert world.gateway.chat().headers["x-hermes-model"] == "primary-model"


def test_a_reload_that_would_close_the_admin_routes_for_good_is_refused(world: World) -> None:
    got = world.gateway.reload(world.config(auth={"api_key_env": "NO_SUCH_KEY"}))

    assert (got.status, [problem["path"] for problem in got.json["errors"]]) == (400, ["auth.api_key_env"])
    assert world.gateway.admin("GET", "/circuits").status == 200


def test_metrics_are_prometheus_text_and_count(world: World) -> None:
    def series() -> dict[tuple[str, str], float]:
        answer = world.gateway.admin("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        return {
            (sample.name, json.dumps(sample.labels, sort_keys=True)): sample.value
            for family in text_string_to_metric_families(answer.body.decode())
            for sample in family.samples
        }

    before = series()
    world.primary.script(error(429))
    world.fallback.script(replies.stream("ok").only(has="stream"), replies.chat())
    world.gateway.chat()
    world.gateway.chat(stream=True)
    world.lone.script(error(500))
    world.gateway.chat(tier="complex")
    after = series()

    assert {name for name, _ in after} >= METRICS

    def grown(name: str, **labels: str) -> float:
        key = (f"hermes_router_{name}", json.dumps(labels, sort_keys=True))
        return after[key] - before.get(key, 0)

    assert grown("requests_total", tier="simple") == 2
    assert grown("requests_total", tier="complex") == 1
    assert grown("fallback_used_total", level="1") == 2
    assert grown("429_total", tier="simple") == 1
    assert grown("stream_requests_total") == 1
    assert grown("errors_total") == 1


def test_browsers_may_call_from_anywhere_but_without_credentials(world: World) -> None:
    got = preflight(world.gateway, "https://anywhere.example")

    assert got["access-control-allow-origin"] in ("*", "https://anywhere.example")
    assert "access-control-allow-credentials" not in got
    assert "POST" in got["access-control-allow-methods"]
    allowed = got["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type"))


def test_browsers_of_other_origins_may_not_where_origins_are_named(open_gateway: Gateway) -> None:
    assert preflight(open_gateway, "https://app.example")["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in preflight(open_gateway, "https://evil.example")
    got = open_gateway.chat(headers={"Origin": "https://app.example"})
    assert (got.status, got.headers["access-control-allow-origin"]) == (200, "https://app.example")


def preflight(gateway: Gateway, origin: str) -> dict[str, str]:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    got = eventually(
        lambda: gateway.request("OPTIONS", CHAT, {"Origin": origin, **asked}), lambda got: got.status < 300
    )
    assert got.status in (200, 204)
    return got.headers
