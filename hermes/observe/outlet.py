"""Where log lines go out, without ever waiting: a reader who has stopped reading must not stop the whole server.

A pipe to a container's log driver, a terminal at which somebody has pressed Ctrl-S and a journal that hangs take
nothing any more, and whoever writes to them waits, the event loop included. Here what cannot be written at once is kept
and goes out before the next line; when there is too much of it, the newest lines are given up, counted and told of.
"""

from __future__ import annotations

import _socket
import os
import stat
from collections import deque
from contextlib import suppress
from typing import Any, Final, TextIO

KEPT_BYTES: Final = 1024 * 1024
"""As many of the waiting lines are kept."""


class Outlet:
    """A stream of text to a file descriptor. What nobody reads, or can read (a closed pipe), is given up."""

    def __init__(self, fd: int) -> None:
        """Raises OSError where the descriptor cannot be used like this."""
        self._socket: Any = None
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            self._socket = _socket.socket(fileno=os.dup(fd))
        else:
            # Opened anew, since the flag would hold for everybody who shares the old one: the shell, for instance.
            self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0

    def write(self, text: str) -> None:
        """Writes a line, or keeps it, or gives it up; returns at once."""
        line = text.encode(errors="backslashreplace")
        self.flush()
        if self._waiting_bytes + len(line) > KEPT_BYTES:
            self._lost += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self.flush()

    def flush(self) -> None:
        """Writes what has been kept, as far as it is taken."""
        while self._waiting:
            line = self._waiting.popleft()
            written = self._written(line)
            self._waiting_bytes -= written
            if written < len(line):
                self._waiting.appendleft(line[written:])
                return

    def take_lost(self) -> int:
        """How many lines were given up and not told of yet; 0 while others still wait."""
        if self._waiting or not self._lost:
            return 0
        lost, self._lost = self._lost, 0
        return lost

    def close(self) -> None:
        """Gives the descriptor back."""
        with suppress(OSError):
            self._socket.close() if self._socket is not None else os.close(self._fd)

    def _written(self, line: bytes) -> int:
        try:
            if self._socket is not None:
                return int(self._socket.send(line, _socket.MSG_DONTWAIT))
            return os.write(self._fd, line)
        except BlockingIOError:
            return 0
        except OSError:  # nobody can read it any more
            return len(line)


def outlet_of(stream: TextIO) -> TextIO | Outlet:
    """The stream itself where it never waits (a file, a buffer), else an outlet to the same place."""
    try:
        fd = stream.fileno()
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd):
            return Outlet(fd)
    except (OSError, ValueError, AttributeError):
        pass  # no descriptor, or one that may not be opened anew
    return stream
