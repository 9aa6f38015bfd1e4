"""`reload`: tells the running server to read its configuration anew, and shows what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import click
import requests

from hermes.cli.start import Start, read_start
from hermes.errors import ConfigurationInvalid, StartRefused
from hermes.settings import Settings

TIMEOUT_S: Final = 30.0


@click.command()
@click.option("--url", help="The server's address; else what this environment and its configuration say.")
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer for scripts.")
def reload(url: str | None, as_json: bool) -> int:
    """Let the running server read its configuration file anew. A file with problems changes nothing."""
    start = _start(os.environ)
    key = os.environ.get(start.admin_key_env, "").strip()
    if not key:
        raise StartRefused(f"{start.admin_key_env} is not set; it must hold the running server's admin key.")
    base_url = (url or start.url).rstrip("/")
    status, answer = _post(f"{base_url}/reload", key)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
    elif status == 200:
        for warning in answer.get("warnings") or ():
            click.echo(f"{warning} (warning)")
        click.echo(f"{base_url} uses the configuration as it is now.")
    else:
        for line in complaints(status, answer, start.admin_key_env):
            click.echo(line, err=True)
    return 0 if status == 200 else 1


def complaints(status: int, answer: Mapping[str, Any], key_env: str) -> list[str]:
    """What a refusal means: the problems of the file, or a sentence."""
    if status == 401:
        return [f"The server does not accept the admin key in {key_env}."]
    problems = answer.get("errors")
    if isinstance(problems, list) and problems:
        lines = [_problem(problem) for problem in problems if isinstance(problem, dict)]
        return [*lines, "The server goes on with the configuration it had."]
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return [f"The server answered {status}: {message or 'nothing that can be read'}"]


def _problem(problem: Mapping[str, Any]) -> str:
    place = ":".join(
        str(part) for part in (problem.get("line") and f"line {problem['line']}", problem.get("path")) if part
    )
    return f"{place}: {problem.get('message')}" if place else str(problem.get("message"))


def _start(environ: Mapping[str, str]) -> Start:
    """Where the server is; a broken file is what the server shall complain about, so here it only hides the address."""
    try:
        return read_start(environ)
    except ConfigurationInvalid:
        return Start(Settings.from_env(environ), None)


def _post(url: str, key: str) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of the answer, empty where it is none."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy must not see the admin key, nor a `.netrc` replace it
        try:
            answer = session.post(
                url, headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT_S, allow_redirects=False
            )
            content = answer.json()
        except requests.JSONDecodeError:
            content = None
        except (requests.RequestException, ValueError) as error:
            raise StartRefused(f"No server answers at {url}: {_reason(error)}.") from None
    return answer.status_code, content if isinstance(content, dict) else {}


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout):
        return f"it took more than {TIMEOUT_S:.0f} s"
    if isinstance(error, requests.ConnectionError):
        return "the connection was refused or lost"
    return type(error).__name__
