"""Programs in sessions of their own, pinned to a core, and what `/proc` says they use, their children included."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
ALLOWED_CPUS = os.sched_getaffinity(0)
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0

ANSWER_LIMIT_S = 5.0
ASK_FOR_GREENLETS = signal.SIGRTMIN + 7
"""As in `insight/sitecustomize.py`."""

STATE, SESSION, USER_TICKS, SYSTEM_TICKS = 0, 3, 11, 12
"""Fields of `/proc/PID/stat` behind the program's name."""


IDLE, WAITING = 3, 4
"""Fields of the first line of `/proc/stat`."""


@contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Programs that are started in the block run on this core (on the only one, where there is one)."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu} & ALLOWED_CPUS or ALLOWED_CPUS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def clean_up_when_told_to_end() -> None:
    """SIGTERM ends this program as Ctrl-C does: the servers, which have sessions of their own, are stopped first."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def busy_share(seconds: float = 1.0) -> float:
    """Which share of all cores others use, looked at for so long while this program does nothing."""
    before = _cpu_ticks()
    time.sleep(seconds)
    spent = [after - was for after, was in zip(_cpu_ticks(), before, strict=True)]
    return 1 - (spent[IDLE] + spent[WAITING]) / max(1, sum(spent))


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Process:
    """A running program and its children."""

    def __init__(self, command: Sequence[str], *, cpu: int, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._log = folder / "server.log"
        with pinned(cpu), self._log.open("ab") as log:
            self._popen = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Waits for that; ends the program where it takes too long. A connection that fails means not yet.

        Raises:
            RuntimeError: with what the program has printed.
        """
        until = time.monotonic() + START_LIMIT_S
        try:
            while not _holds(is_ready):
                if self._popen.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"The server did not start:\n{self.printed()[-2000:]}")
                time.sleep(0.02)
        except BaseException:  # nobody else knows of it yet
            self.kill()
            raise

    def wait_until_listening(self, port: int) -> None:
        """Waits until somebody accepts connections; raises as `wait_until`."""
        self.wait_until(lambda: _accepts(port))

    def stop(self) -> None:
        """Asks for an orderly end, and insists after a while."""
        if self._popen.poll() is None:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(STOP_LIMIT_S)
        self.kill()

    def kill(self) -> None:
        """Ends it and its children at once, with a signal that nobody can catch."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait(STOP_LIMIT_S)

    def kill_workers(self) -> None:
        """Ends the children alone in the same way."""
        for pid, _ in self._members():
            if pid != self._popen.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def printed(self) -> str:
        """All that it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    # -- what it uses ------------------------------------------------------------------------------------------

    def cpu_s(self) -> float:
        """CPU seconds so far, user and system."""
        ticks = [int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS]) for _, fields in self._members()]
        return sum(ticks) / TICKS_A_SECOND

    def cpu_ns(self) -> int:
        """The same to the nanosecond, but of what lives alone."""
        tasks = (task for pid, _ in self._members() for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        return sum(int(task.read_text().split()[0]) for task in tasks)

    def resident_bytes(self) -> int:
        """Memory now."""
        return sum(_kilobytes(f"/proc/{pid}/status", "VmRSS") for pid, _ in self._members()) * 1024

    def shared_once_bytes(self) -> tuple[int, int]:
        """Memory now, of all processes and of the largest; pages that several of them use are shared out."""
        found = [_kilobytes(f"/proc/{pid}/smaps_rollup", "Pss") * 1024 for pid, _ in self._members()]
        return sum(found), max(found)

    def peak_bytes(self) -> int:
        """The most memory since `forget_peak`."""
        return sum(_kilobytes(f"/proc/{pid}/status", "VmHWM") for pid, _ in self._members()) * 1024

    def forget_peak(self) -> None:
        """Lets the peak begin anew with what is resident now."""
        for pid, _ in self._members():
            Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")

    def descriptors(self) -> int:
        """Open files and sockets."""
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid, _ in self._members())

    def threads(self) -> int:
        """Threads of the operating system."""
        return sum(len(os.listdir(f"/proc/{pid}/task")) for pid, _ in self._members())

    def greenlets(self) -> list[str]:
        """Where each living greenlet of the workers stands, besides those that began with them; of servers with
        `lab/insight`.
        """
        lines: list[str] = []
        for pid, _ in self._members():
            if pid != self._popen.pid:
                answer = self.folder / f"greenlets.{pid}"
                answer.unlink(missing_ok=True)
                os.kill(pid, ASK_FOR_GREENLETS)
                until = time.monotonic() + ANSWER_LIMIT_S
                while not answer.exists() and time.monotonic() < until:
                    time.sleep(0.01)
                lines += answer.read_text(encoding="utf-8").splitlines()
        return lines

    def _members(self) -> list[tuple[int, list[str]]]:
        """Number and `stat` fields of every process of the session that lives."""
        members = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with suppress(OSError):
                    line = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
                    fields = line.rpartition(")")[2].split()
                    if int(fields[SESSION]) == self._popen.pid and fields[STATE] != "Z":
                        members.append((int(entry.name), fields))
        return members


def _cpu_ticks() -> list[int]:
    """User, nice, system, idle, waiting, interrupts (two), stolen; guests are in the first two."""
    with open("/proc/stat", encoding="ascii") as stat:
        return [int(field) for field in stat.readline().split()[1:9]]


def _holds(is_ready: Callable[[], bool]) -> bool:
    try:
        return is_ready()
    except OSError:
        return False


def _accepts(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 1.0):
        return True


def _kilobytes(path: str, name: str) -> int:
    """A figure of a file in `/proc`; 0 where the process has just ended."""
    with suppress(OSError):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
    return 0
