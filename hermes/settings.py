"""Every environment setting once: name, type, default, meaning.

`tests/unit/test_configfile_documents.py` compares these with `docs/configuration.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hermes.errors import StartRefused

ROOT = Path(__file__).resolve().parent.parent
"""Where the project's own files stand; Hermes runs from any working directory."""

FALSE_WORDS = frozenset({"0", "false", "no", "off"})
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
SECRET_MIN_CHARS = 16
MEMORY = "memory://"
LONGEST_S = 86_400.0
"""Of every setting in seconds, as in the configuration file: a day."""

BIND = re.compile(r"(?:[^\s:/,\[\]]*|\[[^\s/,\[\]]+\]):([0-9]{1,5})|unix:[^\s,]+|fd://[0-9]+")
PORT_MAX = 65_535
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+|null")
CLOSE = 0.88
"""How alike two names of variables are when one is a slip of the other."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the process is told by its environment; the operator's policy is in the configuration file."""

    config: str = ""
    """HERMES_CONFIG: the configuration file. Empty: `./router_config.yaml`."""

    database_url: str = "sqlite:///data/hermes.db"
    """HERMES_DATABASE_URL: `sqlite:///PATH` or `postgresql://…`."""

    state_url: str = field(default="memory://", repr=False)
    """HERMES_STATE_URL: where sessions, breakers and limits are kept: `memory://`, for exactly one worker, or
    `redis://[[user]:password@]host[:port][/number]` (`rediss://` with TLS), for any number of workers and machines.
    """

    spool_dir: str = ""
    """HERMES_SPOOL_DIR: where usage rows wait for the database. Empty: `spool` beside the SQLite file, else
    `data/spool`.
    """

    secret: str = field(default="", repr=False)
    """HERMES_SECRET: what API keys are checked with, at least 16 characters; the same on every machine. Empty: the file
    `secret` beside the SQLite file or the spool, which is made at the first start.
    """

    off_file: str = "data/gateway.off"
    """HERMES_OFF_FILE: while this file is there, completions are refused, whatever the database says."""

    bind: str = ""
    """HERMES_BIND: `host:port`, or a socket: `unix:PATH`, `fd://NUMBER`. Empty: `server.host` and `server.port`."""

    workers: int = 1
    """WEB_CONCURRENCY: worker processes, at least one."""

    demo: bool = False
    """HERMES_DEMO: use the embedded demo provider even if a configuration file is there."""

    log_level: str = "INFO"
    """LOG_LEVEL: DEBUG, INFO, WARNING or ERROR."""

    log_format: str = "plain"
    """LOG_FORMAT: `plain` or `json`."""

    cors_origins: str = "*"
    """CORS_ORIGINS: origins that browsers may call from, separated by commas."""

    trace_log_dir: str = "./traces"
    """TRACE_LOG_DIR: where trace files are written."""

    trace_log_max_bytes: int = 10_485_760
    """TRACE_LOG_MAX_BYTES: a trace file is rotated at this size."""

    trace_log_backups: int = 5
    """TRACE_LOG_BACKUPS: how many rotated files of a day are kept."""

    trace_log_enabled: bool = True
    """TRACE_LOG_ENABLED: `false` or `0` switch traces off."""

    connect_timeout_s: float = 5.0
    """HERMES_CONNECT_TIMEOUT_S: how long an endpoint may take to accept a connection, in seconds."""

    grace_s: float = 600.0
    """HERMES_GRACE_S: how long open streams may go on after SIGTERM, in seconds."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads the environment.

        Raises:
            StartRefused: a value is of the wrong type, or the combination cannot work.
        """
        given = os.environ if environ is None else environ
        values: dict[str, object] = {}
        for known in fields(cls):
            text = given.get(ENVIRONMENT[known.name], "").strip()
            if text:
                values[known.name] = _convert(ENVIRONMENT[known.name], text, type(known.default))
        settings = cls(**values)  # type: ignore[arg-type]
        settings.check()
        return settings

    def check(self) -> None:
        """Refuses what cannot work, with a sentence that says what to set.

        Raises:
            StartRefused: with the sentence.
        """
        self._check_numbers()
        self._check_bind()
        if self.state_url != MEMORY and not self.state_url.startswith(("redis://", "rediss://")):
            raise StartRefused("HERMES_STATE_URL must be memory:// or begin with redis:// or rediss://")
        try:
            _ = urlsplit(self.state_url).port
        except ValueError as error:
            raise StartRefused(f"HERMES_STATE_URL cannot be read: {error}") from None
        if self.workers > 1 and not self.shares_state():
            raise StartRefused(
                f"WEB_CONCURRENCY={self.workers} with HERMES_STATE_URL=memory://: workers could not see each other's "
                "sessions, breakers and limits. Set WEB_CONCURRENCY=1, or HERMES_STATE_URL=redis://HOST:6379/0."
            )
        if not self.database_url.startswith(("sqlite:///", "postgresql://", "postgres://")):
            raise StartRefused("HERMES_DATABASE_URL must begin with sqlite:/// or postgresql://")
        if self.secret and len(self.secret) < SECRET_MIN_CHARS:
            raise StartRefused(f"HERMES_SECRET must have at least {SECRET_MIN_CHARS} characters.")

    def _check_numbers(self) -> None:
        if self.workers < 1:
            raise StartRefused("WEB_CONCURRENCY must be a whole number from 1")
        if not 0 < self.connect_timeout_s <= LONGEST_S:  # not a number is none of these either
            raise StartRefused("HERMES_CONNECT_TIMEOUT_S must be more than 0 seconds, and at most a day")
        if not 0 <= self.grace_s <= LONGEST_S:
            raise StartRefused("HERMES_GRACE_S must be a number of seconds from 0, and at most a day")
        if self.trace_log_max_bytes < 1:
            raise StartRefused("TRACE_LOG_MAX_BYTES must be a whole number from 1")
        if self.trace_log_backups < 0:
            raise StartRefused("TRACE_LOG_BACKUPS must be a whole number from 0")

    def _check_bind(self) -> None:
        match = BIND.fullmatch(self.bind)
        is_good = match is not None and (match[1] is None or 1 <= int(match[1]) <= PORT_MAX)
        if self.bind and not is_good:
            raise StartRefused(
                f"HERMES_BIND must be host:port with a port from 1 to {PORT_MAX}, such as 0.0.0.0:8766, "
                "or a socket, unix:PATH or fd://NUMBER"
            )

    def config_path(self) -> Path:
        """The configuration file, which need not exist."""
        return Path(self.config or "router_config.yaml").expanduser()

    def shares_state(self) -> bool:
        """Whether other processes see this one's state."""
        return self.state_url != MEMORY

    def state_password(self) -> str:
        """The password of the shared state, or an empty text."""
        return unquote(urlsplit(self.state_url).password or "")

    def wants_demo(self) -> bool:
        """Whether the demo provider serves: where it is asked for, or where no configuration file is named or found."""
        return self.demo or (not self.config and not self.config_path().exists())

    def sqlite_path(self) -> Path | None:
        """The SQLite file, or None for another database."""
        prefix = "sqlite:///"
        return Path(self.database_url.removeprefix(prefix)) if self.database_url.startswith(prefix) else None

    def spool_path(self) -> Path:
        """The folder of the usage spool."""
        if self.spool_dir:
            return Path(self.spool_dir)
        sqlite = self.sqlite_path()
        return sqlite.parent / "spool" if sqlite is not None else Path("data/spool")

    def data_folder(self) -> Path:
        """Where this machine's own files are: beside the SQLite file or, without one, beside the spool."""
        sqlite = self.sqlite_path()
        return sqlite.parent if sqlite is not None else self.spool_path().parent


