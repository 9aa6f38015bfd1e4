"""OpenAI's client for Node in a process of its own, in the version of `node/package-lock.json`: scenarios are put to it
one by one.
"""

from __future__ import annotations

import json
import select
import subprocess
from pathlib import Path
from typing import Any

from . import npm

FOLDER = Path(__file__).resolve().parent / "node"
SCENARIO_LIMIT_S = 15.0


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
        command = [npm.program("node"), "sdk.mjs"]
        return subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def install() -> None:
    """Brings the pinned client here, unless it is here; skips the tests where that is impossible."""
    npm.install(FOLDER)
