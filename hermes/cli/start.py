"""What a start reads before anything runs: the environment, then the configuration file, if there is one.

`serve` and `gunicorn.conf.py` both begin here, so that they cannot differ about the address or about what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes import configfile
from hermes.observe import logs
from hermes.policy import AuthPolicy, Policy, ServerPolicy
from hermes.settings import Settings


@dataclass(frozen=True, slots=True)
class Start:
    """What is known before the server runs."""

    settings: Settings
    policy: Policy | None
    """None: the demo provider serves."""

    @property
    def bind(self) -> str:
        """What gunicorn listens on: `host:port`, or a socket's path."""
        if self.settings.bind:
            return self.settings.bind
        server = self.policy.server if self.policy else ServerPolicy()
        host = f"[{server.host}]" if ":" in server.host else server.host
        return f"{host}:{server.port}"

    @property
    def url(self) -> str:
        """Where a program on this machine finds the server; without a path."""
        host, _, port = self.bind.rpartition(":")
        return f"http://{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"  # noqa: S104

    @property
    def admin_key_env(self) -> str:
        """The variable that holds the admin key."""
        return (self.policy.auth if self.policy else AuthPolicy()).admin_key_env


def read_start(environ: Mapping[str, str]) -> Start:
    """Reads the environment and the configuration file.

    Raises:
        StartRefused, ConfigurationInvalid: the server must not start like this.
    """
    settings = Settings.from_env(environ)
    logs.check(settings.log_level, settings.log_format)
    return Start(settings, None if settings.wants_demo() else configfile.load(settings.config_path(), environ))
