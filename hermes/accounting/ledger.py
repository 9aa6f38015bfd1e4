"""Requests in = rows out + in flight: counts both sides for this process, and says by how many rows they differ.

The one side is counted here: each request that must leave a row, and each row that was appended to the spool. The other
one is counted by the database, in the transactions that store the rows: how many of this process's rows are new in it.
What is still in the spool or could never be stored is known, and whatever is missing then is lost: somebody has removed
a file, a disk has forgotten what it took, memory was full.

Each process looks after its own rows, whoever moves them. Rows of a process that has died are moved by others and are
nobody's account any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from hermes.types import UsageRecord

log = logging.getLogger("hermes-router")


class Spool(Protocol):
    """Where rows wait."""

    @property
    def writer(self) -> str:
        """Names the process whose rows are appended."""

    def append(self, record: UsageRecord) -> None:
        """Keeps a row."""

    def depth(self) -> int:
        """How many rows of this process wait."""


class Drain(Protocol):
    """What moves them."""

    own_rejected: int
    """How many rows of this process can never be stored."""

    def resting(self) -> AbstractContextManager[None]:
        """While it is entered, nothing is moved."""


class Ledger:
    """The account of one process's rows."""

    def __init__(self, spool: Spool, drain: Drain, stored: Callable[[str], int]) -> None:
        """
        Args:
            stored: how many rows of a process the database has ever taken, by the process's name.
        """
        self.requests = 0
        """Requests that must leave a row, since the start."""

        self.appended = 0
        """Rows that were written down for them."""

        self.gap = 0
        """Rows that were missing when it was looked at last: in no database, no spool, and not rejected either."""

        self._spool = spool
        self._drain = drain
        self._stored = stored

    @property
    def in_flight(self) -> int:
        """Requests whose row is still to come."""
        return self.requests - self.appended

    def begin(self) -> None:
        """A request has begun that must leave a row."""
        self.requests += 1

    def append(self, record: UsageRecord) -> None:
        """A request is over: keeps its row."""
        self._spool.append(record)
        self.appended += 1

    def check(self) -> None:
        """Compares both sides; for a loop. Says in the log when rows have come to be missing.

        While the database does not answer, the last finding holds.
        """
        with self._drain.resting():
            try:
                stored = self._stored(self._spool.writer)
            except Exception as error:  # noqa: BLE001  (an edge: the drain tells of the database's faults)
                log.debug("The database was not asked for the ledger: %s", error)
                return
            # Nothing switches greenlets from here on, and nothing was moved since the database was asked.
            missing = self.appended - stored - self._drain.own_rejected - self._spool.depth()
        gap = max(0, missing)  # of a slice that was stored in part, all rows still wait
        if gap > self.gap:
            log.error("Usage rows are missing that were in the spool, and are not in the database: %d", gap)
        self.gap = gap
