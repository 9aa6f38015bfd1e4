"""OpenAI's client for Node in a process of its own: installs it on demand, and puts scenarios to it one by one.

Its version is pinned with its hash in `node/package-lock.json`. It comes into `node/node_modules/`, which git ignores,
the first time that a test wants it, and again when the lock has changed.
"""

from __future__ import annotations

import fcntl
import json
import re
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent / "node"
LOCK = FOLDER / "package-lock.json"
MODULES = FOLDER / "node_modules"
INSTALLED = MODULES / ".package-lock.json"
"""What npm itself writes down of what it has installed."""

INSTALL_LIMIT_S = 120.0
SCENARIO_LIMIT_S = 15.0

OUT_OF_REACH = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED"
    r"|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN|E401|E403|E404|E5\d\d)\b"
)
HOW_TO_GET_NODE = "no {}: install Node 18 or newer (Debian: apt-get install nodejs npm)"
HOW_TO_GET_THE_SDK = "the npm registry is out of reach ({}): connect to one, then run `npm ci` in tests/e2e/node"


class Raised(Exception):
    """The client has raised an error; `told` is what its user sees of it."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told['name']}: {told['message']}")
        self.told = told


class NodeSdk:
    """The client, with one scenario at a time."""

    def __init__(self) -> None:
        self._process = self._started()

    def run(self, scenario: str, base_url: str, **arguments: Any) -> Any:
        """What a scenario of `sdk.mjs` gives.

        Raises:
            Raised: the client raised an error.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"scenario": scenario, "baseURL": base_url, **arguments}).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], SCENARIO_LIMIT_S)
        line = process.stdout.readline() if ready else b""
        if not line:
            self.close()
            self._process = self._started()  # the next test begins anew
        assert line, f"the client has ended, or says nothing for {SCENARIO_LIMIT_S:.0f} s"
        said = json.loads(line)
        if "raised" in said:
            raise Raised(said["raised"])
        return said["result"]

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    @staticmethod
    def _started() -> subprocess.Popen[bytes]:
        command = [_program("node"), "sdk.mjs"]
        return subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def install() -> None:
    """Brings the pinned client here, unless it is here; skips the tests where that is impossible."""
    with LOCK.open("rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # two runs of the tests must not install at once
        if _is_installed():
            return
        _program("node")
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000")
        done = subprocess.run(
            [_program("npm"), "ci", *options],
            cwd=FOLDER,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    if done.returncode == 0:
        return
    reason = OUT_OF_REACH.search(done.stderr)
    if reason:
        pytest.skip(HOW_TO_GET_THE_SDK.format(reason[1]))
    pytest.fail(f"npm ci has failed:\n{done.stderr}")


def _is_installed() -> bool:
    if not INSTALLED.exists():
        return False
    wanted, found = (json.loads(path.read_bytes())["packages"] for path in (LOCK, INSTALLED))
    del wanted[""]  # the folder itself
    return bool(wanted == found)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(HOW_TO_GET_NODE.format(name))
    return found
