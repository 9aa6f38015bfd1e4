"""Secrets: read from the environment by the names that the file gives, cleaned, and remembered for redaction.

A sentence names the variable, never its value.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from hermes.configfile.findings import Findings, Path
from hermes.configfile.leaves import is_env_name
from hermes.types import ProviderKey, Secret

SHORTEST_SECRET: Final = 6
"""Shorter texts are not redacted: they would black out ordinary words."""

_SMELLS = re.compile(r"(?i)key|token|secret|password|passwd|auth|cookie|signature|^sig$")
"""Names whose value is a secret wherever it stands."""

_SHAPED = re.compile(r"(?=\S{16})(?=\S*\d)\S*[A-Za-z0-9]{12}\S*")
"""A value that is one by its shape, whatever its name: long, in one piece, with a digit and a run that is no date, no
version and no word."""

Fault = Literal["", "missing", "unusable"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What an environment variable holds."""

    text: str = ""
    fault: Fault = ""
    sentence: str = ""


@dataclass(slots=True)
class Environment:
    """The process's environment, read under the eyes of `findings`."""

    values: Mapping[str, str]
    findings: Findings
    secrets: set[str] = field(default_factory=set)
    """Every secret seen so far."""

    def read(self, name: str, path: Path) -> Reading:
        """The variable's text without white space around it; warns where some was cut."""
        raw = self.values.get(name)
        if raw is None:
            return Reading(fault="missing", sentence=f"environment variable {name} is not set")
        text = raw.strip()
        if not text:
            return Reading(fault="missing", sentence=f"environment variable {name} is empty")
        self.remember(text)
        if any(unicodedata.category(c) in ("Cc", "Cs") or ord(c) > 255 for c in text):
            sentence = f"environment variable {name} holds a line break or another character that no header can carry"
            return Reading(fault="unusable", sentence=sentence)
        if text != raw:
            self.findings.warn(path, f"white space around the value of environment variable {name} is ignored")
        return Reading(text)

    def admin_key(self, name: str, path: Path) -> Secret | None:
        """The key of the admin routes; None closes them."""
        if not name:
            self.findings.warn(path, "is empty: every admin route answers 401")
            return None
        reading = self.read(name, path)
        if reading.fault == "unusable":
            self.findings.problem(path, reading.sentence)
        return Secret(reading.text) if reading.text else None

    def provider_keys(self, names: list[tuple[str, Path]], needed: bool) -> tuple[ProviderKey, ...]:
        """The usable keys of an endpoint, each value once.

        Args:
            names: environment variables with their places.
            needed: whether the tier cannot do without this endpoint; a missing key is then a problem, else a warning.
        """
        keys: dict[str, ProviderKey] = {}
        missing: list[tuple[Path, str]] = []
        for name, path in names:
            reading = self.read(name, path)
            if reading.fault == "unusable":
                self.findings.problem(path, reading.sentence)
            elif reading.fault == "missing":
                missing.append((path, reading.sentence))
            elif reading.text not in keys:
                keys[reading.text] = ProviderKey(name, Secret(reading.text))
            elif keys[reading.text].env != name:
                self.findings.warn(path, f"{name} holds the same key as {keys[reading.text].env}; it is used once")
        for path, sentence in missing:
            if needed and not keys:
                self.findings.problem(path, sentence)
            else:
                self.findings.warn(path, sentence + ("" if keys else "; without a key this endpoint is skipped"))
        return tuple(keys.values())

    def header(self, name: str, value: str, path: Path) -> Secret | None:
        """A header's value: as written, or for `env:NAME` from the environment. None: there is a problem."""
        if not value.startswith("env:"):
            if not value or any(ord(c) > 255 for c in value):
                self.findings.problem(path, "a header's value is one line of Latin-1 text, or env:NAME")
                return None
            self._remember_named(name, value)
            return Secret(value)
        variable = value.removeprefix("env:").strip()
        if not is_env_name(variable):
            self.findings.problem(path, "must be env: and the name of an environment variable (letters, digits, _)")
            return None
        reading = self.read(variable, path)
        if reading.fault:
            self.findings.problem(path, reading.sentence)
            return None
        return Secret(reading.text)

    def remember(self, text: str) -> None:
        """Adds a secret to those that logs and answers must not show."""
        if len(text) >= SHORTEST_SECRET:
            self.secrets.add(text)

    def remember_url(self, url: str) -> None:
        """Adds what a URL hides: its user part, also as the header that it becomes, and secrets of its query."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        if at:
            name, colon, password = user.partition(":")
            plain = f"{unquote(name)}:{unquote(password)}"
            hidden = {user, plain, password if colon else name, unquote(password if colon else name)}
            for text in (*hidden, base64.b64encode(plain.encode()).decode()):
                self.remember(text)
        for name, value in parse_qsl(parts.query):
            self._remember_named(name, value)

    def _remember_named(self, name: str, value: str) -> None:
        if _SMELLS.search(name) or _SHAPED.fullmatch(value):
            self.remember(value)
