"""`replay` from the command line, on a database with recorded requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.cli.main import main
from hermes.settings import ROOT
from hermes.storage.db import Database, migrate
from hermes.storage.repositories import UsageRepository
from hermes.storage.usage_filter import utc_text

CONFIG = """
models:
  simple: {model: small, base_url: "http://127.0.0.1:9/v1", api_key_env: ""}
  complex: {model: large, base_url: "http://127.0.0.1:9/v1", api_key_env: ""}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a configuration and three recorded requests, the last one old."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "router_config.yaml").write_text(CONFIG)
    url = "sqlite:///data/hermes.db"
    (tmp_path / "data").mkdir()
    migrate(url, ROOT / "migrations")
    database = Database.open(url)
    now = datetime.now(UTC)
    texts = ("hello there, how are you today", "what is the time", "an old one")
    rows = [
        {
            "request_id": f"r{number}",
            "created_at": utc_text(now - timedelta(hours=40 if number == 2 else 1)),
            "route": "/v1/chat/completions",
            "status": "ok",
            "decision": "surrogate",
            "tier": "simple",
            "model": "small",
            "prompt_preview": text,
        }
        for number, text in enumerate(texts)
    ]
    UsageRepository(database).insert(rows)
    database.close()
    return tmp_path


def test_nothing_moves_under_the_configuration_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--json"]) == 0

    content = json.loads(capsys.readouterr().out)
    assert (content["requests"], content["moved"], content["cost_usd"]["unpriced"]) == (2, 0, 2)


def test_another_configuration_moves_what_its_keywords_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.yaml").write_text(CONFIG + "routing: {override_keywords: {complex: [time, old], simple: []}}\n")

    assert main(["replay", "--config", "other.yaml", "--hours", "100", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["requests"], content["moved"]) == (3, 2)
    assert content["decided_by"]["after"] == {"surrogate": 1, "override": 2}

    assert main(["replay", "--config", "other.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "Other tier    1" in shown
    assert "now complex" in shown


def test_another_surrogate_decides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "manifest.json").write_text("{}")

    assert main(["replay", "--surrogate", "mine"]) == 1
    assert "the format is not hermes-surrogate/1" in capsys.readouterr().err
    assert main(["replay", "--surrogate", str(ROOT / "hermes/routing/starter"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moved"] == 0


def test_a_folder_that_is_none_is_wrong_on_the_command_line() -> None:
    assert main(["replay", "--surrogate", "nowhere"]) == 2


def test_without_a_configuration_there_is_nothing_to_replay_under(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "router_config.yaml").unlink()

    assert main(["replay"]) == 1
    assert "name one with --config" in capsys.readouterr().err


def told(request: str, event: str, hours_ago: float = 1, **fields: object) -> dict[str, object]:
    moment = utc_text(datetime.now(UTC) - timedelta(hours=hours_ago))
    return {
        "ts": moment,
        "event": event,
        "request_id": request,
        "session_key": f"s-{request}",
        "tier": "simple",
        **fields,
    }


def test_a_folder_of_traces_can_be_decided_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No token and no cost stands there, and of a forced request and a later turn no text."""
    (folder / "other.yaml").write_text(f"{CONFIG}routing: {{override_keywords: {{complex: [what is the time]}}}}\n")
    said = {"classifier_result": "simple", "source": "teacher"}
    events = [
        told("old", "classify", 40, user_message_preview="what is the time", **said),
        told("old", "route", 40, model="small"),
        told("a", "classify", user_message_preview="what is the time", **said),
        told("a", "route", model="small"),
        told("b", "route", model="small"),
        told("c", "cache_hit"),
        told("c", "route", model="small"),
        told("d", "classify", user_message_preview="not at its end yet", **said),
        {"ts": "2026-05-10T00:00:00.000Z", "event": "circuit"},
    ]
    (folder / "told").mkdir()
    (folder / "told/router-trace-20260510.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))

    assert main(["replay", "--from", "told", "--config", "other.yaml", "--json"]) == 0

    content = json.loads(capsys.readouterr().out)
    assert (content["requests"], content["forced"], content["unjudged"], content["moved"]) == (3, 1, 1, 1)
    assert content["decided_by"] == {"before": {"teacher": 1, "header": 1, "session": 1}, "after": {"override": 1}}
    assert content["cost_usd"]["unpriced"] == 1


@pytest.mark.parametrize("source", ["data/hermes.db", "sqlite:///data/hermes.db"])
def test_another_database_can_be_named(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--from", source, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 2


def test_a_source_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--from", "nowhere"]) == 1
    assert "nowhere is neither a folder of traces nor a database" in capsys.readouterr().err
