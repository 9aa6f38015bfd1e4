"""`doctor`: looks at everything that a server needs, and says of each thing what is to be done about it.

Everything is looked at, whatever is found on the way. It changes nothing: not a folder, table or row is made. The
endpoints are asked for a single token, which is the one thing that may cost something; `--offline` leaves them out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console

from hermes import configfile
from hermes.cli import doctor_beside, doctor_endpoints, doctor_ledger, doctor_machine
from hermes.cli.findings import Finding, as_json, cleaned, is_good, show
from hermes.cli.start import Start
from hermes.errors import ConfigurationInvalid, StartRefused
from hermes.observe import logs
from hermes.observe.redact import Redactor
from hermes.policy import Policy
from hermes.settings import Settings


class _Seconds(click.FloatRange):
    """As its parent, which lets NaN pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds.", param, ctx)
        return seconds


@click.command()
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON for scripts.")
@click.option("--offline", is_flag=True, help="Ask no endpoint.")
@click.option(
    "--timeout",
    "timeout_s",
    type=_Seconds(0.1, 600),
    default=5.0,
    show_default=True,
    help="How long an endpoint may take to answer, in seconds.",
)
def doctor(json_wanted: bool, offline: bool, timeout_s: float) -> int:
    """Look at all that a server needs, and say what to fix.

    The configuration, the keys, the database, the shared state, the folders and disks, every endpoint (one token of
    each, which may cost something) and the server that runs at the configured address. Nothing is changed.
    """
    console = Console(highlight=False)
    with Console(stderr=True).status("Looking …"):
        findings = examine(os.environ, offline=offline, timeout_s=timeout_s)
    if json_wanted:
        click.echo(as_json(findings))
    else:
        show(findings, console)
    return 0 if is_good(findings) else 1


def examine(environ: Mapping[str, str], *, offline: bool, timeout_s: float) -> list[Finding]:
    """Everything that was found, in the order in which it is best put right; without secrets."""
    try:
        settings = Settings.from_env(environ)
        logs.check(settings.log_level, settings.log_format)
    except StartRefused as refused:
        first = Finding("environment", "fail", str(refused), "the rest can only be looked at when this is right")
        return cleaned([first], Redactor())
    policy, findings = _configuration(settings, environ)
    start = Start(settings, policy)
    findings += doctor_machine.examine(start, environ)
    findings += doctor_endpoints.examine(start, is_offline=offline, timeout_s=timeout_s)
    findings += doctor_beside.examine(start, is_offline=offline, timeout_s=timeout_s)
    findings.append(doctor_endpoints.running_server(start, timeout_s))
    findings.append(doctor_ledger.examine(start, environ, timeout_s))
    secrets = policy.secrets if policy else frozenset()
    return cleaned(findings, Redactor({*secrets, settings.secret, settings.state_password()}))


def _configuration(settings: Settings, environ: Mapping[str, str]) -> tuple[Policy | None, list[Finding]]:
    """The policy that would be in force (None: the demo's, or none at all), with what is wrong or odd about it."""
    path = settings.config_path()
    if settings.wants_demo():
        why = "HERMES_DEMO is set" if settings.demo else f"there is no {path} here"
        fix = "copy router_config.example.yaml to router_config.yaml and name your models in it"
        return None, [
            Finding(
                "configuration", "warn", f"{why}, so the embedded demo provider answers", "" if settings.demo else fix
            )
        ]
    try:
        policy = configfile.load(path, environ)
    except ConfigurationInvalid as invalid:
        fix = "put it right; `python -m hermes config check` looks again"
        return None, [Finding("configuration", "fail", line, fix) for line in invalid.lines()]
    findings = [Finding("configuration", "warn", warning) for warning in policy.warnings]
    if not findings:
        tiers = ", ".join(f"{len(cascade.endpoints)} of {tier}" for tier, cascade in policy.cascades.items())
        findings.append(Finding("configuration", "ok", f"{path} can be used; endpoints: {tiers}"))
    return policy, findings
