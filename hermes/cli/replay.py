"""`replay`: decides recorded traffic anew, under another configuration or surrogate, and shows what would change."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes import configfile
from hermes.cli.directory import say_json, say_table
from hermes.cli.start import read_start
from hermes.errors import HermesError

if TYPE_CHECKING:
    from hermes.policy import Policy
    from hermes.storage.recorded import Recorded

DAY_HOURS = 24.0
MOST_VERDICTS = 100_000


@click.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another configuration; else the one in force.",
)
@click.option("--surrogate", "surrogate_path", metavar="DIR", help="Another surrogate: a version, or a folder of them.")
@click.option(
    "--hours", type=click.FloatRange(0, min_open=True), default=DAY_HOURS, show_default=True, help="How far back."
)
@click.option("--from", "source", metavar="DIR|DB", help="Traces or a database; else the database of this environment.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def replay(
    config_path: Path | None, surrogate_path: str | None, hours: float, source: str | None, as_json: bool
) -> int:
    """Decide recorded traffic anew, and see what would change.

    Tiers, who decides, calls of the teacher, and cost, from the requests in the database whose texts were stored in
    full; traces know no cost. Nobody is asked and nothing is changed: what the teacher would say is taken from what
    it has said.
    """
    # Here, since other commands and their help must not wait for these libraries.
    from hermes.cli.surrogate import progress
    from hermes.learning.replay import Replay
    from hermes.routing.surrogates import Surrogates
    from hermes.storage.usage_filter import utc_text

    policy = _policy(config_path, surrogate_path)
    surrogates = Surrogates()
    if warning := surrogates.prepare(policy.routing.surrogate):
        raise HermesError(warning)
    since = utc_text(datetime.fromtimestamp(time.time() - hours * 3600, UTC))
    with traffic(source, since) as (requests, number, verdicts), progress() as track:
        steps = track(requests, total=number, description="Requests")
        content = Replay(policy, surrogates.of, verdicts).run(steps).shown()
    if as_json:
        say_json(content)
        return 0
    for line in lines(content):
        click.echo(line)
    if content["requests"]:
        say_table([["", "now simple", "now complex"], *_moves(content)])
    return 0


@contextmanager
def traffic(source: str | None, since: str) -> Iterator[tuple[Iterator[Recorded], int, dict[str, str]]]:
    """Recorded requests, how many there are, and what the teacher is known to have said of texts.

    Raises:
        HermesError: there is no such place.
    """
    from hermes.learning.job import opened
    from hermes.learning.traced import recorded_in
    from hermes.learning.traffic import from_traces
    from hermes.storage.labels import LabelRepository
    from hermes.storage.recorded import RecordedRepository

    path = Path(source or "")
    if source is not None and path.is_dir():
        told = recorded_in(path, since)
        yield iter(told), len(told), {one.text: one.tier for one in reversed(from_traces(path, MOST_VERDICTS))}
        return
    if source is None:
        url = read_start(os.environ).settings.database_url
    elif "://" in source or path.is_file():
        url = source if "://" in source else f"sqlite:///{path}"
    else:
        raise HermesError(f"{source} is neither a folder of traces nor a database.")
    with opened(url) as database:
        recorded = RecordedRepository(database)
        verdicts = {one.text: one.tier for one in reversed(LabelRepository(database).taught(MOST_VERDICTS))}
        yield recorded.since(since), recorded.count(since), verdicts


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    """What is told beside the table of tiers."""
    without = f"{content['unjudged']} have no full text and {content['forced']} were forced"
    yield f"Requests      {content['requests']}, of which {without}"
    cost, calls = content["cost_usd"], content["teacher_calls"]
    unpriced = f" ({cost['unpriced']} without a known price)" if cost["unpriced"] else ""
    yield f"Cost          ${cost['before']:.6f} before, ${cost['after']:.6f} after{unpriced}"
    guessed = f" ({calls['guessed']} with an answer that is not known)" if calls["guessed"] else ""
    yield f"Teacher       {calls['before']} calls before, {calls['after']} after{guessed}"
    for name in ("before", "after"):
        decided = ", ".join(f"{source} {count}" for source, count in content["decided_by"][name].items())
        yield f"Decided {name:6}{decided or 'nothing'}"
    yield f"Other tier    {content['moved']}"


def _moves(content: Mapping[str, Any]) -> list[list[str]]:
    return [[f"was {was}", *(str(count) for count in now.values())] for was, now in content["tiers"].items()]


def _policy(config_path: Path | None, surrogate_path: str | None) -> Policy:
    policy = configfile.load(config_path, os.environ) if config_path else read_start(os.environ).policy
    if policy is None:
        raise HermesError("There is no configuration here; name one with --config.")
    if surrogate_path is None:
        return policy
    if not Path(surrogate_path).is_dir():
        raise click.BadParameter(f"{surrogate_path} is no folder", param_hint="'--surrogate'")
    surrogate = replace(policy.routing.surrogate, enabled=True, path=surrogate_path)
    return replace(policy, routing=replace(policy.routing, surrogate=surrogate))
