"""How many callers a worker has places for, which is a question of how many files it may have open.

gunicorn's master asks, so that this loads nothing of the application.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

FILES: Final = 65536
OTHER_FILES: Final = 100
CONNECTIONS: Final = 4000


def raised_file_limit() -> int:
    """How many files and connections this process and those it starts may have open, after asking for more: the usual
    1,024 are used up by 500 streams, which have two each.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return FILES if soft == resource.RLIM_INFINITY else soft


def connections_of(files: int) -> int:
    """How many callers a worker takes at once, when it may have so many files open.

    >>> connections_of(65536), connections_of(1024)
    (4000, 462)
    """
    return max(1, min(CONNECTIONS, (files - OTHER_FILES) // 2))
