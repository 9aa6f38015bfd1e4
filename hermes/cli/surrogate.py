"""`surrogate`: fits the learned classifier on this installation's own traffic, shows how it does, takes it back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import requests
from rich.console import Console
from rich.progress import Progress

from hermes.cli.directory import say_json
from hermes.cli.start import Start, read_start
from hermes.errors import HermesError

if TYPE_CHECKING:
    from hermes.learning.job import Done, Place

SERVER_WAIT_S: Final = 15.0
ASK_EVERY_S: Final = 0.5
ASK_TIMEOUT_S: Final = 5.0
REPORT_HOURS: Final = 168.0

FIT_OPTIONS: Final = (
    click.option(
        "--target",
        type=click.FloatRange(0.5, 0.999),
        help="Of the verdicts that it accepts, so many must be the teacher's; else classifier.surrogate.target.",
    ),
    click.option(
        "--prefer-embeddings", is_flag=True, help="Take sentence embeddings if they are within 5 points of accuracy."
    ),
    click.option(
        "--embeddings",
        type=click.Choice(("minilm", "e5", "none")),
        default="minilm",
        show_default=True,
        help="Which embedding model; e5 is slower and knows many languages.",
    ),
    click.option("--from", "source", metavar="DIR|DB", help="Traces or a database; else those of this environment."),
    click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes that fit."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts."),
)


def _fit_options(command: Any) -> Any:
    for option in reversed(FIT_OPTIONS):
        command = option(command)
    return command


@click.group()
def surrogate() -> None:
    """Fit the learned classifier on your own traffic."""


@surrogate.command()
@_fit_options
def fit(**options: Any) -> int:
    """Fit on what the teacher has said; take it if better.

    Only the teacher's own verdicts count. A running server takes the new version up within a second or two, without a
    restart. Where there is too little to learn from, or the new version is not better, nothing changes, the sentence
    says why, and the exit code is 1.
    """
    place = _place()
    return _show(place, _fitted(place, options), options["as_json"], None)


@surrogate.command()
@_fit_options
def refit(**options: Any) -> int:
    """Fit, and go back if the server does not take it up.

    For a timer: one command that is safe to call every week. The server's admin key is taken from the environment.
    """
    start = read_start(os.environ)
    place = _place()
    done = _fitted(place, options)
    try:
        seen = await_version(start, done.version)
    except HermesError as failed:
        place.versions.put_in_force(done.before)
        place.versions.drop(done.version)
        raise HermesError(f"{failed.message} Went back to {done.before or 'the surrogate that ships'}.") from None
    return _show(place, done, options["as_json"], seen)


@surrogate.command()
@click.option(
    "--hours", type=click.FloatRange(0, min_open=True), default=REPORT_HOURS, show_default=True, help="How far back."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def report(hours: float, as_json: bool) -> int:
    """Show coverage, agreement and mistakes.

    It is read from the database, so no server need run.
    """
    # Here, as everywhere below: other commands and their help must not wait for these libraries.
    from hermes.cli.surrogate_report import lines
    from hermes.learning.job import opened
    from hermes.learning.live import Learning
    from hermes.policy import RoutingPolicy
    from hermes.routing.surrogates import Surrogates
    from hermes.storage.classified import ClassifiedRepository
    from hermes.storage.labels import LabelRepository

    place = _place()
    routing = place.policy.routing if place.policy is not None else RoutingPolicy()
    with opened(place.settings.database_url) as database:
        learning = Learning(Surrogates(), LabelRepository(database), ClassifiedRepository(database))
        learning.follow(routing.surrogate)
        content = learning.report(routing, hours)
    if as_json:
        say_json(content)
        return 0
    for line in lines(content, place.versions.names(), place.remark):
        click.echo(line)
    return 0


@surrogate.command()
@click.option("--to", help="Which version, or `starter`; else the one before the one in force.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def rollback(to: str | None, as_json: bool) -> int:
    """Go back to the version before.

    A running server follows within a second or two.
    """
    was, now = _place().versions.roll_back(to)
    if as_json:
        say_json({"was": was, "now": now or "starter"})
    else:
        click.echo(f"{now or 'The surrogate that ships with Hermes'} decides from now on, instead of {was or 'it'}.")
    return 0


def await_version(start: Start, version: str, wait_s: float = SERVER_WAIT_S) -> str | None:
    """What the running server says about a version, once it decides there; None: no server can be asked.

    Raises:
        HermesError: a server runs, and does not take it up.
    """
    key = os.environ.get(start.admin_key_env, "").strip()
    until = time.monotonic() + wait_s
    said: Any = None
    while key and time.monotonic() < until:
        with requests.Session() as session:
            session.trust_env = False  # a proxy must not see the admin key
            try:
                answer = session.get(
                    f"{start.url}/classifier/report?hours=1",
                    headers={"Authorization": f"Bearer {key}"},
                    timeout=ASK_TIMEOUT_S,
                    allow_redirects=False,
                )
            except requests.ConnectionError:
                return None
            except requests.RequestException as error:
                said = type(error).__name__
            else:
                content = answer.json() if answer.status_code == 200 else {}
                said = (content.get("surrogate") or {}).get("model") if content else f"status {answer.status_code}"
                if str(said).startswith(f"{version}@"):
                    return str(said)
        time.sleep(ASK_EVERY_S)
    if key:
        raise HermesError(
            f"The server at {start.url} did not take up {version} within {wait_s:.0f} s (it says: {said})."
        )
    return None


def _place() -> Place:
    from hermes.learning.job import Place

    start = read_start(os.environ)
    return Place(start.settings, start.policy)


def _fitted(place: Place, options: dict[str, Any]) -> Done:
    from hermes.learning.fitting import Options
    from hermes.learning.job import run

    wanted = Options(
        target=options["target"] or place.surrogate.target,
        prefer_embeddings=options["prefer_embeddings"],
        embeddings=None if options["embeddings"] == "none" else options["embeddings"],
        jobs=options["jobs"],
    )
    try:
        with progress() as track:
            return run(place, wanted, track, options["source"])
    except HermesError as refused:
        if options["as_json"]:
            say_json({"replaced": False, "reason": refused.message})
        raise


@contextmanager
def progress() -> Iterator[Any]:
    """A bar for each long piece of work, where there is a terminal to show it on."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        yield lambda steps, total, description: progress.track(steps, total=total, description=description)


def _show(place: Place, done: Done, as_json: bool, seen: str | None) -> int:
    from hermes.learning.live import shown

    about = shown(done.fitted.manifest)
    if as_json:
        say_json({"replaced": True, "version": done.version, "before": done.before, "server": seen, **about})
        return 0
    certificate, counts = about["certificate"], about["counts"]
    click.echo(f"{done.version} decides from now on, instead of {done.before or 'the surrogate that ships'}.")
    tiers = f"{counts['simple']} simple, {counts['complex']} complex"
    since = f" that came since {about['learned_since']}" if "learned_since" in about else ""
    click.echo(f"Fitted on {counts['rows']} texts{since} ({tiers}): {about['method']}")
    click.echo(
        f"It decides {certificate['coverage']:.0%} of them, {certificate['agreement']:.1%} of it as the teacher does; "
        f"at least {certificate['lower']:.1%}, with a confidence of {certificate['confidence']:.0%}."
    )
    for remark in (done.fitted.note, done.remark):
        if remark:
            click.echo(remark, err=True)
    if seen is None:
        click.echo("No server was asked; one that runs follows by itself.", err=True)
    return 0
