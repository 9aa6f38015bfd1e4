"""`reload`: tells the running server to read its configuration anew, and shows what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import click
import requests

from hermes.cli.start import Start, read_start
from hermes.errors import ConfigurationInvalid, HermesError, Problem, StartRefused
from hermes.settings import Settings

TIMEOUT_S: Final = 30.0
EXAMPLE_URL: Final = "http://127.0.0.1:8766"


@click.command()
@click.option("--url", help=f"The server's address, such as {EXAMPLE_URL}; else what this environment says.")
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer for scripts.")
def reload(url: str | None, as_json: bool) -> int:
    """Let the running server read its configuration anew.

    A file with problems changes nothing; they are printed. The server's admin key is taken from the environment:
    ROUTER_PROXY_API_KEY, or the variable that auth.api_key_env names.
    """
    _check_url(url)
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


def _check_url(url: str | None) -> None:
    """
    Raises:
        click.BadParameter: it is none; a server's answer would say less.
    """
    try:
        parts = urlsplit(url or "http://host")
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise click.BadParameter(f"{url!r} is no address of a server, such as {EXAMPLE_URL}", param_hint="'--url'")


def complaints(status: int, answer: Mapping[str, Any], key_env: str) -> list[str]:
    """What a refusal means: the problems of the file, or a sentence."""
    if status == 401:
        return [f"The server does not accept the admin key in {key_env}."]
    problems = answer.get("errors")
    if isinstance(problems, list) and problems:
        found = [_problem(problem) for problem in problems if isinstance(problem, dict)]
        lines = ConfigurationInvalid(str(answer.get("file") or "The configuration"), found).lines()
        warnings = [f"{warning} (warning)" for warning in answer.get("warnings") or ()]
        return [*lines, *warnings, "The server goes on with the configuration it had."]
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return [f"The server answered {status}: {message or 'nothing that can be read'}"]


def _problem(problem: Mapping[str, Any]) -> Problem:
    line = problem.get("line")
    return Problem(str(problem.get("path") or ""), line if isinstance(line, int) else None, str(problem.get("message")))


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
            raise HermesError(f"No server answers at {url}: {_reason(error)}.") from None
    return answer.status_code, content if isinstance(content, dict) else {}


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout):
        return f"it took more than {TIMEOUT_S:.0f} s"
    if isinstance(error, requests.ConnectionError):
        return "the connection was refused or lost"
    return type(error).__name__
