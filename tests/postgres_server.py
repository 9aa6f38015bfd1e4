"""A private Postgres on a port of its own, which tests may hang, kill and start again; and where its programs are."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

HOW_TO_GET_POSTGRES = (
    "no Postgres: set HERMES_TEST_POSTGRES_URL to a server, or install one (Debian: apt-get install postgresql)"
)
START_LIMIT_S = 20.0
STARTS_ANEW = 3
"""How often a start is tried: it is refused while the last process of one that was killed is still ending."""


class PostgresServer:
    """One cluster with an empty database `hermes`; its data outlives a kill."""

    def __init__(self) -> None:
        programs = postgres_programs()
        if programs is None:
            pytest.skip(HOW_TO_GET_POSTGRES)
        self._folder = Path(tempfile.mkdtemp(prefix="hermes-pg-"))
        self._program = programs / "postgres"
        self._process: subprocess.Popen[bytes] | None = None
        self._is_hung = False
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port: int = sock.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        if os.geteuid() == 0:
            shutil.chown(self._folder, "postgres")
        cluster = self._folder / "cluster"
        as_postgres(programs / "initdb", "-D", cluster, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Starts it with what it had."""
        for _ in range(STARTS_ANEW):
            self._spawn()
            if self._is_up():
                return
        raise RuntimeError(f"Postgres does not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Ends it and its children at once."""
        if self._process is not None:
            for pid in self._pids():
                _signal(pid, signal.SIGKILL)
            self._process.wait(5)
            self._process, self._is_hung = None, False

    def hang(self) -> None:
        """It accepts connections and says nothing any more."""
        self._is_hung = True
        for pid in self._pids():  # the postmaster first, so that no child comes meanwhile
            _signal(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """It works again."""
        for pid in self._pids():
            _signal(pid, signal.SIGCONT)
        self._is_hung = False

    def recover(self) -> None:
        """It works again, whatever a test has done to it."""
        if self._process is None:
            self.start()
        elif self._is_hung:
            self.go_on()

    def close(self) -> None:
        """Ends it and removes its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self) -> None:
        options = ["listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self._folder}"]
        options += ["fsync=off", "max_connections=60"]
        command = [str(self._program), "-D", str(self._folder / "cluster"), *(f"-c{option}" for option in options)]
        as_whom = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **as_whom,  # type: ignore[call-overload]
            )

    def _is_up(self) -> bool:
        assert self._process is not None
        limit = time.monotonic() + START_LIMIT_S
        while self._process.poll() is None and time.monotonic() < limit:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url, connect_timeout=2):
                return True
            time.sleep(0.05)
        return False

    def _pids(self) -> list[int]:
        """The postmaster, then its children."""
        assert self._process is not None
        pid = self._process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())]


def postgres_programs() -> Path | None:
    """The folder of Postgres's programs; Debian keeps it out of the PATH. None: there are none that can be used."""
    found = shutil.which("initdb")
    candidates = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    usable = [folder for folder in candidates if (folder / "initdb").exists()]
    may_switch = os.geteuid() != 0 or (shutil.which("runuser") and _has_user("postgres"))
    return usable[0] if usable and may_switch else None


def as_postgres(*command: object) -> None:
    """Runs a program of Postgres, which refuses to be root."""
    switch = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    # Output goes to a file and not to a pipe, which the server would inherit and keep open.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [*switch, *map(str, command)], stdout=output, stderr=output, cwd="/", timeout=60, check=False
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(output.read().decode())


def _has_user(name: str) -> bool:
    return subprocess.run(["id", name], capture_output=True, check=False).returncode == 0


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
