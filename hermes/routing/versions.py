"""The folder of fitted surrogates: one directory a version, of which the file `current` names the one that decides.

A version is written under a name that nobody reads, checked, and renamed; then `current` is replaced in one step. So a
server that looks at any moment finds either the old version or the new one, whole. The last few are kept, to go back
to.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hermes import private
from hermes.errors import HermesError
from hermes.routing.artifact import MANIFEST, POINTER, STARTER, digest

KEPT: Final = 5
LOCK: Final = ".lock"
UNFINISHED: Final = ".unfinished-"

VERSION: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}(?:\.\d+)?")


class VersionRefused(HermesError):
    """What was asked of the versions cannot be done; the text says why."""


class Versions:
    """The versions in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """All, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = (path.name for path in self.folder.iterdir() if (path / MANIFEST).is_file())
        return sorted(name for name in found if VERSION.fullmatch(name))

    def current(self) -> str | None:
        """The one that decides; None: the starter."""
        try:
            name = (self.folder / POINTER).read_text(encoding="utf-8").strip()
        except OSError:
            return None
        return None if name in ("", STARTER) else name

    def add(self, name: str, write: Callable[[Path], None], check: Callable[[Path], None]) -> str:
        """Writes a version without putting it in force, and gives its name.

        Args:
            write: fills a directory.
            check: raises where what was written is not sound; nothing stays then.
        """
        unfinished = self.folder / f"{UNFINISHED}{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            private.make_folder(self.folder)
            unfinished.mkdir(private.FOLDER_MODE)
            write(unfinished)
            check(unfinished)
            free = name
            number = 2
            while (self.folder / free).exists():
                free, number = f"{name}.{number}", number + 1
            unfinished.rename(self.folder / free)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        return free

    def put_in_force(self, name: str | None) -> None:
        """Lets a version decide from now on, in every server that reads this folder; None: the starter.

        Raises:
            VersionRefused: there is none of that name.
        """
        if name is not None and name not in self.names():
            raise VersionRefused(f"There is no version {name} in {self.folder}; there are: {self._listed()}.")
        unfinished = self.folder / f"{UNFINISHED}{POINTER}"
        unfinished.write_text(f"{name or STARTER}\n", encoding="utf-8")
        os.replace(unfinished, self.folder / POINTER)

    def roll_back(self, to: str | None = None) -> tuple[str | None, str | None]:
        """Goes back to the version before the one in force, or to a named one; which it was and which it is now.

        Before the first version was the starter: None.

        Raises:
            VersionRefused: there is nothing to go back to.
        """
        was = self.current()
        if to is not None:
            target: str | None = None if to == STARTER else to
        elif was is None:
            raise VersionRefused("The surrogate that ships with Hermes decides; there is nothing before it.")
        else:
            target = max((name for name in self.names() if name < was), default=None)
        self.put_in_force(target)
        return was, target

    def drop(self, name: str) -> None:
        """Deletes a version."""
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def drop_oldest(self, kept: int = KEPT) -> list[str]:
        """Deletes all but the newest and the one in force; which."""
        current = self.current()
        dropped = [name for name in self.names()[:-kept] if name != current]
        for name in dropped:
            self.drop(name)
        return dropped

    def manifest_sha256(self, name: str) -> str:
        """What a server's version name ends with the beginning of."""
        return digest(self.folder / name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the folder: two fits at once would judge each other's half-finished work.

        Raises:
            VersionRefused: another process holds it, or it is no folder for versions.
        """
        if (self.folder / MANIFEST).is_file():
            raise VersionRefused(
                f"{self.folder} is itself a fitted surrogate: name another folder, which can hold several"
            )
        private.make_folder(self.folder)
        lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise VersionRefused(f"Another process is fitting a surrogate in {self.folder}.") from None
        try:
            yield
        finally:
            os.close(lock)

    def _listed(self) -> str:
        return ", ".join(self.names()) or "none"
