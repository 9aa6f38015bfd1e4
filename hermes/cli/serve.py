"""`serve` and `demo`: look at everything first, say what a newcomer needs, then become gunicorn."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from hermes.cli.start import Start, read_start
from hermes.errors import StartRefused
from hermes.observe.redact import Redactor
from hermes.settings import ROOT

DEMO_FOLDER: Final = Path("data/demo")
KEY_BYTES: Final = 24
QUESTION: Final = '{"model": "auto", "messages": [{"role": "user", "content": "What is 17 × 23?"}]}'


@dataclass(frozen=True, slots=True)
class Launch:
    """A server that is ready to be started."""

    start: Start
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    message: str


@click.command()
@click.option("--host", help="Address to listen on, instead of server.host.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on, instead of server.port.")
def serve(host: str | None, port: int | None) -> None:
    """Run the server.

    Without a configuration file, the embedded demo provider answers. Where no admin key is set, one is made and shown.
    Ctrl-C ends it.
    """
    _become(prepared(os.environ, host, port))


@click.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on.")
def demo(host: str | None, port: int | None) -> None:
    """Run the server with the demo provider, whatever is configured.

    Its database, spool and traces are in data/demo, apart from your own.
    """
    _become(prepared(demo_environment(os.environ), host, port))


def demo_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a demo, which must leave no rows, traces or spool files among the real ones."""
    kept = {name: value for name, value in environ.items() if name != "HERMES_SPOOL_DIR"}
    return {
        **kept,
        "HERMES_DEMO": "1",
        "HERMES_DATABASE_URL": f"sqlite:///{DEMO_FOLDER / 'hermes.db'}",
        "TRACE_LOG_DIR": str(DEMO_FOLDER / "traces"),
    }


def prepared(
    environ: Mapping[str, str],
    host: str | None = None,
    port: int | None = None,
    new_key: Callable[[], str] = lambda: secrets.token_urlsafe(KEY_BYTES),
) -> Launch:
    """Checks all that can be checked beforehand, and makes an admin key where none is set.

    Raises:
        StartRefused, ConfigurationInvalid: the server must not start like this.
    """
    wanted = {**environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), environ.get("PYTHONPATH", "")]))}
    start = read_start(wanted)
    if not wanted.get("WEB_CONCURRENCY", "").strip():
        wanted.pop("WEB_CONCURRENCY", None)  # gunicorn takes an empty one for a number that it cannot read
    if host is not None or port is not None:
        wanted["HERMES_BIND"] = _bind(start, host, port)
        start = read_start(wanted)
    made_key = "" if wanted.get(start.admin_key_env, "").strip() else new_key()
    if made_key:
        wanted[start.admin_key_env] = made_key
    argv = (sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "app:app")
    return Launch(start, argv, wanted, announcement(start, made_key))


def announcement(start: Start, made_key: str) -> str:
    """What the operator is told at the start; the only place where a generated key is ever shown."""
    key_env = start.admin_key_env
    rows = [
        ("address", f"{start.url}/v1   (the base URL for OpenAI clients)"),
        ("dashboard", f"{start.url}/dashboard   (sign in with the admin key)"),
        ("admin key", f"{made_key}   (for this run only; set {key_env} to keep one)" if made_key else f"in {key_env}"),
        ("models", _models(start)),
        ("database", _database(start)),
        ("traces", str(Path(start.settings.trace_log_dir).absolute())),
    ]
    if not start.settings.trace_log_enabled:
        rows[-1] = ("traces", "switched off")
    needs_key = start.policy is not None and start.policy.auth.require_client_key
    key_header = " \\\n    -H 'Authorization: Bearer YOUR_KEY'" if needs_key else ""
    table = "\n".join(f"  {name:<10} {text}" for name, text in rows)
    return f"""\
Hermes starts.

{table}

Try it:

  curl {start.url}/v1/chat/completions \\
    -H 'Content-Type: application/json'{key_header} \\
    -d '{QUESTION}'

Ctrl-C ends it.
"""


def _models(start: Start) -> str:
    if start.policy is not None:
        return f"of {Path(start.policy.source).absolute()}"
    if start.settings.demo:
        return "of the embedded demo provider"
    return f"""\
of the embedded demo provider, as there is no {start.settings.config_path()} here.
             For real ones: cp {ROOT / "router_config.example.yaml"} router_config.yaml,
             name your models in it, and start again."""


def _database(start: Start) -> str:
    path = start.settings.sqlite_path()
    return str(path.absolute()) if path is not None else Redactor().clean(start.settings.database_url)


def _bind(start: Start, host: str | None, port: int | None) -> str:
    old_host, _, old_port = start.bind.rpartition(":")
    new_host = old_host if host is None else f"[{host}]" if ":" in host else host
    return f"{new_host}:{port or old_port}"


def _become(launch: Launch) -> None:
    """Replaces this process by the server, so that signals and exit codes are the server's own."""
    refuse_taken_port(launch.start.bind)
    click.echo(launch.message)
    sys.stdout.flush()
    os.execve(launch.argv[0], launch.argv, dict(launch.environ))  # noqa: S606  (our own interpreter, no shell)


def refuse_taken_port(bind: str) -> None:
    """Says at once and in plain words what gunicorn says after five tries.

    Raises:
        StartRefused: nobody can listen there.
    """
    host, _, port = bind.rpartition(":")
    if bind.startswith("unix:") and not (folder := Path(bind.removeprefix("unix:")).absolute().parent).is_dir():
        raise StartRefused(f"Nobody can listen on {bind}: there is no folder {folder}.")
    if not port.isdigit():
        return
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(port)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise StartRefused(f"Another program listens on {bind} already. Stop it, or give --port.") from None
            raise StartRefused(f"Nobody can listen on {bind}: {error.strerror or error}.") from None
