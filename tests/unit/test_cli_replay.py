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