ENVIRONMENT: Mapping[str, str] = {
    "config": "HERMES_CONFIG",
    "database_url": "HERMES_DATABASE_URL",
    "state_url": "HERMES_STATE_URL",
    "spool_dir": "HERMES_SPOOL_DIR",
    "secret": "HERMES_SECRET",
    "off_file": "HERMES_OFF_FILE",
    "bind": "HERMES_BIND",
    "workers": "WEB_CONCURRENCY",
    "demo": "HERMES_DEMO",
    "log_level": "LOG_LEVEL",
    "log_format": "LOG_FORMAT",
    "cors_origins": "CORS_ORIGINS",
    "trace_log_dir": "TRACE_LOG_DIR",
    "trace_log_max_bytes": "TRACE_LOG_MAX_BYTES",
    "trace_log_backups": "TRACE_LOG_BACKUPS",
    "trace_log_enabled": "TRACE_LOG_ENABLED",
    "connect_timeout_s": "HERMES_CONNECT_TIMEOUT_S",
    "grace_s": "HERMES_GRACE_S",
}
"""The environment variable of each field."""


def remarks(environ: Mapping[str, str]) -> list[str]:
    """What in the environment has no effect, and was probably meant to have one."""
    known = set(ENVIRONMENT.values())
    found = []
    for name in sorted(name for name in environ if name.startswith("HERMES_") and name not in known):
        if close := get_close_matches(name, known, n=1, cutoff=CLOSE):
            found.append(f"The environment variable {name} is none of Hermes's. Did you mean {close[0]}?")
    for origin in origins_of(environ.get("CORS_ORIGINS", "*")):
        if origin != "*" and not ORIGIN.fullmatch(origin):
            found.append(f"CORS_ORIGINS: {origin!r} is no origin, such as https://app.example.com, and matches none.")
    return found


def origins_of(text: str) -> list[str]:
    """The origins of `CORS_ORIGINS`, as browsers spell them: without a slash at the end.

    >>> origins_of("https://App.example/, http://localhost:3000,")
    ['https://app.example', 'http://localhost:3000']
    """
    return [origin for part in text.split(",") if (origin := part.strip().rstrip("/").lower())]


def _convert(name: str, text: str, kind: type) -> object:
    if kind is bool:
        if text.lower() in TRUE_WORDS | FALSE_WORDS:
            return text.lower() in TRUE_WORDS
        raise StartRefused(f"{name} must be true or false")
    try:
        return kind(text)
    except ValueError:
        raise StartRefused(f"{name} must be a number") from None
