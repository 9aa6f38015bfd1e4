"""The command line: sentences and exit codes, never a traceback; and what `serve` hands over to gunicorn."""

from __future__ import annotations

import http.client
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hermes.cli.main import COMMANDS, main
from hermes.cli.serve import demo_environment, prepared, refuse_taken_port
from hermes.cli.start import read_start
from hermes.errors import ConfigurationInvalid, StartRefused
from hermes.settings import ROOT

GOOD = """\
server: {port: 9911}
models:
  simple: {endpoints: [{model: m, base_url: "http://127.0.0.1:1/v1", api_key_envs: [KEY_A]}]}
  complex: {endpoints: [{model: n, base_url: "http://127.0.0.1:1/v1", api_key_env: ""}]}
"""
BAD = """\
models:
  simple: {endpoints: [{model: m, base_urll: "http://127.0.0.1:1/v1", api_key_env: ""}]}
  complex: {endpoints: [{model: n, base_url: "http://127.0.0.1:1/v1", api_key_envs: [NO_SUCH_ENV]}]}
"""
KEY = {"KEY_A": "provider-key-SECRET"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY_A", KEY["KEY_A"])
    return tmp_path


@pytest.fixture
def good(folder: Path) -> Path:
    path = folder / "router_config.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(folder: Path) -> Path:
    path = folder / "router_config.yaml"
    path.write_text(BAD)
    return path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# -- the command line itself ------------------------------------------------------------------------------


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--help"])

    assert code == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    "group", [[], ["config"], ["keys"], ["pins"], ["budgets"], ["usage"], ["traces"], ["surrogate"]], ids=str
)
def test_no_command_s_meaning_is_cut_on_a_terminal_of_eighty_columns(
    group: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main([*group, "--help"]) == 0

    commands = capsys.readouterr().out.partition("Commands:")[2]
    assert commands
    assert "..." not in commands


def test_a_misspelt_command_is_told_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sevre"]) == 2
    assert "Did you mean serve?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["bogus"], 2, "No such command 'bogus'", id="an unknown command"),
        pytest.param(["serve", "--port", "0"], 2, "--port", id="a port that is none"),
        pytest.param(["reload"], 2, "ROUTER_PROXY_API_KEY is not set", id="no key"),
        pytest.param(["config", "show"], 1, "does not exist", id="no configuration"),
    ],
)
def test_a_failure_is_a_sentence_and_a_code(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code

    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_an_environment_that_cannot_work_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")

    assert main(["serve"]) == 2
    assert "Set WEB_CONCURRENCY=1" in capsys.readouterr().err


@pytest.mark.parametrize("there", [pytest.param([], id="nothing"), pytest.param(["click"], id="one of them")])
def test_a_python_without_the_requirements_says_which_one_has_them(tmp_path: Path, there: list[str]) -> None:
    """The first mistake of everybody: `python -m hermes` with the machine's own Python."""
    for name in there:
        (tmp_path / name).symlink_to(Path(importlib.import_module(name).__file__ or "").parent)
    env = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}

    done = subprocess.run(
        [sys.executable, "-S", "-m", "hermes", "config", "check"], env=env, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert ".venv/bin/python -m hermes" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_line_needs_no_server_libraries() -> None:
    modules = ", ".join(["hermes.__main__", *sorted({place.partition(":")[0] for place in COMMANDS.values()})])
    code = f"import sys, {modules}; print(sorted({{'flask', 'gevent', 'sklearn', 'peewee'}} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


# -- config -----------------------------------------------------------------------------------------------


def test_a_good_file_can_be_used(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check"]) == 0
    assert "router_config.yaml can be used" in capsys.readouterr().err


def test_every_problem_of_a_bad_file_has_its_line(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(bad)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{bad}:2: models.simple.endpoints") and "base_urll" in line for line in lines)
    assert any(line.startswith(f"{bad}:3: models.complex") and "NO_SUCH_ENV" in line for line in lines)


def test_warnings_are_told_beside_problems(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad.write_text(
        BAD
        + "persona: {user_path: /no/such/USER.md}\nclassifier: {model: t, base_url: http://h/v1, system_prompt: x}\n"
    )

    assert main(["config", "check"]) == 1
    assert "(warning)" in capsys.readouterr().out
    assert main(["config", "check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["problems"]
    assert found["warnings"]


def test_problems_for_scripts(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--json"]) == 1

    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert {problem["line"] for problem in found["problems"]} == {2, 3}
    assert found["warnings"] == []


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["yaml", "json"])
def test_the_configuration_is_shown_with_defaults_and_without_secrets(
    good: Path, form: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["config", "show", *form]) == 0

    shown = capsys.readouterr().out
    assert "KEY_A" in shown
    assert "SECRET" not in shown
    assert "failure_threshold" in shown
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    assert main(["config", "check", str(again)]) == 0


# -- serve and demo ---------------------------------------------------------------------------------------


def test_serve_makes_a_key_and_shows_it_once() -> None:
    launch = prepared({}, new_key=lambda: "made-key")

    assert launch.environ["ROUTER_PROXY_API_KEY"] == "made-key"
    assert launch.message.count("made-key") == 1
    assert "http://127.0.0.1:8766/v1" in launch.message
    assert launch.argv[1:] == ("-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "app:app")
    assert launch.environ["PYTHONPATH"] == str(ROOT)


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_key_is_no_key(empty: str) -> None:
    launch = prepared({"ROUTER_PROXY_API_KEY": empty}, new_key=lambda: "made-key")

    assert launch.environ["ROUTER_PROXY_API_KEY"] == "made-key"


def test_an_empty_number_of_workers_is_not_handed_on() -> None:
    """gunicorn reads the variable by itself, and would end with a traceback."""
    assert "WEB_CONCURRENCY" not in prepared({"WEB_CONCURRENCY": ""}).environ


def test_a_key_that_is_set_is_kept_and_never_shown() -> None:
    launch = prepared({"ROUTER_PROXY_API_KEY": "own-key-SECRET"})

    assert launch.environ["ROUTER_PROXY_API_KEY"] == "own-key-SECRET"
    assert "SECRET" not in launch.message
    assert "in ROUTER_PROXY_API_KEY" in launch.message


def test_generated_keys_are_long_and_differ() -> None:
    keys = {prepared({}).environ["ROUTER_PROXY_API_KEY"] for _ in range(3)}

    assert len(keys) == 3
    assert all(len(key) >= 32 for key in keys)


def test_without_a_file_serve_says_how_to_configure_one() -> None:
    message = prepared({}).message

    assert "demo provider" in message
    assert "router_config.example.yaml" in message


def test_serve_uses_the_file(good: Path, folder: Path) -> None:
    launch = prepared(KEY)

    assert launch.start.bind == "127.0.0.1:9911"
    assert str(good) in launch.message
    assert str(folder / "data/hermes.db") in launch.message
    assert str(folder / "traces") in launch.message
    assert "curl http://127.0.0.1:9911/v1/chat/completions" in launch.message


def test_another_variable_may_hold_the_admin_key(good: Path) -> None:
    good.write_text(GOOD + "auth: {api_key_env: OTHER_KEY, require_client_key: true}\n")

    launch = prepared(KEY, new_key=lambda: "made-key")

    assert launch.environ["OTHER_KEY"] == "made-key"
    assert "ROUTER_PROXY_API_KEY" not in launch.environ
    assert "Authorization: Bearer YOUR_KEY" in launch.message


@pytest.mark.parametrize(
    ("bind", "host", "port", "expected"),
    [
        pytest.param("", None, None, "127.0.0.1:9911", id="the file's"),
        pytest.param("", None, 80, "127.0.0.1:80", id="another port"),
        pytest.param("", "0.0.0.0", None, "0.0.0.0:9911", id="another host"),
        pytest.param("", "::1", 80, "[::1]:80", id="the new protocol"),
        pytest.param("10.0.0.1:70", None, None, "10.0.0.1:70", id="the environment's"),
        pytest.param("10.0.0.1:70", None, 80, "10.0.0.1:80", id="the command line over the environment"),
    ],
)
def test_the_address(good: Path, bind: str, host: str | None, port: int | None, expected: str) -> None:
    assert prepared({**KEY, "HERMES_BIND": bind}, host, port).start.bind == expected


def test_an_address_for_all_is_shown_as_one_to_use() -> None:
    assert "http://127.0.0.1:70/v1" in prepared({"HERMES_BIND": "0.0.0.0:70"}).message


def test_a_password_of_the_database_is_not_shown() -> None:
    message = prepared({"HERMES_DATABASE_URL": "postgresql://me:SECRET@db/hermes"}).message

    assert "postgresql://***@db/hermes" in message


def test_the_demo_keeps_away_from_real_data(good: Path, folder: Path) -> None:
    """Even where a real configuration, database and spool are set."""
    real = {**KEY, "HERMES_DATABASE_URL": "sqlite:///data/hermes.db", "HERMES_SPOOL_DIR": "data/spool"}

    launch = prepared(demo_environment(real))

    assert launch.start.policy is None
    assert launch.start.settings.sqlite_path() == Path("data/demo/hermes.db")
    assert launch.start.settings.spool_path() == Path("data/demo/spool")
    assert launch.start.settings.trace_log_dir == "data/demo/traces"
    assert launch.start.bind == "127.0.0.1:8766"


def test_a_bad_file_or_log_level_ends_the_start(bad: Path) -> None:
    with pytest.raises(ConfigurationInvalid):
        read_start({})
    with pytest.raises(StartRefused, match="LOG_LEVEL"):
        read_start({"HERMES_DEMO": "1", "LOG_LEVEL": "loud"})


def test_a_named_file_that_is_missing_is_no_demo() -> None:
    with pytest.raises(ConfigurationInvalid, match="does not exist"):
        read_start({"HERMES_CONFIG": "typo.yaml"})


def test_a_taken_port_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartRefused, match="--port"):
            refuse_taken_port(f"127.0.0.1:{taken.getsockname()[1]}")


def test_a_socket_in_a_folder_that_is_not_there_is_a_sentence(folder: Path) -> None:
    with pytest.raises(StartRefused, match="there is no folder"):
        refuse_taken_port(f"unix:{folder}/run/hermes.sock")
    refuse_taken_port(f"unix:{folder}/hermes.sock")


# -- reload -----------------------------------------------------------------------------------------------


class FakeHermes(HTTPServer):
    """Answers every POST with the next of `answers`, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeHermes

    def do_POST(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, content = self.server.answers.pop(0)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHermes]:
    monkeypatch.setenv("ROUTER_PROXY_API_KEY", "admin-key")
    fake = FakeHermes()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.shutdown()
    thread.join()
    fake.server_close()


@pytest.mark.parametrize(
    ("status", "content", "code", "said"),
    [
        pytest.param(200, {"status": "reloaded", "warnings": ["w.yaml:3: x"]}, 0, "w.yaml:3: x (warning)", id="done"),
        pytest.param(
            400,
            {"error": {"message": "m"}, "errors": [{"path": "models.simple", "line": 4, "message": "is missing"}]},
            1,
            "The configuration:4: models.simple: is missing",
            id="problems",
        ),
        pytest.param(
            400,
            {
                "file": "/etc/r.yaml",
                "errors": [{"path": "a.b", "line": 4, "message": "no"}],
                "warnings": ["/etc/r.yaml:9: c: odd"],
            },
            1,
            "/etc/r.yaml:4: a.b: no\n/etc/r.yaml:9: c: odd (warning)\nThe server goes on",
            id="problems and warnings, in the form of config check",
        ),
        pytest.param(
            400, {"error": "m", "errors": [{"path": "", "line": None, "message": "x"}]}, 1, "x\n", id="no place"
        ),
        pytest.param(401, {"error": {"message": "m"}}, 1, "does not accept the admin key", id="a wrong key"),
        pytest.param(500, {"error": {"message": "it hurts"}}, 1, "answered 500: it hurts", id="an error"),
        pytest.param(502, b"<html>", 1, "answered 502: nothing that can be read", id="a page"),
    ],
)
def test_reload_shows_what_the_server_says(
    server: FakeHermes, status: int, content: Any, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [(status, content)]

    assert main(["reload", "--url", server.url]) == code

    captured = capsys.readouterr()
    assert said in captured.out + captured.err
    assert server.asked == [("/reload", "Bearer admin-key")]


def test_reload_finds_the_server_by_itself_even_if_the_file_is_broken(
    server: FakeHermes, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_BIND", f"127.0.0.1:{server.server_port}")
    server.answers = [(400, {"errors": []})]

    assert main(["reload"]) == 1
    assert server.asked


def test_reload_sends_the_key_to_no_proxy(
    server: FakeHermes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.answers = [(200, {"status": "reloaded"})]

    assert main(["reload", "--url", server.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"status": "reloaded"}


def test_reload_without_a_server_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROUTER_PROXY_API_KEY", "admin-key")

    assert main(["reload", "--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "No server answers" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["nonsense", "localhost:8766", "ftp://host", "http://", "http://h:port", "http://[h"])
def test_what_is_no_address_is_told_with_one_that_is(
    url: str, server: FakeHermes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reload", "--url", url]) == 2
    assert "no address of a server, such as http://127.0.0.1:8766" in capsys.readouterr().err
    assert server.asked == []


# -- gunicorn.conf.py, with a small application in a foreign folder ---------------------------------------

APPLICATION = """
import json, logging, sys
def app(environ, start_response):
    logging.getLogger("hermes-router").info("asked\\nfor %s", environ["PATH_INFO"])
    body = json.dumps({name: value for name, value in environ.items() if name.startswith("HTTP_X")}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
def drain():
    print("drained", file=sys.stderr, flush=True)
def close():
    print("closed", file=sys.stderr, flush=True)
"""
WRONG_APPLICATION = "raise SystemExit('the app.py of the working directory was loaded')"


def gunicorn(folder: Path, application: str = "other:app", **environ: str) -> subprocess.Popen[str]:
    (folder / "other.py").write_text(APPLICATION)
    (folder / "app.py").write_text(WRONG_APPLICATION)
    argv = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), application]
    whole = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **KEY, **environ}
    return subprocess.Popen(argv, cwd=folder, env=whole, stderr=subprocess.PIPE, text=True)


def connected(port: int) -> http.client.HTTPConnection:
    limit = time.monotonic() + 30
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.connect()
            return connection
        except ConnectionRefusedError:
            connection.close()
            assert time.monotonic() < limit
            time.sleep(0.05)


@pytest.mark.parametrize("fmt", ["plain", "json"])
def test_gunicorn_serves_logs_and_ends_as_hermes_wants(folder: Path, fmt: str) -> None:
    port = free_port()
    process = gunicorn(folder, HERMES_BIND=f"127.0.0.1:{port}", LOG_FORMAT=fmt)
    try:
        connection = connected(port)
        connection.request("GET", "/hello", headers={"X_Forged": "1", "X-Fine": "2"})
        seen = json.loads(connection.getresponse().read())
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)  # while the connection is kept alive
        _, log = process.communicate(timeout=20)
        connection.close()
    finally:
        process.kill()

    assert process.returncode == 0
    assert time.monotonic() - began < 10
    assert seen == {"HTTP_X_FINE": "2"}
    told = [line for line in log.splitlines() if line not in ("drained", "closed")]
    assert len(log.splitlines()) - len(told) == 2
    if fmt == "json":
        messages = {json.loads(line)["message"] for line in told}
        assert {json.loads(line)["logger"] for line in told} == {"gunicorn.error", "hermes-router"}
    else:
        messages = {line.partition(" INFO ")[2] for line in told}
        assert {line.split()[2] for line in told} == {"[gunicorn]", "[router]"}
    assert any(message.startswith("Starting gunicorn") for message in messages)
    assert any(message.startswith("asked") and message.endswith("for /hello") for message in messages)
    assert not (folder / ".gunicorn").exists()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        pytest.param(
            {"HERMES_CONFIG": "bad.yaml"}, ["bad.yaml:2:", "base_urll", "bad.yaml:3:", "NO_SUCH_ENV"], id="a file"
        ),
        pytest.param({"WEB_CONCURRENCY": "3"}, ["Set WEB_CONCURRENCY=1"], id="too many workers"),
        pytest.param({"WEB_CONCURRENCY": "0"}, ["WEB_CONCURRENCY must be"], id="no worker"),
        pytest.param({"HERMES_BIND": "foo"}, ["HERMES_BIND must be"], id="an address without a port"),
        pytest.param({"HERMES_GRACE_S": "inf"}, ["HERMES_GRACE_S must be"], id="an endless grace"),
        pytest.param({"LOG_FORMAT": "xml"}, ["LOG_FORMAT must be"], id="a log format"),
        pytest.param({"HERMES_CONFIG": "none.yaml"}, ["none.yaml", "does not exist"], id="a missing file"),
    ],
)
def test_gunicorn_refuses_to_start_with_sentences(folder: Path, environ: dict[str, str], said: list[str]) -> None:
    (folder / "bad.yaml").write_text(BAD)

    process = gunicorn(folder, **{"HERMES_BIND": f"127.0.0.1:{free_port()}", **environ})
    _, log = process.communicate(timeout=30)

    assert process.returncode == 3
    assert all(word in log for word in said)
    assert "Traceback" not in log
