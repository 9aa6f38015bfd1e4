"""Locks that native threads may share in a process whose threading module gevent has patched.

gevent turns `threading.Lock` into a lock between greenlets of one thread. Two *native* threads (gevent's thread pool)
that contend for such a lock lose wake-ups: gevent 26.9 on Python 3.11 left workers asleep for ever on a plain
`threading.Lock`, on `logging`'s handlers and on peewee's own lock, or ended the process with `LoopExit`; its issues
#863 and #1698 tell of the same family. Hence two rules: what runs in a thread pool takes no patched lock, and the
locks that cannot be avoided there are made native at start, by the functions below.

A native lock stops the whole thread that waits for it, the event loop included. So it may only guard sections that
never switch greenlets: a write to standard error or a file, a few lines of Python.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gevent import monkey

native_lock: Callable[[], AbstractContextManager[Any]] = monkey.get_original("_thread", "allocate_lock")
"""Makes a lock of the operating system's threads, whether gevent has patched the process or not."""

# Not ("threading", "RLock"): under gevent that name gives a re-entrant lock in Python which is built on a patched lock.
native_rlock: Callable[[], AbstractContextManager[Any]] = monkey.get_original("_thread", "RLock")
"""Makes a re-entrant lock of the operating system's threads."""

native_ident: Callable[[], int] = monkey.get_original("_thread", "get_ident")
"""The number of the operating system's thread; gevent's own would be the greenlet's."""


def make_logging_native() -> None:
    """Gives logging, its present handlers and its future ones native locks.

    Call it once at start, after gevent has patched and before the first thread runs. Without it a log line written in a
    native thread (by a library, say) can stop the event loop. Safe to call again.
    """
    logging._lock = native_rlock()  # type: ignore[attr-defined]

    def create_lock(handler: logging.Handler) -> None:
        handler.lock = native_rlock()  # type: ignore[assignment]
        # Keeps logging's own promise: after a fork the child's locks are new.
        logging._register_at_fork_reinit_lock(handler)  # type: ignore[attr-defined]

    logging.Handler.createLock = create_lock  # type: ignore[method-assign, assignment]
    for reference in list(logging._handlerList):  # type: ignore[attr-defined]
        handler = reference()
        if handler is not None and handler.lock is not None:
            handler.lock = native_rlock()
