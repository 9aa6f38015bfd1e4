"""What a test can do inside of a running server: move its wall clock, and let it die at a named moment."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path
from typing import Literal

from .gateway import ROOT

WITHIN = Path(__file__).resolve().parent / "within"
PATH = {"PYTHONPATH": f"{WITHIN}{os.pathsep}{ROOT}"}


class WallClock:
    """The wall clock of every process that is started with its `env`."""

    def __init__(self) -> None:
        fd, name = tempfile.mkstemp(prefix="hermes-clock-")
        os.write(fd, struct.pack("d", 0.0))
        os.close(fd)
        self._path = Path(name)
        self.env = {**PATH, "HERMES_TEST_CLOCK": name}

    def move(self, seconds: float) -> None:
        """Lets it be so far from the right time, from now on."""
        with open(self._path, "r+b") as file:
            file.write(struct.pack("d", seconds))

    def close(self) -> None:
        """Removes its file."""
        self._path.unlink(missing_ok=True)


class CrashPoints:
    """Moments at which a process that is started with its `env` dies, one for each arming."""

    def __init__(self, whom: Literal["server", "command"], *functions: str) -> None:
        """
        Args:
            whom: a server dies with its master, a command alone.
            functions: each as `module:name` or `module:Class.name`.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="hermes-crash-")
        self._armed = Path(self._folder.name) / "armed"
        self.env = {**PATH, "HERMES_TEST_CRASH": " ".join((whom, str(self._armed), *functions))}

    def arm(self, moment: Literal["before", "after"], function: str) -> None:
        """From now on the next who comes there dies."""
        unfinished = self._armed.with_suffix(".new")
        unfinished.write_text(f"{moment} {function}", encoding="utf-8")
        unfinished.rename(self._armed)

    @property
    def was_met(self) -> bool:
        """Whether somebody has died there since it was armed."""
        return not self._armed.exists()

    def close(self) -> None:
        """Removes its file."""
        self._folder.cleanup()
