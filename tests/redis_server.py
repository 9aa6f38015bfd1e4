"""A private Redis that keeps nothing on disk, and that tests may hang, kill and start again."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from types import TracebackType
from typing import Any

import pytest
import redis

HOW_TO_GET_REDIS = "no redis-server: install it (Debian: apt-get install redis-server)"
START_LIMIT_S = 10.0


class RedisServer:
    """One `redis-server` on a port of its own."""

    def __init__(self, *options: str) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(HOW_TO_GET_REDIS)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port: int = sock.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", "/", *options]
        self._command += ["--save", "", "--appendonly", "no", "--loglevel", "warning"]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it, empty."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        limit = time.monotonic() + START_LIMIT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            if self._process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError("redis-server does not start")
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(5)
            self._process = None

    def hang(self) -> None:
        """It accepts connections and says nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It works again, with what it had."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def recover(self) -> None:
        """It works again, whatever a test has done to it."""
        if self._process is None:
            self.start()
        self.go_on()

    def ask(self, *command: Any, password: str | None = None) -> Any:
        """What it replies to a command, in bytes."""
        with redis.Redis(port=self.port, password=password) as client:
            return client.execute_command(*command)
