"""Packages of npm for the tests: pinned with their hashes in a folder's `package-lock.json`, and installed on demand.

They come into the folder's `node_modules/`, which git ignores, the first time that a test wants them, and again when
the lock has changed.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL_LIMIT_S = 300.0

OUT_OF_REACH = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED"
    r"|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN|E401|E403|E404|E5\d\d)\b"
)
HOW_TO_GET_NODE = "no {}: install Node 18 or newer (Debian: apt-get install nodejs npm)"
HOW_TO_GET_THEM = "the npm registry is out of reach ({}): connect to one, then run `npm ci` in {}"


def install(folder: Path) -> None:
    """Brings what the folder's lock names here, unless it is here; skips the tests where that is impossible."""
    with (folder / "package-lock.json").open("rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # two runs of the tests must not install at once
        if _is_installed(folder):
            return
        program("node")
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000")
        done = subprocess.run(
            [program("npm"), "ci", *options],
            cwd=folder,
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
        pytest.skip(HOW_TO_GET_THEM.format(reason[1], folder))
    pytest.fail(f"npm ci has failed:\n{done.stderr}")


def _is_installed(folder: Path) -> bool:
    """By what npm itself writes down of what it has installed; of optional packages only this machine's are there."""
    written = folder / "node_modules" / ".package-lock.json"
    if not written.exists():
        return False
    wanted, found = (json.loads(path.read_bytes())["packages"] for path in (folder / "package-lock.json", written))
    del wanted[""]  # the folder itself
    return bool(wanted.items() >= found.items()) and all(
        entry.get("optional") for name, entry in wanted.items() if name not in found
    )


def program(name: str) -> str:
    """The path of `node` or `npm`; skips the tests where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(HOW_TO_GET_NODE.format(name))
    return found
