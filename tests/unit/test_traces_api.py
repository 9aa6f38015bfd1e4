"""`GET /admin/traces`: the last events, the newest first, by the filters of `traces tail`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Blueprint, Flask
from flask.testing import FlaskClient

from hermes.web import errors, traces_api

EVENTS = [
    {"ts": "2026-05-10T13:33:00.100Z", "event": "classify", "session_key": "abc1", "request_id": "req_1"},
    {"ts": "2026-05-10T13:33:00.200Z", "event": "route", "session_key": "abc1", "request_id": "req_1"},
    {"ts": "2026-05-10T13:33:00.300Z", "event": "route", "session_key": "abd2", "request_id": "req_2"},
    {"ts": "2026-05-10T13:33:00.400Z", "event": "circuit", "request_id": "req_2"},
]


def client_of(folder: Path) -> FlaskClient:
    hermes: Any = SimpleNamespace(settings=SimpleNamespace(trace_log_dir=str(folder)))
    bp = Blueprint("admin", __name__)
    traces_api.add_routes(bp, hermes)
    app = Flask("test")
    app.register_blueprint(bp)
    errors.install(app)
    return app.test_client()


@pytest.fixture
def client(tmp_path: Path) -> FlaskClient:
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
    (tmp_path / "router-trace-20260510.jsonl").write_text(lines, encoding="utf-8")
    return client_of(tmp_path)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("", [3, 2, 1, 0], id="all, the newest first"),
        pytest.param("?limit=2", [3, 2], id="the last two"),
        pytest.param("?event=route", [2, 1], id="one kind"),
        pytest.param("?session_key=ab", [2, 1, 0], id="the beginning of a key"),
        pytest.param("?request_id=req_1&event=route", [1], id="both must fit"),
        pytest.param("?request_id=req", [], id="a request's id must be whole"),
        pytest.param("?event=&session_key=", [3, 2, 1, 0], id="empty is not given"),
    ],
)
def test_the_last_events_are_found(client: FlaskClient, query: str, found: list[int]) -> None:
    assert client.get(f"/admin/traces{query}").json == {"events": [EVENTS[at] for at in found]}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        pytest.param("?limit=1001", "limit", id="too many"),
        pytest.param("?limit=0", "limit", id="none"),
        pytest.param("?event=rout", "event", id="no such event"),
        pytest.param("?session=a", "session", id="no such filter"),
    ],
)
def test_a_wrong_filter_is_named(client: FlaskClient, query: str, param: str) -> None:
    answer = client.get(f"/admin/traces{query}")

    assert answer.status_code == 400
    assert answer.json["error"]["param"] == param


def test_without_traces_there_is_none(tmp_path: Path) -> None:
    assert client_of(tmp_path / "nowhere").get("/admin/traces").json == {"events": []}
