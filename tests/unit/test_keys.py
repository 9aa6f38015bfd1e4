"""API keys cannot be guessed or read from what is kept; definitions are refused field by field."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.admission.budget_form import parse_budget, parse_budget_name, shown_budget
from hermes.admission.keys import (
    KeyDigest,
    looks_like_key,
    new_key,
    parse_new_key,
    server_secret,
    shown_part,
)
from hermes.admission.pins import check_key, checked_value, in_force
from hermes.directory import Budget, Directory, NewKey
from hermes.errors import InvalidRequest, StartRefused
from hermes.observe.redact import Redactor
from hermes.policy import GatewayPolicy, Policy
from hermes.settings import ROOT, Settings
from hermes.types import Cascade, Endpoint, RateLimits

NOW = 1_800_000_000.0
ROLES = ("chat", "reasoning")

# -- keys -------------------------------------------------------------------------------------------------


def test_a_key_is_a_prefix_and_256_random_bits() -> None:
    made = {new_key() for _ in range(100)}

    assert len(made) == 100
    assert all(re.fullmatch(r"hk_[A-Za-z0-9_-]{43}", key) for key in made)
    assert all(looks_like_key(key) for key in made)


def test_a_log_that_holds_a_key_by_mistake_does_not_show_it() -> None:
    key = new_key()

    cleaned = Redactor().clean(f"Authorization was {key}, said the client")

    assert key[3:] not in cleaned
    assert Redactor().clean(f"{shown_part(key)}… of k_11632f7dcecb") == f"{shown_part(key)}… of k_11632f7dcecb"


def test_the_digest_is_hmac_sha256_under_the_servers_secret() -> None:
    digest = KeyDigest(b"secret")

    assert digest("hk_ключ") == hmac.new(b"secret", "hk_ключ".encode(), hashlib.sha256).hexdigest()
    assert digest("hk_ключ") == digest("hk_ключ"), "it keeps nothing of the last one"
    assert digest("a") != KeyDigest(b"other")("a")


@pytest.mark.parametrize("text", ["", "dummy", "sk-" + "a" * 43, "hk_", "hk_" + "a" * 42, "hk_" + "a" * 44])
def test_what_is_no_key_is_not_looked_up(text: str) -> None:
    assert not looks_like_key(text)


# -- the server's secret ----------------------------------------------------------------------------------


def test_the_given_secret_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    assert server_secret("x" * 16, tmp_path) == b"x" * 16
    assert list(tmp_path.iterdir()) == []


def test_a_secret_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    first = server_secret("", folder)

    assert re.fullmatch(rb"[0-9a-f]{64}", first)
    assert server_secret("", folder) == first
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret"]


def test_the_files_content_can_be_given_to_a_second_machine(tmp_path: Path) -> None:
    made = server_secret("", tmp_path)

    given = Settings.from_env({"HERMES_SECRET": (tmp_path / "secret").read_text()}).secret

    assert server_secret(given, tmp_path / "elsewhere") == made


def test_processes_that_start_at_once_get_the_same_secret(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from hermes.admission.keys import server_secret\n"
        "sys.stdin.readline(); print(server_secret('', Path(sys.argv[1])).decode())"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "data")],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(4)
    ]

    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = {worker.communicate(timeout=30)[0] for worker in workers}

    assert said == {(tmp_path / "data" / "secret").read_text()}
    assert len(list((tmp_path / "data").iterdir())) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"", "damaged. Restore it from a backup", id="empty"),
        pytest.param(b"short\n", "damaged. Restore it from a backup", id="short"),
        pytest.param(b"\xff" * 32, "cannot be used: it is no text", id="bytes"),
    ],
)
def test_a_damaged_secret_stops_the_start(tmp_path: Path, content: bytes, sentence: str) -> None:
    """A new one in its place would silently lock every client out."""
    (tmp_path / "secret").write_bytes(content)

    with pytest.raises(StartRefused, match=sentence):
        server_secret("", tmp_path)

    assert (tmp_path / "secret").read_bytes() == content


def test_a_folder_that_cannot_be_written_to_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StartRefused, match=r"secret.*cannot be used.*HERMES_SECRET"):
        server_secret("", tmp_path / "file")


def test_a_short_secret_is_refused_and_none_is_ever_printed() -> None:
    with pytest.raises(StartRefused, match="at least 16 characters"):
        Settings.from_env({"HERMES_SECRET": "canary"})

    assert "canary" not in repr(Settings.from_env({"HERMES_SECRET": "canary-canary-canary"}))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        pytest.param({}, "data", id="by default"),
        pytest.param({"HERMES_DATABASE_URL": "sqlite:////srv/h.db", "HERMES_SPOOL_DIR": "/s/p"}, "/srv", id="SQLite"),
        pytest.param({"HERMES_DATABASE_URL": "postgresql://db/h"}, "data", id="Postgres"),
        pytest.param(
            {"HERMES_DATABASE_URL": "postgresql://db/h", "HERMES_SPOOL_DIR": "/s/p"}, "/s", id="Postgres with a spool"
        ),
    ],
)
def test_the_secret_is_beside_the_data(environ: dict[str, str], folder: str) -> None:
    assert str(Settings.from_env(environ).data_folder()) == folder


# -- what may be said of a new key ------------------------------------------------------------------------


def test_a_new_key_may_say_all_or_only_what_it_must() -> None:
    whole = {
        "name": " svc ",
        "scopes": ["gateway", "router"],
        "roles": ["chat"],
        "expires_at": "2027-01-15T09:00:00+01:00",
        "limits": {"requests_per_minute": 5},
    }

    assert parse_new_key({"name": "svc", "scopes": ["admin"], "roles": None}, ROLES) == NewKey(
        "svc", frozenset({"admin"})
    )
    assert parse_new_key(whole, ROLES, now=NOW - 1) == NewKey(
        "svc", frozenset({"gateway", "router"}), frozenset({"chat"}), NOW, RateLimits(5, 0, 0)
    )


def test_where_the_roles_are_not_known_every_role_passes() -> None:
    assert parse_new_key({"name": "n", "scopes": ["gateway"], "roles": ["x"]}, None).roles == frozenset({"x"})


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"name": None}, "name"),
        ({"name": " "}, "name"),
        ({"name": 5}, "name"),
        ({"name": "n" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"scopes": None}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": "router"}, "scopes"),
        ({"scopes": ["router", "root"]}, "scopes"),
        ({"scopes": [["router"]]}, "scopes"),
        ({"roles": []}, "roles"),
        ({"roles": ["poet"]}, "roles"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": 1_900_000_000}, "expires_at"),
        ({"expires_at": "2026-01-01"}, "expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-10:00"}, "expires_at"),
        ({"expires_at": "0001-01-01T00:00:00+10:00"}, "expires_at"),
        ({"limits": 5}, "limits"),
        ({"limits": {"requests": 5}}, "limits.requests"),
        ({"limits": {"concurrent": -1}}, "limits.concurrent"),
        ({"limits": {"concurrent": 1.5}}, "limits.concurrent"),
        ({"limits": {"concurrent": True}}, "limits.concurrent"),
        ({"limits": {"tokens_per_minute": 2**31}}, "limits.tokens_per_minute"),
        ({"scope": ["router"]}, "scope"),
        ({"key": "hk_mine"}, "key"),
    ],
)
def test_a_wrong_field_of_a_new_key_is_named(change: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_new_key({"name": "svc", "scopes": ["router"], **change}, ROLES, now=NOW)

    assert refused.value.param == param
    assert param in refused.value.message


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        parse_new_key(body, ROLES)


def test_a_misspelt_field_gets_a_suggestion() -> None:
    with pytest.raises(InvalidRequest, match=r"limit is no field of this; did you mean limits\?"):
        parse_new_key({"name": "svc", "scopes": ["router"], "limit": 1}, ROLES)


# -- pins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("ai.gateway.enabled", "false", "false"),
        ("ai.gateway.enabled", " Off ", "false"),
        ("ai.gateway.enabled", "1", "true"),
        ("model.chat", " gpt-4o ", "gpt-4o"),
        ("model.reasoning", "@cf/meta/llama-3", "@cf/meta/llama-3"),
        ("model.chat.target", "gpt-5", "gpt-5"),
        ("model.chat.target.sample_rate", "0.1", "0.1"),
        ("model.chat.target.sample_rate", "0", "0"),
        ("model.chat.target.sample_rate", "1.0", "1.0"),
    ],
)
def test_a_pin_is_stored_as_text(key: str, value: str, stored: str) -> None:
    check_key(key, ROLES)

    assert checked_value(key, value) == stored


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ai.gateway.enabled", "maybe"),
        ("ai.gateway.enabled", False),
        ("ai.gateway.enabled", None),
        ("model.chat", ""),
        ("model.chat", " "),
        ("model.chat", 5),
        ("model.chat", "a\nb"),
        ("model.chat", "m" * 201),
        ("model.chat.target.sample_rate", 0.1),
        ("model.chat.target.sample_rate", "1.1"),
        ("model.chat.target.sample_rate", "-0.1"),
        ("model.chat.target.sample_rate", "nan"),
        ("model.chat.target.sample_rate", "half"),
        ("model.chat.target.sample_rate", "1_0e-1"),
    ],
)
def test_a_value_that_a_pin_cannot_have_is_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_value(key, value)

    assert refused.value.param == "value"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "pins are"),
        ("model", "pins are"),
        ("model.", "pins are"),
        ("model.target", "no role 'target'"),
        ("model.poet", "no role 'poet'; roles are chat, reasoning"),
        ("model.chat.sample_rate", "no role 'chat.sample_rate'"),
        ("model.chat\0", "pins are"),
        ("ai.gateway.enable", "model.<role>.target.sample_rate, ai.gateway.enabled"),
        ("x" * 5000, "pins are"),
    ],
)
def test_a_pin_that_there_is_not_is_refused_with_those_that_there_are(key: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_key(key, ROLES)

    assert said in refused.value.message
    assert len(refused.value.message) < 300


def test_what_is_in_force_is_the_pin_or_the_first_endpoint_of_the_roles_tier() -> None:
    cheap, dear = (Endpoint(name, name, "http://x/v1", "http://x/v1") for name in ("cheap", "dear"))
    policy = Policy(
        {"simple": Cascade("simple", (cheap,), 1.0), "complex": Cascade("complex", (dear, cheap), 1.0)},
        gateway=GatewayPolicy({"chat": "simple", "reasoning": "complex"}),
    )
    pins = {"model.chat": "pinned", "model.reasoning.target": "candidate", "model.gone": "old"}

    assert in_force(policy, Directory(pins=pins), is_enabled=True) == {
        "model.chat": "pinned",
        "model.reasoning": "dear",
        "ai.gateway.enabled": True,
    }


# -- budgets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "budget"),
    [
        pytest.param(
            {"scope": "user", "id": "alice", "period": "month", "limit_usd": 0.1, "action": "warn"},
            Budget("user", "alice", "month", "usd", 100_000_000, "warn"),
            id="USD exactly",
        ),
        pytest.param(
            {"scope": "user", "id": "a", "period": "day", "limit_usd": 0.1 + 0.2},
            Budget("user", "a", "day", "usd", 300_000_000),
            id="a sum of binary fractions",
        ),
        pytest.param(
            {"scope": "key", "id": "*", "period": "week", "limit_tokens": 10**15, "warn_share": 1},
            Budget("key", "*", "week", "tokens", 10**15, "block", 1.0),
            id="each key",
        ),
        pytest.param(
            {"scope": "global", "period": "day", "limit_requests": 0, "action": "downgrade"},
            Budget("global", "", "day", "requests", 0, "downgrade"),
            id="global",
        ),
        pytest.param(
            {"scope": "global", "id": "*", "period": "day", "limit_requests": 3},
            Budget("global", "", "day", "requests", 3),
            id="global, written as each",
        ),
    ],
)
def test_a_budget_is_read(body: dict[str, Any], budget: Budget) -> None:
    assert parse_budget(body) == budget
    assert parse_budget(shown_budget(budget)) == budget, "what is shown can be sent again"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"scope": "team"}, "scope"),
        ({"scope": None}, "scope"),
        ({"id": ""}, "id"),
        ({"id": None}, "id"),
        ({"id": 5}, "id"),
        ({"id": "a\0"}, "id"),
        ({"id": "a" * 257}, "id"),
        ({"scope": "global"}, "id"),
        ({"period": "year"}, "period"),
        ({"period": None}, "period"),
        ({"limit_usd": None}, "limit_usd"),
        ({"limit_usd": -1}, "limit_usd"),
        ({"limit_usd": "5"}, "limit_usd"),
        ({"limit_usd": True}, "limit_usd"),
        ({"limit_usd": float("nan")}, "limit_usd"),
        ({"limit_usd": 1e10}, "limit_usd"),
        ({"limit_usd": 10**400}, "limit_usd"),
        ({"limit_tokens": 5}, "limit_tokens"),
        ({"limit_usd": None, "limit_tokens": 1.5}, "limit_tokens"),
        ({"limit_usd": None, "limit_requests": 10**16}, "limit_requests"),
        ({"action": "stop"}, "action"),
        ({"warn_share": 1.5}, "warn_share"),
        ({"limit": 5}, "limit"),
    ],
)
def test_a_wrong_field_of_a_budget_is_named(change: dict[str, Any], param: str) -> None:
    body = {"scope": "user", "id": "alice", "period": "month", "limit_usd": 5, "action": "block", **change}

    with pytest.raises(InvalidRequest) as refused:
        parse_budget(body)

    assert refused.value.param == param
    assert param in refused.value.message


def test_a_budget_is_named_by_scope_id_and_period() -> None:
    assert parse_budget_name({"scope": "user", "id": "a", "period": "day"}) == ("user", "a", "day")
    assert parse_budget_name({"scope": "global", "period": "day"}) == ("global", "", "day")
    with pytest.raises(InvalidRequest, match="limit_usd is no field"):
        parse_budget_name({"scope": "global", "period": "day", "limit_usd": 1})


def test_a_secret_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()

    with pytest.raises(StartRefused, match="Is a directory"):
        server_secret("", tmp_path)
