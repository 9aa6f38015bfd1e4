"""Keeps the directory in force as the database has it: own changes at once, those of other processes soon."""

from __future__ import annotations

from collections.abc import Callable

from gevent.lock import BoundedSemaphore

from hermes.directory import Directory, DirectoryBox


class LiveDirectory:
    """Loads the directory and puts it in force.

    One load at a time: a picture that was read earlier must not be put in force after a later one.
    """

    def __init__(self, box: DirectoryBox, version: Callable[[], int], load: Callable[[], Directory]) -> None:
        self._box = box
        self._version = version
        self._load = load
        self._loading = BoundedSemaphore(1)

    def refresh(self) -> None:
        """Loads it, whatever has changed; after a change of one's own. A database's fault leaves the last one in
        force.
        """
        with self._loading:
            self._box.swap(self._load())

    def refresh_if_changed(self) -> None:
        """Loads it if there was a change since; for a loop."""
        with self._loading:
            if self._version() != self._box.current().version:
                self._box.swap(self._load())

    def newest(self) -> Directory:
        """The directory with every change there is. Raises `DatabaseUnavailable`: nobody knows whether there is one."""
        self.refresh_if_changed()
        return self._box.current()
