"""Budgets that come into force while the gateway runs: their counters are filled from the usage log anew.

A counter is kept up only while its budget is in force. One that was made, removed and made again, or whose unit or time
zone went to and fro, may have a counter from before; and one that another process has just made may have been filled
before this process knew of it, and without this process's rows. So each process that learns of a change first moves
its rows to the database, and then breaks the seals of the counters concerned: the next request fills them. What ends
after a process has learned of it is counted by its hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import gevent

from hermes.admission.books import Books
from hermes.admission.claims import storable
from hermes.directory import EACH, Directory

Counted = tuple[str, str, str]
"""Scope, period and name of those whose counters are meant."""

TRY_AGAIN_S: Final = 1.0
LATE_S: Final = 7.0
"""A filling for which the usage log was asked before the rows were there is sealed by then."""


class BudgetChanges:
    """Notices them in one process."""

    def __init__(
        self,
        books: Books,
        flush: Callable[[], bool],
        clock: Callable[[], float] = time.time,
        late_s: float = LATE_S,
    ) -> None:
        """
        Args:
            flush: moves this process's rows to the database, and says whether they are there.
        """
        self._books = books
        self._flush = flush
        self._clock = clock
        self._late_s = late_s
        self._known: frozenset[tuple[Counted, str]] | None = None
        self._timezone: str | None = None
        self._changed: set[Counted] = set()
        self._is_every = False
        self._filling: gevent.Greenlet | None = None

    def directory_is(self, directory: Directory) -> None:
        """The budgets in force from now on; does not wait."""
        known = frozenset(
            ((budget.scope, budget.period, "" if budget.scope == "global" else storable(budget.id)), budget.unit)
            for budget in directory.budgets
        )
        if self._known is not None and self._known != known:
            self._changed |= {counted for counted, _ in self._known ^ known}
            self._begin()
        self._known = known

    def timezone_is(self, timezone: str) -> None:
        """Where days begin from now on; does not wait."""
        if self._timezone is not None and self._timezone != timezone:
            self._is_every = True
            self._begin()
        self._timezone = timezone

    def _begin(self) -> None:
        if self._filling is None or self._filling.ready():
            self._filling = gevent.spawn(self._fill_anew)

    def _fill_anew(self) -> None:
        while self._changed or self._is_every:
            changed, is_every = self._changed, self._is_every
            self._changed, self._is_every = set(), False
            while not self._flush():
                gevent.sleep(TRY_AGAIN_S)  # without the rows a new filling would be worse than the old one
            flushed_s = self._clock()
            which = partial(_is_of, None if is_every else changed)
            self._books.distrust(which, flushed_s)
            gevent.spawn_later(self._late_s, self._books.distrust, which, flushed_s)


def _is_of(changed: set[Counted] | None, account: str) -> bool:
    """Whether an account is of one whose budget has changed; None: any may have. By its scope, period and name alone: a
    name's own budget stands in the place of each one's.
    """
    if changed is None:
        return True
    _, period, _, scope, name = account.split(":", 4)
    return (scope, period, name) in changed or (scope, period, EACH) in changed
