"""The shipped clients in processes of their own: `clients/aiClient.ts` in Node and in Deno, `clients/hermes_client.py`.

Each is driven line by line by a program in `runtimes/`, and all are asked the same.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import npm
from .gateway import ROOT

RUNTIMES = Path(__file__).resolve().parent / "runtimes"
CLIENTS = ROOT / "clients"
CALL_LIMIT_S = 20.0
COMPILE_LIMIT_S = 60.0

STRICT = [
    *("--strict", "--erasableSyntaxOnly", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"),
    *(
        "--noUnusedLocals",
        "--noPropertyAccessFromIndexSignature",
        "--moduleResolution",
        "bundler",
        "--module",
        "esnext",
    ),
    *("--target", "es2022", "--lib", "es2022,dom,dom.iterable,dom.asynciterable"),
]
"""What no project's own settings are stricter than."""


class AiClient:
    """One of the clients, with one call at a time."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, line: dict[str, Any]) -> dict[str, Any]:
        """What came of a call: `answer` or `pieces` or `raised`, and what was asked `direct`ly."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], CALL_LIMIT_S)
        said = process.stdout.readline() if ready else b""
        if not said:
            self.close()  # the next test begins anew
        assert said, f"the client has ended, or says nothing for {CALL_LIMIT_S:.0f} s"
        return dict(json.loads(said))

    def close(self) -> None:
        """Ends the process; whoever asks then gets another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(),
            cwd=self._folder,
            env=_environment(self._folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _command(self) -> list[str]:
        if self.name == "python":
            return [sys.executable, str(RUNTIMES / "driver.py"), str(CLIENTS)]
        npm.install(RUNTIMES)
        if self.name == "deno":
            rights = [
                "--allow-net=127.0.0.1",
                "--allow-env",
                "--allow-read",
                "--no-prompt",
                "--no-remote",
                "--no-config",
            ]
            return [*deno(), "run", *rights, str(RUNTIMES / "driver.mjs"), str(CLIENTS / "aiClient.ts")]
        return [npm.program("node"), str(RUNTIMES / "driver.mjs"), str(compiled(self._folder))]


def deno() -> list[str]:
    """How Deno is called. Its npm package's script looks the binary of this machine up."""
    return [npm.program("node"), str(RUNTIMES / "node_modules" / "deno" / "bin.cjs")]


def compiled(folder: Path) -> Path:
    """`aiClient.ts` as a module for any Node: its types are checked, and taken out; once in a folder."""
    made = folder / "aiClient.mjs"
    if made.exists():
        return made
    tsc = [npm.program("node"), str(RUNTIMES / "node_modules" / "typescript" / "bin" / "tsc")]
    command = [*tsc, *STRICT, "--outDir", str(folder), str(CLIENTS / "aiClient.ts")]
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMPILE_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return (folder / "aiClient.js").replace(made)


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "DENO_DIR": str(folder / "deno"),
        "DENO_NO_UPDATE_CHECK": "1",
    }
