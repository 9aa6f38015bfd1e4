"""Looks at the configuration file while somebody has a page open: reads it anew where it, or what runs, is another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hermes.errors import ConfigurationInvalid
from hermes.instance import Hermes
from hermes.policy import Policy
from hermes.web.dashboard.views.config import Look
from hermes.web.dashboard.views.kept import Kept

LOOK_S: Final = 2.0


class Watch:
    """The file that a reload would read."""

    def __init__(self, hermes: Hermes) -> None:
        self._hermes = hermes
        self._last: tuple[str, Policy, Look] | None = None
        self._kept = Kept(self._look, LOOK_S)

    def look(self) -> Look:
        """The file as it is now, give or take two seconds."""
        return self._kept.get()

    def forget(self) -> None:
        """Somebody opens the page: the next look is at the file as it is by then."""
        self._kept.forget()

    def again(self) -> Look:
        """Reads it in any case: what it needs (a variable, a folder) may be there by now."""
        self._last = None
        self._kept.forget()
        return self._kept.get()

    def _look(self) -> Look:
        path = self._hermes.settings.config_path()
        version, modified_at = _version(path)
        running = self._hermes.policies.current()
        if self._last is not None and self._last[:2] == (version, running):
            return self._last[2]
        look = self._read(path, version, modified_at)
        self._last = (version, running, look)
        return look

    def _read(self, path: Path, version: str, modified_at: float | None) -> Look:
        try:
            policy = self._hermes.check_configuration()
        except ConfigurationInvalid as invalid:
            return Look(str(path), version, modified_at, None, invalid.problems, invalid.warnings)
        is_demo = self._hermes.demo is not None and policy.source == "demo"
        return Look(str(path), version, modified_at, policy, warnings=policy.warnings, is_demo=is_demo)


def _version(path: Path) -> tuple[str, float | None]:
    try:
        found = os.stat(path)
    except OSError:
        return "", None
    return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}", found.st_mtime
