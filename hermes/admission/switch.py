"""The kill switch: the pin `ai.gateway.enabled`, or a file that works when no database answers.

Whether the file is there is looked up beside the requests and never on their way, so a refusal costs one look at a
flag.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from hermes.directory import DirectoryBox
from hermes.errors import GatewayDisabled

log = logging.getLogger("hermes-router")


class KillSwitch:
    """Whether completions are served."""

    def __init__(self, directories: DirectoryBox, file: Path, exists: Callable[[Path], bool] = os.path.exists) -> None:
        self._directories = directories
        self._file = file.absolute()  # whatever the working directory becomes
        self._exists = exists
        self._by_file = False
        self._by_pin = False
        self._was_stopped = False
        directories.on_swap(lambda _: self.look())

    def look(self) -> None:
        """Looks at the pin and for the file; for a loop beside the requests, and called after each change of a pin."""
        self._by_pin = not self._directories.current().is_enabled
        self._by_file = self._exists(self._file)
        if self.is_stopped() != self._was_stopped:
            self._was_stopped = self.is_stopped()
            if self._was_stopped:
                log.warning("The kill switch is thrown, by %s: completions are refused", self._reason())
            else:
                log.warning("The kill switch is off again: completions are served")

    def is_stopped(self) -> bool:
        """Whether completions are refused."""
        return self._by_pin or self._by_file

    def stopping_file(self) -> Path | None:
        """The file that stops it, which only somebody on the machine can remove; None where there is none."""
        return self._file if self._by_file else None

    @property
    def file(self) -> Path:
        """What stops it even while the database is away, when somebody makes it."""
        return self._file

    def check(self) -> None:
        """Lets a completion pass.

        Raises:
            GatewayDisabled: the switch is thrown.
        """
        if self._by_pin or self._by_file:
            raise GatewayDisabled

    def _reason(self) -> str:
        return f"the file {self._file}" if self._by_file else "the pin ai.gateway.enabled"
