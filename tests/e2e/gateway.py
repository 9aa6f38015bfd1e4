"""Starts Hermes as an operator would, in an empty folder of its own, and looks at it from outside.

The working directory, HOME, the database, the spool and the traces are in a fresh temporary folder: Hermes must find
its own files by where they stand.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from . import client
from .client import Answer, Exchange

ROOT = Path(__file__).resolve().parent.parent.parent
ADMIN_KEY = "canary-admin-key"
START_LIMIT_S = 45.0
STOP_LIMIT_S = 8.0
COMMAND_LIMIT_S = 30.0
ROWS_LIMIT_S = 15.0
EVENTUALLY_S = 15.0
"""Far longer than anything takes where it holds, for machines that are busy with other tests."""

_users = itertools.count(1)
_T = TypeVar("_T")


class StartFailed(Exception):
    """The server ended at its start, or never became healthy; the text is what it printed."""


class Gateway:
    """A running server."""

    def __init__(
        self, config: Mapping[str, Any] | str | None, env: Mapping[str, str | None], files: int | None = None
    ) -> None:
        self.port = _free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-e2e-"))
        self._env = env
        self._files = files
        self.logs_to: int | None = None
        """Where its log goes, as a descriptor; None: into the file that `logs` reads."""

        self._process: subprocess.Popen[bytes] | None = None
        if config is not None:
            self.write_config(config)

    @classmethod
    def start(
        cls,
        config: Mapping[str, Any] | str | None = None,
        env: Mapping[str, str | None] | None = None,
        files: int | None = None,
    ) -> Gateway:
        """Starts a server and waits until it is healthy; no configuration means none, `files` how many it may open.

        Raises:
            StartFailed: it refused, or took too long.
        """
        gateway = cls(config, env or {}, files)
        try:
            gateway.spawn()
        except StartFailed:
            gateway.stop()
            raise
        return gateway

    # The process

    def spawn(self) -> None:
        """Starts the process in the folder that is there; also after a kill."""
        limited = ["prlimit", f"--nofile={self._files}"] if self._files else []
        command = [*limited, sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "app:app"]
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=self.logs_to or log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        limit = time.monotonic() + START_LIMIT_S
        while not self.is_healthy():
            if self._process.poll() is not None:
                raise StartFailed(self.logs())
            if time.monotonic() > limit:
                raise StartFailed(f"not healthy within {START_LIMIT_S:.0f} s\n{self.logs()}")
            time.sleep(0.05)

    def environment(self) -> dict[str, str]:
        """What it, and every command of its operator, is started with."""
        wanted: dict[str, str | None] = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
            "HERMES_CONFIG": str(self.folder / "router_config.yaml"),
            "HERMES_DATABASE_URL": f"sqlite:///{self.folder / 'hermes.db'}",
            "HERMES_STATE_URL": "memory://",
            "HERMES_BIND": f"127.0.0.1:{self.port}",
            "HERMES_GRACE_S": "10",
            "WEB_CONCURRENCY": "1",
            "TRACE_LOG_DIR": str(self.folder / "traces"),
            "ROUTER_PROXY_API_KEY": ADMIN_KEY,
            **self._env,
        }
        if not (self.folder / "router_config.yaml").exists():
            wanted["HERMES_CONFIG"] = None
        return {name: value for name, value in wanted.items() if value is not None}

    def command(self, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> subprocess.CompletedProcess[str]:
        """What `python -m hermes …` does in the server's folder and environment."""
        return subprocess.run(
            [sys.executable, "-m", "hermes", *arguments],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def sigterm(self) -> None:
        """Asks the master for an orderly end."""
        self._running().send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the master and its workers at once, as a power cut would."""
        process = self._running()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_LIMIT_S)

    def kill_workers(self) -> None:
        """Ends the workers at once; the master starts others."""
        for pid in self.workers():
            os.kill(pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """The processes of the workers."""
        master = self._running().pid
        return [int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text(encoding="ascii").split()]

    def wait_exit(self, limit_s: float = STOP_LIMIT_S) -> int | None:
        """The exit status, or None where it still runs."""
        try:
            return self._running().wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Ends the server at once and removes its folder; that it can end in good order is tested in one place."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was never started"
        return self._process

    # Requests

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        timeout_s: float = 15.0,
    ) -> Answer:
        """Any request; a body that is no bytes is sent as JSON."""
        return client.send(self.port, method, path, *_sent(headers, body), timeout_s)

    def open(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None) -> Exchange:
        """The same, for a caller who reads step by step."""
        return Exchange(self.port, method, path, *_sent(headers, body))

    def chat(
        self,
        text: str = "hello",
        *,
        tier: str | None = "simple",
        user: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Answer:
        """One chat completion of a user nobody else is."""
        return self.request("POST", CHAT, *chat_request(text, tier, user, headers, fields))

    def open_chat(
        self,
        text: str = "hello",
        *,
        tier: str | None = "simple",
        user: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Exchange:
        """The same, for a caller who reads step by step."""
        return self.open("POST", CHAT, *chat_request(text, tier, user, headers, fields))

    def admin(self, method: str, path: str, body: Any = None) -> Answer:
        """A request with the admin key."""
        return self.request(method, path, {"Authorization": f"Bearer {ADMIN_KEY}"}, body)

    def is_healthy(self) -> bool:
        """Whether /health answers 200."""
        try:
            return self.request("GET", "/health", timeout_s=2.0).status == 200
        except OSError:
            return False

    # What it has written

    def write_config(self, config: Mapping[str, Any] | str) -> None:
        """Replaces the configuration file; a mapping is written as JSON, which YAML contains."""
        text = config if isinstance(config, str) else json.dumps(config, indent=2)
        fresh = self.folder / "router_config.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.folder / "router_config.yaml")

    def reload(self, config: Mapping[str, Any] | str) -> Answer:
        """Puts another configuration in force."""
        self.write_config(config)
        return self.admin("POST", "/reload")

    def logs(self) -> str:
        """All that it has printed."""
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def traces(self, **fields: Any) -> list[dict[str, Any]]:
        """Every trace event with these values."""
        files = sorted((self.folder / "traces").glob("router-trace-*.jsonl*"))
        events = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        return [event for event in events if fields.items() <= event.items()]

    def usage(self, wanted: int = 1, **filters: Any) -> list[dict[str, Any]]:
        """The usage rows; waits for at least `wanted` of them, as they come to the database in batches."""

        def rows() -> list[dict[str, Any]]:
            return list(self.admin("GET", f"/admin/usage?{urlencode(filters)}").json["rows"])

        return eventually(rows, lambda found: len(found) >= wanted, ROWS_LIMIT_S)

    def row(self, answer: Answer) -> dict[str, Any]:
        """The one row of a request."""
        (row,) = self.usage(request_id=answer.request_id)
        return row

    def circuits(self) -> dict[str, dict[str, Any]]:
        """Every breaker by its model's name."""
        return {entry["model"]: entry for entry in self.admin("GET", "/circuits").json["circuits"]}

    def close_circuits(self) -> None:
        """Closes every breaker."""
        assert self.admin("POST", "/circuits/reset").status == 200


CHAT = "/v1/chat/completions"


def chat_request(
    text: str, tier: str | None, user: str | None, headers: Mapping[str, str] | None, fields: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a chat completion."""
    sent = {"X-Hermes-User": user or new_user(), **({"X-Hermes-Tier": tier} if tier else {}), **(headers or {})}
    return sent, {"model": "auto", "messages": [{"role": "user", "content": text}], **fields}


def new_user() -> str:
    """The name of a user nobody else is."""
    return f"user-{os.getpid()}-{next(_users)}"


def eventually(look: Callable[[], _T], is_right: Callable[[_T], bool], within_s: float = EVENTUALLY_S) -> _T:
    """What `look` sees as soon as it is right, or at the end of the time."""
    until = time.monotonic() + within_s
    while True:
        seen = look()
        if is_right(seen) or time.monotonic() > until:
            return seen
        time.sleep(0.03)


def _sent(headers: Mapping[str, str] | None, body: Any) -> tuple[dict[str, str], bytes | None]:
    sent = dict(headers or {})
    if body is None or isinstance(body, bytes):
        return sent, body
    sent.setdefault("Content-Type", "application/json")
    return sent, json.dumps(body, ensure_ascii=False).encode()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
