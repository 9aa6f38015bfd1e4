"""`keys`, `pins` and `budgets` on the command line: they need no running server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.admission.keys import KeyDigest, looks_like_key, server_secret
from hermes.cli.main import main
from hermes.storage.db import Database
from hermes.storage.directory import DirectoryRepository


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty working directory, whose database is the default one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Terminal:
    """Runs commands and keeps what they said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        code = main(words)
        self.out, self.err = self._capsys.readouterr()
        assert "should not happen" not in self.err
        return code

    def json(self, *words: str) -> Any:
        assert self(*words, "--json") == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_a_new_key_is_the_only_thing_on_standard_output(run: Terminal, folder: Path) -> None:
    """So that a script can take it, and the server finds it under the same secret."""
    assert run("keys", "create", "svc", "--scope", "gateway", "--role", "chat", "--concurrent", "3") == 0

    key = run.out.strip()
    assert looks_like_key(key)
    assert "not shown again" in run.err
    database = Database.open("sqlite:///data/hermes.db")
    found = DirectoryRepository(database).load().keys[KeyDigest(server_secret("", folder / "data"))(key)]
    database.close()
    assert (found.name, found.scopes, found.roles) == ("svc", {"gateway"}, {"chat"})
    assert found.limits is not None
    assert found.limits.concurrent == 3


def test_keys_are_listed_with_their_state_and_without_the_keys(run: Terminal) -> None:
    made = [run.json("keys", "create", name, "--scope", "router")["key"] for name in ("first", "second")]
    listed = run.json("keys", "list")["keys"]
    run("keys", "revoke", listed[0]["id"])

    assert run("keys", "list") == 0

    heads, *lines = run.out.splitlines()
    assert heads.split()[:2] == ["id", "name"]
    assert {line.split()[1]: line.split()[5] for line in lines} == {
        listed[0]["name"]: "revoked",
        listed[1]["name"]: "active",
    }
    assert not any(key in run.out for key in made)


def test_pins_are_set_read_and_taken_away(run: Terminal) -> None:
    assert run("pins", "set", "ai.gateway.enabled", "off") == 0
    assert run("pins", "set", "model.chat", "gpt-4o") == 0

    assert run("pins", "get", "model.chat") == 0
    assert run.out == "gpt-4o\n"
    assert [pin["value"] for pin in run.json("pins", "get")["pins"]] == ["false", "gpt-4o"]
    assert run("pins", "get") == 0
    assert run.out.splitlines()[1].startswith("ai.gateway.enabled  false  ")
    assert run("pins", "delete", "model.chat") == 0
    assert run("pins", "get", "model.chat") == 1


def test_a_role_is_checked_where_the_configuration_can_be_read(run: Terminal, folder: Path) -> None:
    """Where it cannot, for want of a provider's key in this shell, the pin is set all the same."""
    assert run("pins", "set", "model.poet", "m") == 2
    assert "no role 'poet'; roles are chat, reasoning" in run.err

    (folder / "router_config.yaml").write_text("models: {}\n")
    assert run("pins", "set", "model.poet", "m") == 0
    assert run("keys", "create", "k", "--scope", "gateway", "--role", "poet") == 0


MODELS = """\
models:
  simple: {endpoints: [{model: small-model, base_url: "http://127.0.0.1:1/v1", api_key_env: ""}]}
  complex: {endpoints: [{model: large-model, base_url: "http://127.0.0.1:2/v1", api_key_env: ""}]}
"""


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        pytest.param("model.reasoning", "large-modle", "Did you mean large-model?", id="a slip"),
        pytest.param("model.reasoning", "o3", "go to http://127.0.0.1:2/v1, the complex tier's primary", id="another"),
        pytest.param("model.chat.target", "o3", "they have small-model, large-model", id="a target"),
        pytest.param("model.chat", "large-model", "", id="of the other tier"),
        pytest.param("model.chat.target.sample_rate", "0.5", "", id="no model at all"),
        pytest.param("ai.gateway.enabled", "true", "", id="the switch"),
    ],
)
def test_a_pin_of_a_model_that_no_endpoint_has_is_set_and_remarked_on(
    run: Terminal, folder: Path, key: str, value: str, said: str
) -> None:
    (folder / "router_config.yaml").write_text(MODELS)

    assert run("pins", "set", key, value) == 0

    assert said in run.err if said else run.err == ""
    assert run("pins", "get", key) == 0
    assert run.out == f"{value}\n"
    assert ("warning" in run.json("pins", "set", key, value)) == bool(said)


def test_budgets_are_set_listed_and_taken_away(run: Terminal) -> None:
    name = ("--scope", "user", "--id", "*", "--period", "day")

    assert run("budgets", "set", *name, "--limit-usd", "1.25", "--action", "warn") == 0
    assert run.out.splitlines()[1].split() == ["user", "*", "day", "1.25", "usd", "warn", "80%"]
    shown = run.json("budgets", "list")["budgets"]
    assert shown == [
        {"scope": "user", "id": "*", "period": "day", "limit_usd": 1.25, "action": "warn", "warn_share": 0.8}
    ]
    assert run("budgets", "delete", *name) == 0
    assert run.json("budgets", "list") == {"budgets": []}
    assert run("budgets", "set", "--scope", "global", "--period", "month", "--limit-tokens", "5") == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param("keys create x --scope root", 2, "scopes must only hold router, gateway, admin", id="scope"),
        pytest.param("keys create x", 2, "Missing option '--scope'", id="no scope"),
        pytest.param("keys create x --scope router --expires soon", 2, "expires_at must be an ISO 8601", id="expiry"),
        pytest.param("keys revoke k_none", 1, "There is no API key 'k_none'", id="no such key"),
        pytest.param("pins set model x", 2, "pins are model.<role>", id="no such pin"),
        pytest.param("pins set ai.gateway.enabled perhaps", 2, 'must be "true" or "false"', id="value"),
        pytest.param("pins get model.chat", 1, "model.chat is not set", id="unset pin"),
        pytest.param("pins delete model.chat", 1, "model.chat is not set", id="unset pin taken away"),
        pytest.param("budgets set --scope user --period day --limit-usd 1", 2, "id must be a text", id="no id"),
        pytest.param("budgets set --scope global --period day", 2, "Exactly one of limit_usd", id="no limit"),
        pytest.param("budgets set --scope team --period day", 2, "Invalid value for '--scope'", id="budget scope"),
        pytest.param("budgets delete --scope global --period day", 1, "no such budget", id="no such budget"),
    ],
)
def test_a_refusal_is_a_sentence_and_a_code(run: Terminal, words: str, code: int, said: str) -> None:
    assert run(*words.split()) == code

    assert said in run.err
    assert run.out == ""


def test_a_database_that_cannot_be_used_is_a_sentence(run: Terminal, folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "hermes.db").write_text("This is no database. " * 100)

    assert run("keys", "list") == 2

    assert "restore a backup" in run.err
